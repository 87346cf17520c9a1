"""Calls of tools as editors show them: a title, a kind, the files they are about, and what came out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pure_agent_loop.acp.host import Planned
from pure_agent_loop.support.terminal import one_line

TODO = "todo_write"
MOST_TITLE = 120
_KINDS = {
    "read_file": "read",
    "read_image": "read",
    "read_result": "read",
    "list_dir": "read",
    "glob": "search",
    "grep": "search",
    "write_file": "edit",
    "edit_file": "edit",
    "shell": "execute",
    "fetch": "fetch",
}
_STATUS = {"pending": "pending", "in_progress": "in_progress", "done": "completed"}  # of tasks in a list
_FENCES = re.compile(r"`{3,}")


def about(tool: str, args: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """What is known of a call before it runs: its title, its kind, its arguments and its files.

    Args:
        tool: The tool.
        args: The arguments in force.
        folder: What paths are relative to.
    """
    shown = next((value for value in args.values() if isinstance(value, str) and value.strip()), "")
    title = one_line(
        shown if tool == "shell" and shown else " ".join(filter(None, (tool, shown))), MOST_TITLE
    )
    found: dict[str, Any] = {"title": title, "kind": _KINDS.get(tool, "other"), "rawInput": dict(args)}
    path = args.get("path")
    if tool in _KINDS and isinstance(path, str) and "\0" not in path:
        line = args.get("offset")
        at = {"line": line} if isinstance(line, int) and not isinstance(line, bool) and line > 0 else {}
        found["locations"] = [{"path": str(folder / path), **at}]
    return found


def as_output(text: str) -> dict[str, Any]:
    """What a tool gave, as it is: editors show Markdown."""
    longest = max((len(found) for found in _FENCES.findall(text)), default=2)
    fence = "`" * (longest + 1)
    return {"type": "content", "content": {"type": "text", "text": f"{fence}\n{text}\n{fence}"}}


def as_diff(planned: Planned, folder: Path) -> dict[str, Any]:
    """A change of a file as the content of a call."""
    path = str(folder / planned.path)
    return {"type": "diff", "path": path, "oldText": planned.before, "newText": planned.after}


def as_plan(args: Mapping[str, Any]) -> dict[str, Any] | None:
    """The list of tasks that a call of the todo tool writes; None if it is none."""
    given = args.get("items")
    if not isinstance(given, list):
        return None
    return {"sessionUpdate": "plan", "entries": list(_entries(given))}


def _entries(given: list[Any]) -> Iterable[dict[str, Any]]:
    for each in given:
        task = each.get("task") if isinstance(each, dict) else each
        status = each.get("status") if isinstance(each, dict) else None
        if isinstance(task, str):
            shown = _STATUS.get(str(status), "pending")
            yield {"content": task, "priority": "medium", "status": shown}
