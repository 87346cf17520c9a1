"""The user's git settings for commands, whose home is another folder.

Only the user's aliases, and settings that decide what a commit holds, are handed over. Settings that name a
program or may hold a secret are left out. If the user requires a filter program or a signature, a commit
therefore fails with git's own error instead of being made without it.
"""

from __future__ import annotations

import re
import subprocess
from contextlib import suppress
from pathlib import Path

from pure_agent_loop.support.child import child_environment, find_program

PLACE = ".config/git"  # git's configuration folder in the home
_GIT_SECONDS, _MAX_BYTES = 5.0, 1_000_000
_HANDED_OVER = re.compile(
    r"(user|author|committer)\.(name|email|useconfigonly|signingkey)|(commit|tag)\.(gpgsign|cleanup)"
    r"|core\.(autocrlf|eol|safecrlf|whitespace|commentchar|commentstring)|init\.defaultbranch|i18n\.\w+"
    r"|(merge|pull|push|rebase|rerere)\.\w+|alias\.[\w-]+|filter\..+\.required",
    re.I | re.S,
)
# Aliases that run a program or change another setting.
_RUNS_OR_SETS = re.compile(r"^\s*!|(^|\s)(-c|--config-env)\b")
_FILES = {"core.excludesfile": "ignore", "core.attributesfile": "attributes"}


def write_user_git(home: Path, root: Path, *, any_owner: bool) -> None:
    """Write the user's git settings into the home of a command.

    Args:
        root: The workspace, for which git evaluates conditional includes.
        any_owner: Let git work in repositories of other users. Their settings may name programs.
    """
    place = home / PLACE
    place.mkdir(parents=True)
    settings = user_settings(root)
    config = Path(child_environment().get("XDG_CONFIG_HOME") or Path.home() / ".config", "git")
    named = {name: value for name, value in settings if value}
    for key, name in _FILES.items():
        file = Path(named.get(key, str(config / name))).expanduser()
        with suppress(OSError):
            if file.is_file() and file.stat().st_size <= _MAX_BYTES:
                (place / name).write_bytes(file.read_bytes())
    kept = [setting for setting in settings if _may_be_known(*setting)]
    kept += [("safe.directory", "*")] if any_owner else []
    (place / "config").write_text("".join(_lines(*setting) for setting in kept), "utf-8", "surrogateescape")
    place.chmod(0o500)  # read-only, so that git reports an error if a command changes settings


def user_settings(root: Path) -> list[tuple[str, str | None]]:
    """Return the user's own git settings in a folder as (key, value); None for a key without a value."""
    git = find_program("git")
    if git is None:
        return []
    words = [git, "config", "--list", "--show-scope", "--show-origin", "-z"]
    try:
        done = subprocess.run(  # noqa: S603 - fixed arguments; this git command starts no program
            words, cwd=root, env=child_environment(), capture_output=True, timeout=_GIT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    fields = done.stdout.decode("utf-8", "surrogateescape").split("\0")
    triples = zip(fields[::3], fields[1::3], fields[2::3], strict=False)
    settings = (
        (*setting.partition("\n"), _is_within(origin.removeprefix("file:"), root))
        for scope, origin, setting in triples
        if scope == "global"
    )
    # A file that a command can write must not decide which files are read for the next command.
    settings = (each for each in settings if not (each[3] and each[0] in _FILES))
    return [(key, value if mark else None) for key, mark, value, _ in settings]


def _is_within(file: str, root: Path) -> bool:
    """Return True for a file that a command can write."""
    return (root / Path(file).expanduser()).resolve().is_relative_to(root.resolve())


def _may_be_known(key: str, value: str | None) -> bool:
    text = value or ""
    names_a_program = key.startswith("alias.") and _RUNS_OR_SETS.search(text) is not None
    return bool(_HANDED_OVER.fullmatch(key)) and not names_a_program and "://" not in text


def _lines(key: str, value: str | None) -> str:
    section, _, rest = key.partition(".")
    middle, _, name = rest.rpartition(".")
    title = f"[{section} {_quoted(middle)}]" if middle else f"[{section}]"
    return f"{title}\n\t{name}\n" if value is None else f"{title}\n\t{name} = {_quoted(value)}\n"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
