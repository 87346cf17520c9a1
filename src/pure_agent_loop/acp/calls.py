"""Presentation of tool calls in editors: title, kind, files and results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pure_agent_loop.acp.host import Planned
from pure_agent_loop.support.prose import fenced
from pure_agent_loop.support.terminal import one_line

MAX_TITLE = 120
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
_STATUS = {
    "pending": "pending",
    "in_progress": "in_progress",
    "done": "completed",
}  # states of the tasks in a todo list


def summarize(tool: str, args: Mapping[str, Any], folder: Path, title: str = "") -> dict[str, Any]:
    """Return the title, kind, arguments and files of a call.

    Args:
        folder: The folder that paths are relative to.
        title: The tool's own title for the call; empty if it has none.
    """
    first = next((value for value in args.values() if isinstance(value, str) and value.strip()), "")
    words = first if tool == "shell" and first else " ".join(filter(None, (tool, first)))
    title = one_line(title or words, MAX_TITLE)
    summary: dict[str, Any] = {"title": title, "kind": _KINDS.get(tool, "other"), "rawInput": dict(args)}
    path = args.get("path")
    if tool in _KINDS and isinstance(path, str) and "\0" not in path:
        line = args.get("offset")
        position = {"line": line} if isinstance(line, int) and not isinstance(line, bool) and line > 0 else {}
        summary["locations"] = [{"path": str(folder / path), **position}]
    return summary


def as_output(text: str) -> dict[str, Any]:
    """Return a tool's output as a code block, because editors render Markdown."""
    return {"type": "content", "content": {"type": "text", "text": "\n".join(fenced(text, ""))}}


def as_diff(planned: Planned, folder: Path) -> dict[str, Any]:
    """Return a file change as call content."""
    path = str(folder / planned.path)
    return {"type": "diff", "path": path, "oldText": planned.before, "newText": planned.after}


def as_plan(args: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the plan update for a call to the todo tool; None if the arguments are invalid."""
    items = args.get("items")
    if not isinstance(items, list):
        return None
    return {"sessionUpdate": "plan", "entries": list(_entries(items))}


def _entries(items: list[Any]) -> Iterable[dict[str, Any]]:
    for item in items:
        task = item.get("task") if isinstance(item, dict) else item
        status = item.get("status") if isinstance(item, dict) else None
        if isinstance(task, str):
            yield {"content": task, "priority": "medium", "status": _STATUS.get(str(status), "pending")}
