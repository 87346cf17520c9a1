"""The tool that finds files by their names: ``glob``."""

from __future__ import annotations

import time
from collections.abc import Iterator

from pure_agent_loop.support.text import clean_text
from pure_agent_loop.toolbox.files.patterns import PathPattern, is_skipped
from pure_agent_loop.toolbox.files.walking import Walk
from pure_agent_loop.toolbox.files.words import say
from pure_agent_loop.toolbox.files.workspace import Workspace

MAX_FOUND = 500


def find(workspace: Workspace, pattern: str, path: str, hidden: bool, seconds: float) -> str:
    """The files below a folder whose paths fit, by name; see `SearchTools.glob`."""
    wanted = PathPattern(pattern)
    deadline = time.monotonic() + seconds

    def leaves_out(name: str) -> bool:
        return not hidden and is_skipped(name) and not wanted.names_it(name)

    def is_late() -> bool:
        return time.monotonic() >= deadline

    def enters(parts: tuple[str, ...]) -> bool:
        return not is_late() and not leaves_out(parts[-1]) and wanted.may_contain(parts)

    start = "".join(f"{part}/" for part in workspace.parts(path))
    found: list[str] = []
    with workspace.folder(path) as folder:
        walk = Walk(folder, enters)
        for each in walk:
            if is_late():
                break
            if leaves_out(each.parts[-1]) or not wanted.matches(each.parts):
                continue
            if len(found) == MAX_FOUND:
                found.append(say("only_first", count=MAX_FOUND))
                break
            found.append(start + "/".join(each.parts))
    if not found:
        found.append(_nothing(pattern, hidden))
    found += _left_out(walk, seconds if is_late() else None)
    return clean_text("\n".join(found))


def _left_out(walk: Walk, seconds: float | None) -> Iterator[str]:
    """What was not searched, and why; `seconds` if they are over."""
    if seconds is not None:
        yield f"[{say('stopped', seconds=seconds)}]"
    if not walk.complete:
        yield f"[{say('not_all_folders')}]"


def _nothing(pattern: str, hidden: bool) -> str:
    ways = []
    if "/" not in pattern:
        ways.append(say("into_folders", pattern=pattern))
    if not hidden:
        ways.append(say("also_hidden"))
    return say("no_match", pattern=pattern) + (say("ways", ways="; ".join(ways)) if ways else "")
