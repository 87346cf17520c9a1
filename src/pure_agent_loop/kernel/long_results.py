"""Long tool results: the head and the tail enter the history, and the whole text is written to disk.

A file name is derived from the content, so equal output has the same file name in every process: repetitions
stay recognisable, and another process can resume a run. Files in the default folder are removed a week after
their last write, when a new file is written.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pure_agent_loop.prompts import Prompts
from pure_agent_loop.support.folders import data_folder, private_folder
from pure_agent_loop.support.lazy import lazy_pattern
from pure_agent_loop.support.locking import write_whole
from pure_agent_loop.tool import Tool, ToolRegistry

if TYPE_CHECKING:
    from pure_agent_loop.llm.message_types import HistoryMessage

READ_RESULT = "read_result"
READ_CHARS = 20_000
WEEK_SECONDS = 7 * 24 * 3600.0
_TIDIED: set[Path] = set()  # folders already tidied by this process
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
    """Folder for whole texts, accessible by this user only.

    Args:
        folder: ``results`` in the data folder if None. Files in a custom folder are never removed.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._own = folder

    @property
    def path(self) -> Path:
        """Path of the folder, which may not exist yet."""
        return self._own or data_folder() / "results"

    def keep(self, text: str) -> str:
        """Write a text to the folder.

        Returns: The id of the text.

        Raises:
            OSError: The file cannot be written.
        """
        data = text.encode("utf-8", "replace")
        name = hashlib.sha256(data).hexdigest()[:16]
        folder = self._made()
        write_whole(folder / f"{name}.txt", data)
        return name

    def _made(self) -> Path:
        folder = self.path
        if self._own is not None:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # an existing folder keeps its permissions
        else:
            private_folder(folder)
            if folder not in _TIDIED:
                _TIDIED.add(folder)
                _remove_old(folder)
        return folder

    def read(self, name: str) -> str:
        """Return a text by its id.

        Raises:
            OSError: The text is missing or cannot be read.
        """
        if not _ID.fullmatch(name):
            raise FileNotFoundError(name)
        return (self.path / f"{name}.txt").read_bytes().decode("utf-8", "replace")

    def remove_named_in(self, texts: Iterable[str]) -> None:
        """Remove the files that are named in truncated texts."""
        for text in texts:
            for mention in _MENTION.finditer(text):
                with suppress(OSError):
                    (self.path / f"{mention[1]}.txt").unlink(missing_ok=True)


def _remove_old(folder: Path) -> None:
    oldest = time.time() - WEEK_SECONDS
    for path in folder.iterdir():
        with suppress(OSError):  # another process may have removed it
            if path.stat().st_mtime < oldest:
                path.unlink()


def cut_text(text: str, limit: int, folder: ResultFolder, prompts: Prompts) -> str:
    """Return the head and the tail of a text over `limit`, with a note on reading the rest.

    Args:
        limit: Maximum characters in the result.
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


def result_file_in(text: str) -> str | None:
    """Return the id of a truncated text's file, if the text names one."""
    mention = _MENTION.search(text)
    return mention[1] if mention else None


def any_cut(messages: Iterable[HistoryMessage]) -> bool:
    """Return True if a result in this history was truncated."""
    texts = (message["content"] for message in messages if message["role"] in ("tool", "user"))
    return any(isinstance(text, str) and result_file_in(text) is not None for text in texts)


class ReadableTools(ToolRegistry):
    """The user's tools and, listed only after a truncation, a tool that reads truncated results.

    Args:
        inner: The user's tools; more may be registered there at any time.
        limit: Maximum characters per call to the tool.
    """

    def __init__(self, inner: ToolRegistry, folder: ResultFolder, limit: int, prompts: Prompts) -> None:
        super().__init__()
        self.inner, self.toolsets = inner, inner.toolsets
        self.given = getattr(inner, "given", inner)
        self.changes = inner.changes
        self._tools = inner._tools  # the same dict object, so that tools added later appear here too
        self._find = inner._tools.get if type(inner).get is ToolRegistry.get else inner.get
        self._reading = folder, limit, prompts

    @cached_property
    def reader(self) -> Tool:
        """Tool that reads truncated results, created on demand."""
        return _reader(*self._reading)

    def register(self, value: Any) -> Tool:
        """Add a tool to the user's tools."""
        return self.inner.register(value)

    def get(self, name: str) -> Tool | None:
        """Return the tool with the name, or None."""
        return self._find(name) or (self.reader if name == READ_RESULT else None)

    def to_openai_schema(self, prompts: Prompts | None = None) -> list[dict[str, Any]]:
        """Return the user's tools as a request's ``tools``."""
        return self.inner.to_openai_schema(prompts)

    def all_schemas(self, prompts: Prompts | None = None) -> list[dict[str, Any]]:
        """Return the schemas of the user's tools and the reading tool."""
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
