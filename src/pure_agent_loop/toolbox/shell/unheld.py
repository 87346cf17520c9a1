"""Check the folder in which a command on the short list would run without a sandbox.

A line alone does not show what is in the folder: a link that leads out, a program that shadows a system
program, or a git configuration that starts programs. Therefore each command must be proven harmless: known
options, operands that stay inside, and configuration keys that start nothing.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from pure_agent_loop.support.language import model_text
from pure_agent_loop.toolbox.shell.line import Simple
from pure_agent_loop.toolbox.shell.words import Word

_BUILT_IN = frozenset({"cd", "echo", "false", "printf", "pwd", "true"})
# Options that take neither file names nor lists of files, and that follow no links into folders.
_LETTERS = dict(
    pair.split(" ")
    for pair in (
        *("md5sum btz", "sha1sum btz", "sha256sum btz", "cat AbeEnstTuv", "cd LP", "cmp bilns", "comm 123z"),
        *("cut bcdfnsz", "diff abBcdeEiNqrstuUwWy", "du 0abBcdhklmsStx", "fold bsw", "head cnqvz", "rev V"),
        *("grep abcABCEFeGhHiIlLmnopPqrsTvVwxyzZ", "ls 1aAbBcCdfFghiIklmnNopqQrRsStTuUvwxXZ", "paste dsz"),
        *("nl bdfhilnpsvw", "readlink efmnqsvz", "realpath emPqsz", "stat cft", "tac brs", "tail cnqvz"),
        "wc clLmw",
    )
)
_LONG = re.compile(
    r"--(color|colour|include|exclude|exclude-dir|max-count|lines|bytes|max-depth|format|context|unified)=.*"
    r"|--(all|almost-all|human-readable|brief|recursive|summarize|ignore-case|line-number|count|words|chars)"
    r"|--(color|help|version|)"
)
_MAX_ENTRIES, _MAX_CONFIG = 5_000, 100_000
# Git configuration keys that start no program, without subsection names.
_PLAIN_KEYS = frozenset(
    [
        *("core.repositoryformatversion", "core.filemode", "core.bare", "core.logallrefupdates", "core.eol"),
        *("core.ignorecase", "core.precomposeunicode", "core.symlinks", "core.autocrlf", "core.quotepath"),
        *("user.name", "user.email", "remote.url", "remote.fetch", "branch.remote", "branch.merge"),
        *("branch.rebase", "branch.description", "init.defaultbranch", "pull.rebase", "pull.ff"),
        *("push.default", "color.ui", "extensions.objectformat", "extensions.refstorage"),
    ]
)
_SECTION = re.compile(r'\[([A-Za-z0-9-]+)(?: +"[^"\\]*")?\]')
_SETTING = re.compile(r"([A-Za-z][A-Za-z0-9-]*)(?:[ \t]*=[^\\]*)?")
_GITLINK = (0o160000).to_bytes(4, "big")  # mode of a submodule's entry in git's index


class WorkingDirectory:
    """The working directory of one line.

    Args:
        root: The workspace, resolved.
    """

    def __init__(self, root: Path, path: str) -> None:
        self._root, self._path = root, path
        self._bases = [root]  # possible working directories after each cd

    def objection(self, simple: Simple) -> str | None:
        """Return why a command on the short list may not run here, or None."""
        name = simple.words[0].text
        program = None if name in _BUILT_IN else shutil.which(name, path=self._path)
        if program and Path(os.path.realpath(program)).is_relative_to(self._root):
            return model_text("shell_program_of_folder", name=name)
        if name == "git":
            return None if is_plain_repository(self._root) else model_text("shell_git_starts")
        letters = _LETTERS.get(name)
        if letters is None:  # operands need no check, because the command reads no files
            return None
        words = simple.words[1:]
        known = re.compile(rf"-[{letters}]+[\d,.:;|-]*|-\d*")
        for word in words:
            if word.may_be_option and not (known.fullmatch(word.text) or _LONG.fullmatch(word.text)):
                return model_text("shell_option_unknown", word=word.raw)
        leading = next((word for word in words if self.leads_out(word, within=name == "diff")), None)
        if name == "cd" and words:
            self._bases += [base / words[-1].text for base in self._bases[:8]]
        return model_text("shell_link_out", word=leading.raw) if leading else None

    def leads_out(self, word: Word, *, within: bool = False) -> bool:
        """Return True if a word may lead outside through a link; with `within`, folders are searched too."""
        fixed = word.head if not word.is_literal else word.text
        for base in self._bases:
            at = Path(base, fixed if word.is_literal else fixed.rpartition("/")[0])
            try:
                outside = not Path(os.path.realpath(at)).is_relative_to(self._root)
            except (OSError, ValueError):
                outside = True
            if outside and word.text != "/dev/null":
                return True
            if (within or not word.is_literal) and any(map(self._is_link_out, _entries(at))):
                return True
        return False

    def _is_link_out(self, entry: os.DirEntry[str] | None) -> bool:
        if entry is None:
            return True
        return entry.is_symlink() and not Path(os.path.realpath(entry.path)).is_relative_to(self._root)


def is_plain_repository(root: Path) -> bool:
    """Prove that `git status` and similar commands start no other program here; False if not proven.

    Args:
        root: Git's working directory; git searches it and its parents for a repository.
    """
    return all(_is_plain(folder) for folder in (root, *root.parents))


def _is_plain(folder: Path) -> bool:
    git = folder / ".git"
    try:
        if not os.path.lexists(git):
            return not ((folder / "HEAD").exists() and (folder / "objects").exists())  # a bare repository
        if git.is_symlink() or not git.is_dir():
            return False
        names = {path.name for path in git.iterdir()}
        hooks = [path.name for path in (git / "hooks").iterdir()] if "hooks" in names else []
        index, config = (_bytes(git / name) if name in names else b"" for name in ("index", "config"))
    except OSError:
        return False
    is_plain = "commondir" not in names and not any(name.startswith("sharedindex.") for name in names)
    is_plain = is_plain and all(name.endswith(".sample") for name in hooks) and _GITLINK not in index
    return is_plain and _is_plain_config(config.decode("utf-8", "replace"))


def _bytes(path: Path) -> bytes:
    if not path.is_file():  # reading a pipe would block
        raise OSError(f"{path} is not a file")
    return path.read_bytes()


def _is_plain_config(text: str) -> bool:
    section = ""
    for line in (line.strip(" \t\r") for line in text[:_MAX_CONFIG].split("\n")):
        if not line or line.startswith(("#", ";")):
            continue
        if match := _SECTION.fullmatch(line):
            section = match[1].lower()
        elif not (match := _SETTING.fullmatch(line)) or f"{section}.{match[1].lower()}" not in _PLAIN_KEYS:
            return False
    return len(text) <= _MAX_CONFIG


def _entries(folder: Path) -> Iterator[os.DirEntry[str] | None]:
    """Yield all entries of a folder and its subfolders; None for an unreadable folder or too many entries."""
    pending, left = [str(folder)], _MAX_ENTRIES
    while pending:
        try:
            entries = list(islice(os.scandir(pending.pop()), left + 1))
        except NotADirectoryError:
            continue
        except OSError as error:
            yield from () if isinstance(error, FileNotFoundError) else (None,)
            continue
        left -= len(entries)
        if left < 0:
            yield None
            return
        pending += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        yield from entries
