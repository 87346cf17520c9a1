"""The installation of this package: the command that adds an extra, and other packages with the same name.

The package index has another project with this name and the same import name, but without the command
``pal``.
So a command in a message must never name only the package: that would install the other project.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import url2pathname

from pure_agent_loop.support.child import PYTHON, find_program
from pure_agent_loop.support.parsing import read_json

if TYPE_CHECKING:
    from importlib.metadata import Distribution

NAME = "pure-agent-loop"
UNKNOWN_SOURCE = "CLONE_OR_WHEEL"
_COMMAND = "pal"  # the other project does not have this command


class Namesake(NamedTuple):
    """Another project's installed package that has this package's name.

    Args:
        version: Version of that package.
        folder: The folder on the module path that holds the package.
    """

    version: str
    folder: str


def install_command(extra: str) -> str:
    """Return the command that adds an extra to this installation, for the shell of this system.

    The command names the folder, wheel or repository that this copy was installed from, as pip and uv record
    it in ``direct_url.json`` (PEP 610). If the source is unknown or no longer exists, the command has
    `UNKNOWN_SOURCE` in its place.
    """
    ours = _own_distribution()
    recorded = ours.read_text("direct_url.json") if ours else None
    source = _source(read_json(recorded), extra) if recorded else []
    by_uv = ours is not None and (ours.read_text("INSTALLER") or "").strip() == "uv"
    python = _python()
    tool = ["uv", "pip", "install", "--python", python] if by_uv else [python, "-m", "pip", "install"]
    words = [*tool, *(source or [f"{UNKNOWN_SOURCE}[{extra}]"])]
    return subprocess.list2cmdline(words) if os.name == "nt" else shlex.join(words)


def namesakes() -> list[Namesake]:
    """Return other projects' packages with this name, on the module path and in the active environment."""
    from importlib.metadata import distributions

    active = os.environ.get("VIRTUAL_ENV")
    folders = Path(active).glob("[Ll]ib/**/site-packages") if active else ()
    path = list(dict.fromkeys([*sys.path, *map(str, folders)]))
    others = (each for each in distributions(name=NAME, path=path) if not _is_ours(each))
    return list(dict.fromkeys(Namesake(each.version, str(each.locate_file(""))) for each in others))


@cache
def _own_distribution() -> Distribution | None:
    from importlib.metadata import distributions

    return next((each for each in distributions(name=NAME) if _is_ours(each)), None)


def _is_ours(distribution: Distribution) -> bool:
    return any(point.name == _COMMAND for point in distribution.entry_points)


def _source(recorded: dict[str, Any], extra: str) -> list[str]:
    """Return the recorded source as words of a command; empty if the file or folder no longer exists."""
    url: str = recorded["url"]
    if url.startswith("file:") and "vcs_info" not in recorded:
        path = url2pathname(urlsplit(url).path)
        is_editable = recorded.get("dir_info", {}).get("editable", False)
        return [*(["-e"] if is_editable else []), f"{path}[{extra}]"] if Path(path).exists() else []
    vcs = recorded.get("vcs_info", {})
    revision = vcs.get("requested_revision") or vcs.get("commit_id")
    return [f"{NAME}[{extra}] @ " + (f"{vcs['vcs']}+{url}@{revision}" if vcs else url)]


def _python() -> str:
    """Return a name for this interpreter: ``python`` if that runs it in a shell, else the path."""
    return "python" if find_program("python") == PYTHON else PYTHON
