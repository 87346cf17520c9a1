"""The short list of commands that may run without a sandbox and without asking.

No option of these commands can write a file or start a program, so options are not checked. Operands must be
literal and stay in the folder. Nothing in a sandbox depends on this list.
"""

from __future__ import annotations

import re

from pure_agent_loop.support.language import model_text
from pure_agent_loop.toolbox.shell.line import Simple
from pure_agent_loop.toolbox.shell.words import Word

_READERS = frozenset(
    [
        *("cat", "cmp", "comm", "cut", "diff", "du", "fold", "grep", "head", "ls", "md5sum", "nl", "paste"),
        *("readlink", "realpath", "rev", "sha1sum", "sha256sum", "stat", "tac", "tail", "wc", "cd"),
    ]
)
_PRINTERS = frozenset(
    {"basename", "dirname", "echo", "false", "printf", "pwd", "true", "tr", "uname", "whoami"}
)
_EXACT = frozenset({"git status", "git diff", "git log", "git branch", "git remote -v"})
_OUTSIDE = re.compile(r"(?:^|[=:]|^-\w*)[/~]|(?:^|[/=:])\.\.(?:$|/)|^-.*\.\./")
_ALSO_INSIDE = ("/dev/null",)


def objection(simple: Simple, root: str | None) -> str | None:
    """Return why a command may not run without asking; None if it is on the list.

    Args:
        root: Absolute path of the workspace; paths below it are inside.
    """
    words = simple.words
    if not words or simple.assignments or not words[0].is_plain:
        return model_text("shell_not_plain")
    name = words[0].text
    if all(word.is_plain for word in words) and " ".join(word.text for word in words) in _EXACT:
        return model_text("shell_git_elsewhere") if simple.after_cd else None
    if name not in _READERS and name not in _PRINTERS:
        return model_text("shell_not_approved", name=name)
    if name == "printf" and words[1:] and words[1].text.startswith("-v"):
        return model_text("shell_sets_variable")
    for word in words[1:]:
        if not word.is_literal and (word.has_expansion or word.may_be_option or name == "cd"):
            return model_text("shell_not_known_before", word=word.raw)
        reads_files = name in _READERS or not word.is_literal or word.raw.startswith("~")
        if reads_files and leaves(word, root):
            return model_text("shell_outside", word=word.raw)
    return None


def leaves(word: Word, root: str | None) -> bool:
    """Return True if a word names, or could name, a file outside of the workspace."""
    text = word.text
    if text in _ALSO_INSIDE or (root is not None and f"{text}/".startswith(f"{root}/") and ".." not in text):
        return False
    glob_up = any(part.kind == "glob" for part in word.parts) and re.search(r"(?:^|/)\.", text)
    return bool(_OUTSIDE.search(text) or glob_up)
