"""Names that tools may read but never write, because programs execute or obey their content unasked.

By writing ``.git/hooks/pre-commit`` or ``.bashrc``, a model can have a command run later, without a check. A
name is protected if a common program reads it in a folder and executes its content without asking. Files that
run only by an explicit command (``Makefile``, ``package.json``, ``conftest.py``) or on another machine
(``.github``) are not protected, nor are files that only list names (``.gitignore``, ``.gitattributes``).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path

from pure_agent_loop.support.folders import data_folder

# A sandbox protects these names too, at the top of a workspace. The list is short, because the sandbox
# watches each missing name while a command runs.
_AT_TOP = (
    *(".pal", "pal.toml", ".agents", ".mcp.json", "mcp.json", ".claude", ".codex", ".gemini", ".cursor"),
    *(".vscode", ".idea", ".zed", ".husky", ".envrc"),
    *(".bashrc", ".bash_profile", ".profile", ".zshrc", ".zshenv"),
)
# Commits must work, so the only protected parts of `.git` are those that git executes, and those that hold or
# name a configuration.
PROTECTED_IN_SANDBOX = (".git/hooks", ".git/config", ".git/config.worktree", ".git/commondir", *_AT_TOP)
_VERSION_CONTROL = (".git", ".gitmodules", ".gitconfig", ".hg", ".hgrc", ".svn", ".jj", ".githooks")
_SHELLS = (
    *(".bash_login", ".bash_logout", ".bash_aliases", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc"),
    *(".tcshrc", ".login", ".logout", ".xprofile", ".xinitrc", ".xsession", "config.fish", "profile.ps1"),
    "Microsoft.PowerShell_profile.ps1",
)
_EDITORS = (
    *(".fleet", ".devcontainer", ".devcontainer.json"),
    *(".vimrc", ".exrc", ".nvimrc", ".nvim.lua", ".emacs", ".emacs.d", ".dir-locals.el"),
    *(".gdbinit", ".lldbinit", ".pdbrc", ".irbrc", ".Rprofile"),
)
_HOME = (".ssh", ".gnupg", ".config/fish", ".config/autostart", ".config/systemd", "Library/LaunchAgents")
PROTECTED: tuple[str, ...] = (*_AT_TOP, *_VERSION_CONTROL, *_SHELLS, *_EDITORS, *_HOME)
"""Names protected at any depth, with everything in them. A name with slashes protects that sequence."""
# Hidden names whose content no program executes, and visible names whose content a program does execute.
_INERT = re.compile(
    r"\.\w*ignore|\.gitattributes|\.(git)?keep|\.github|\.editorconfig|\.[a-z]+-version|\.env\.example"
)
_OBEYED = re.compile(r".*\.code-workspace|(mise|lefthook)\.\w+")
_GIT_SHORT = "git~1"  # the short name of .git on Windows
# Characters that macOS ignores in names.
_IGNORED = dict.fromkeys([*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF])


def plain_name(name: str) -> str:
    """Return a name as the most lenient file systems read it: without case, trailing dots or streams."""
    name = unicodedata.normalize("NFKC", name.translate(_IGNORED)).casefold()
    name = name.split(":")[0].rstrip(". ") if name.strip(". ") else name
    return ".git" if name == _GIT_SHORT else name


class Protection:
    """A check for protected paths.

    Args:
        names: As in `PROTECTED`.
    """

    def __init__(self, names: Iterable[str] = PROTECTED) -> None:
        self.names = tuple(names)
        runs = (tuple(plain_name(part) for part in name.split("/") if part) for name in self.names)
        self._runs = {run: name for run, name in zip(runs, self.names, strict=True) if run}
        self._lengths = sorted({len(run) for run in self._runs})

    def found(self, parts: Sequence[str]) -> str | None:
        """Return the entry that protects a path, or None.

        Args:
            parts: The names that lead to the path from the root.
        """
        plain = tuple(plain_name(part) for part in parts)
        for length in self._lengths:
            for start in range(len(plain) - length + 1):
                name = self._runs.get(plain[start : start + length])
                if name is not None:
                    return name
        return None


def obeyed_name(parts: Sequence[str]) -> str | None:
    """Return the name in a path whose content editors or tools may execute unasked, or None.

    Such names are hidden, with a few exceptions. A person decides about each write, whatever its purpose.
    """
    for name in map(plain_name, parts):
        if (name.startswith(".") and not _INERT.fullmatch(name)) or _OBEYED.fullmatch(name):
            return name
    return None


def protected_below(root: Path) -> tuple[str, ...]:
    """Return `PROTECTED`, plus the data folder of this package if it is below `root`."""
    data = data_folder().resolve()
    own = (data.relative_to(root).as_posix(),) if data != root and data.is_relative_to(root) else ()
    return (*PROTECTED, *own)
