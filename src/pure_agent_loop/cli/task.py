"""What to do: the words of the command line and the text piped in."""

from __future__ import annotations

import json
import select
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TextIO

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.terminal import is_terminal

MAX_INPUT_BYTES = 4_000_000


def read_task(
    words: Sequence[str],
    say: Callable[[str], None],
    stdin: TextIO | None = None,
    *,
    needed: bool = True,
    command: str = "run",
) -> str:
    """The whole task: the words say what to do, piped text is their context; without words it is the task.

    Args:
        words: From the command line; a lone ``-`` stands for the text piped in.
        say: Told when reading may take long.
        stdin: Standard input; ``sys.stdin`` if None.
        needed: False if it may be empty; then no terminal is asked for it.
        command: The one it is for.

    Raises:
        ConfigError: There is no task, or too much text.
    """
    words = [] if list(words) == ["-"] else words
    instruction = " ".join(words).strip()
    piped = _piped(sys.stdin if stdin is None else stdin, say, bool(instruction) or not needed).strip()
    if instruction and piped:
        return f"{instruction}\n\n<stdin>\n{piped}\n</stdin>"
    if needed and not (instruction or piped):
        raise ConfigError(f'There is no task. Give one: pal {command} "your question" (or pipe it in).')
    return instruction or piped


def tasks_of_lines(stdin: TextIO | None) -> Iterator[str]:
    """The tasks of a conversation over a pipe: ``{"type": "user", "content": "..."}``, one object a line.

    Args:
        stdin: Where the lines come from, until its end.

    Raises:
        ConfigError: A line is no such object, or too long.
    """
    number = 0
    while stdin is not None and (line := stdin.buffer.readline(MAX_INPUT_BYTES + 1)):
        number += 1
        if len(line) > MAX_INPUT_BYTES:
            raise ConfigError(f"Line {number} of standard input is longer than {MAX_INPUT_BYTES} bytes.")
        if line.strip():
            yield _task_of(line, number)


def _task_of(line: bytes, number: int) -> str:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    content = (
        found.get("content") if isinstance(found, dict) and found.keys() == {"type", "content"} else None
    )
    if not isinstance(content, str) or not content.strip() or found["type"] != "user":
        raise ConfigError(
            f'Line {number} of standard input is not like {{"type": "user", "content": "your question"}}.'
        )
    return content


def _piped(stdin: TextIO | None, say: Callable[[str], None], optional: bool) -> str:
    if stdin is None or stdin.closed or (optional and is_terminal(stdin)):
        return ""
    if is_terminal(stdin):
        say("type the task, then press Ctrl-D")
    elif optional and not _ready(stdin):
        say("reading the context from standard input to its end (none to give? add: </dev/null)")
    data = stdin.buffer.read(MAX_INPUT_BYTES + 1)
    if len(data) > MAX_INPUT_BYTES:
        raise ConfigError(
            f"Standard input is longer than {MAX_INPUT_BYTES} bytes. Give less, or name a file instead."
        )
    return data.decode("utf-8-sig", "replace")


def _ready(stdin: TextIO) -> bool:
    try:
        return bool(select.select([stdin], [], [], 0)[0])
    except (OSError, ValueError):  # not every system can ask that of every kind of file
        return True
