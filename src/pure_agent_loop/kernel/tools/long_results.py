"""Long output of tools: the head and the tail go into the history, the whole text to disk.

A kept text is named after its content, so the same output is one file and has one name wherever it appears:
repetitions stay recognisable, and a saved run can go on in another process. Files in the default folder are
removed a week after they were last written, when something new is kept there.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from pure_agent_loop.llm.messages import Message
from pure_agent_loop.prompts import Prompts
from pure_agent_loop.support.lazy import lazy_pattern
from pure_agent_loop.support.paths import data_folder, private_folder
from pure_agent_loop.tool import Tool, ToolRegistry

READ_RESULT = "read_result"
READ_CHARS = 20_000
WEEK_SECONDS = 7 * 24 * 3600.0
_TIDIED: set[Path] = set()  # by this process, once
_ID = lazy_pattern(r"[0-9a-f]{16}")
_MENTION = re.compile(r'read_result\(id="([0-9a-f]{16})"')
_PARAMETERS: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "offset": {"type": "integer", "minimum": 0, "default": 0},
        "limit": {"type": "integer", "minimum": 1, "default": READ_CHARS},
    },
    "required": ["id"],
    "additionalProperties": False,
}


class ResultFolder:
    """Where whole texts are kept: a folder for this user alone.

    Args:
        folder: ``results`` in the data folder if None. What is in a folder of your own is never removed.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._own = folder

    @property
    def path(self) -> Path:
        """The folder, which need not exist yet."""
        return self._own or data_folder() / "results"

    def keep(self, text: str) -> str:
        """Write a text down.

        Returns:
            Its id.

        Raises:
            OSError: It cannot be written.
        """
        data = text.encode("utf-8", "replace")
        name = hashlib.sha256(data).hexdigest()[:16]
        folder = self._made()
        _write(folder / f"{name}.txt", data)
        return name

    def _made(self) -> Path:
        folder = self.path
        if self._own is not None:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # one that exists keeps its rights
        else:
            private_folder(folder)
            if folder not in _TIDIED:
                _TIDIED.add(folder)
                _remove_old(folder)
        return folder

    def read(self, name: str) -> str:
        """A text by its id.

        Raises:
            OSError: There is none, or it cannot be read.
        """
        if not _ID.fullmatch(name):
            raise FileNotFoundError(name)
        return (self.path / f"{name}.txt").read_bytes().decode("utf-8", "replace")


def _write(path: Path, data: bytes) -> None:
    """All or nothing, readable for this user alone."""
    import tempfile  # seldom needed

    handle, temporary = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _remove_old(folder: Path) -> None:
    oldest = time.time() - WEEK_SECONDS
    for path in folder.iterdir():
        with suppress(OSError):  # another process may have removed it
            if path.stat().st_mtime < oldest:
                path.unlink()


def cut_text(text: str, limit: int, folder: ResultFolder, prompts: Prompts) -> str:
    """The head and the tail of a text that is longer than `limit`, and between them how to read the rest.

    Args:
        limit: Greatest number of characters of what comes back.
        folder: Where the whole text is kept.
    """
    if len(text) <= limit:
        return text
    try:
        how = prompts.cut_kept.format(id=folder.keep(text), offset="{offset}")
    except OSError as error:
        how = prompts.cut_lost.format(error=error.strerror or type(error).__name__)
    note = prompts.cut_result.format(count=len(text), total=len(text), how=how)
    room = max(limit - len(note) - 2, 0)
    head, tail = room - room // 3, room // 3
    count = len(text) - head - tail
    note = prompts.cut_result.format(count=count, total=len(text), how=how.replace("{offset}", str(head)))
    return f"{text[:head]}\n{note}\n{text[len(text) - tail :]}"


def mentioned(text: str) -> str | None:
    """The id under which a text that was cut is kept, if it names one."""
    found = _MENTION.search(text)
    return found[1] if found else None


def any_cut(messages: Iterable[Message]) -> bool:
    """True if a result in this history tells how to read its rest."""
    texts = (message["content"] for message in messages if message["role"] in ("tool", "user"))
    return any(isinstance(text, str) and mentioned(text) is not None for text in texts)


class ReadableTools(ToolRegistry):
    """The user's tools, and one that reads what was cut. It is not in the list until something was.

    Args:
        inner: The user's tools; more may be registered there at any time.
        folder: Where whole texts are kept.
        limit: Greatest number of characters the tool gives at once.
        prompts: What it says.
    """

    def __init__(self, inner: ToolRegistry, folder: ResultFolder, limit: int, prompts: Prompts) -> None:
        super().__init__()
        self.inner, self.toolsets = inner, inner.toolsets
        self.changes = inner.changes
        self._tools = inner._tools  # the same dict: what is added there is here, too
        self._find = inner._tools.get if type(inner).get is ToolRegistry.get else inner.get
        self._reading = folder, limit, prompts

    @cached_property
    def reader(self) -> Tool:
        """The tool that reads; most runs never need it."""
        return _reader(*self._reading)

    def register(self, value: Any) -> Tool:
        """Add a tool to the user's."""
        return self.inner.register(value)

    def get(self, name: str) -> Tool | None:
        """The tool of that name, or None."""
        return self._find(name) or (self.reader if name == READ_RESULT else None)

    def to_openai_schema(self, prompts: Prompts | None = None) -> list[dict[str, Any]]:
        """The user's tools as a request's ``tools``."""
        return self.inner.to_openai_schema(prompts)

    def all_schemas(self, prompts: Prompts | None = None) -> list[dict[str, Any]]:
        """The same with the reading tool behind them."""
        own = [] if READ_RESULT in self.inner else [self.reader.to_openai_schema(prompts)]
        return [*self.inner.to_openai_schema(prompts), *own]


def _reader(folder: ResultFolder, most: int, prompts: Prompts) -> Tool:
    def read_result(**arguments: Any) -> str:
        name, start = str(arguments["id"]), max(0, int(arguments.get("offset") or 0))
        limit = min(max(1, int(arguments.get("limit") or READ_CHARS)), most)
        try:
            text = folder.read(name)
        except OSError:
            raise LookupError(prompts.cut_gone.format(id=name)) from None
        piece = text[start : start + limit]
        place = prompts.cut_piece.format(start=start, end=start + len(piece), total=len(text))
        return f"{piece}\n{place}"

    return Tool(
        read_result,
        name=READ_RESULT,
        description=prompts.read_result,
        parameters=_PARAMETERS,
        idempotent=True,
        read_only=True,
        untrusted=True,
    )
