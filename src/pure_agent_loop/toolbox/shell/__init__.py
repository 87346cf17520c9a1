"""The ``shell`` tool, and the policy for its command lines.

    tool        runs a line in the best sandbox: read-only unless approved
    live        shows the output while a command runs
    notes       formats the result for the model
    policy      allow, ask or deny
    rules       the user's own rules
    harmless    the short list of harmless commands, used without a sandbox
    unheld      further checks of the folder, used with that list
    disasters   commands that are always denied
    wrappers    commands that run other commands
    syntax      parses lines (line, words) with tree-sitter, and checks its tree (reasons)

docs/shell-policy.md documents the decisions.
"""
