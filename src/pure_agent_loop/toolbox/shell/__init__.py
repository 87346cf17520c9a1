"""The tool ``shell``, and the policy that judges its lines.

    tool        running a line of the model in the best sandbox
    policy      allow, ask or deny
    syntax      from text to lines (line, words, listing, tiles), with tree-sitter
    wrappers    commands that run other commands
    disasters   what is refused
    harmless    what is allowed: commands, options, readers, git, find, awk
    rules       what the user's own rules say

docs/shell-policy.md says what is decided how.
"""
