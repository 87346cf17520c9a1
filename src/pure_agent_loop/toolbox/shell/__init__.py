"""The tool ``shell``, and the policy that judges its lines.

    tool        a line of the model in the best sandbox: read-only unless somebody approved it
    notes       what came of it, in words for the model
    policy      allow, ask or deny
    rules       what the user's own rules say
    harmless    a short list, for where there is no sandbox
    disasters   what is refused
    wrappers    commands that run other commands
    syntax      from text to lines (line, words, tiles), with tree-sitter

docs/shell-policy.md says what is decided how.
"""
