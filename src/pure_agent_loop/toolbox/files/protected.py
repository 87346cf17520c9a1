"""Names that tools may read but never write: what lies there runs, or says what may run, by being there.

A model that writes ``.git/hooks/pre-commit`` or ``.bashrc`` runs a command later, outside every check. So a
name is protected if a program that people use in a folder reads it and runs what it says without being
asked. Not protected is what runs only by a command of its own (``Makefile``, ``package.json``,
``conftest.py``), on another machine (``.github``), or only names things (``.gitignore``, ``.gitattributes``).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path

from pure_agent_loop.support.paths import data_folder

# At the top of a workspace a sandbox protects them too, and more than these it does not: each name that is
# missing there costs a mount.
_AT_TOP = (
    *(".pal", "pal.toml", ".agents", ".mcp.json", "mcp.json", ".claude", ".codex", ".gemini", ".cursor"),
    *(".vscode", ".idea", ".zed", ".husky", ".envrc"),
    *(".bashrc", ".bash_profile", ".profile", ".zshrc", ".zshenv"),
)
PROTECTED_IN_SANDBOX = (".git/hooks", ".git/config", *_AT_TOP)  # of `.git` what runs, so that commits work

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
"""A name is protected at any depth, with everything in it; one with slashes where these names follow."""

_GIT_SHORT = "git~1"  # what Windows also calls .git
# Characters that macOS ignores in names.
_IGNORED = dict.fromkeys([*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF])


def plain_name(name: str) -> str:
    """A name as the most forgiving file systems see it: no case, no trailing dots, no streams."""
    name = unicodedata.normalize("NFKC", name.translate(_IGNORED)).casefold()
    name = name.split(":")[0].rstrip(". ") if name.strip(". ") else name
    return ".git" if name == _GIT_SHORT else name


class Protection:
    """Says which paths are protected.

    Args:
        names: As in `PROTECTED`.
    """

    def __init__(self, names: Iterable[str] = PROTECTED) -> None:
        self.names = tuple(names)
        runs = (tuple(plain_name(part) for part in name.split("/") if part) for name in self.names)
        self._runs = {run: name for run, name in zip(runs, self.names, strict=True) if run}
        self._lengths = sorted({len(run) for run in self._runs})

    def found(self, parts: Sequence[str]) -> str | None:
        """The entry that protects a path, or None.

        Args:
            parts: The names that lead to it from the root.
        """
        plain = tuple(plain_name(part) for part in parts)
        for length in self._lengths:
            for start in range(len(plain) - length + 1):
                name = self._runs.get(plain[start : start + length])
                if name is not None:
                    return name
        return None


def protected_below(root: Path) -> tuple[str, ...]:
    """`PROTECTED`, and this library's own data folder if it lies below `root`."""
    data = data_folder().resolve()
    own = (data.relative_to(root).as_posix(),) if data != root and data.is_relative_to(root) else ()
    return (*PROTECTED, *own)
