"""What to do: the words of the command line and the text piped in."""

from __future__ import annotations

import json
import re
import select
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TextIO

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.terminal import is_terminal

MAX_INPUT_BYTES = 4_000_000
MEDIA_ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf")  # of files that are sent with a task
_MENTION = re.compile(r'(?:^|(?<=\s))@(?:"([^"\n]+)"|(\S+))')


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


def media_named(text: str, workspace: Path) -> list[Path]:
    """Images and PDF that a text names: ``@shot.png``, ``@"my shot.png"``. What is no such file is text.

    Args:
        workspace: Where relative names begin.
    """
    names = (quoted or bare.rstrip(",;:!?)") for quoted, bare in _MENTION.findall(text))
    paths = dict.fromkeys(workspace / Path(name).expanduser() for name in names)
    return [path for path in paths if path.suffix.lower() in MEDIA_ENDINGS and path.is_file()]


def with_attached(task: str, files: Sequence[str]) -> tuple[str, list[Path]]:
    """A task with the text of files, and those files that are images or PDF.

    Raises:
        ConfigError: There is no task, or a file cannot be read, is too long or cannot be sent.
    """
    if files and not task:
        raise ConfigError("--attach gives files to a task. Say what to do with them.")
    parts, media = [task], []
    for name in files:
        path = Path(name).expanduser()
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ConfigError(f"--attach={name} cannot be read: {error.strerror}.") from error
        if path.suffix.lower() in MEDIA_ENDINGS:
            media.append(path.absolute())
        elif b"\0" in data or len(data) > MAX_INPUT_BYTES:
            raise ConfigError(
                f"--attach={name} is no text of at most {MAX_INPUT_BYTES} bytes, and none of: "
                f"{', '.join(MEDIA_ENDINGS)}."
            )
        else:
            parts.append(f"<file name={json.dumps(name)}>\n{data.decode('utf-8', 'replace')}\n</file>")
    return "\n\n".join(parts), media


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a question of the conversation over a pipe.

    Args:
        call_id: The call that was asked about.
        verdict: May it be made?
        message: Why; told to the model when it is denied.
    """

    call_id: str
    verdict: Literal["allow", "deny"]
    message: str = ""


def tasks_of_lines(stdin: TextIO | None) -> Iterator[str | Answer]:
    """The tasks of a conversation over a pipe, and the answers to its questions, one object a line.

    They are ``{"type": "user", "content": "..."}`` and ``{"type": "answer", "call_id": "...", "verdict":
    "allow"}``, where the verdict may be ``deny`` and have a ``message``.

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


def _task_of(line: bytes, number: int) -> str | Answer:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    fields = (
        found if isinstance(found, dict) and all(isinstance(each, str) for each in found.values()) else {}
    )
    kind = fields.pop("type", "")
    if kind == "user" and fields.keys() == {"content"} and fields["content"].strip():
        return str(fields["content"])
    is_answer = {"call_id", "verdict"} <= fields.keys() <= {"call_id", "verdict", "message"}
    if kind == "answer" and is_answer and fields["verdict"] in ("allow", "deny"):
        return Answer(**fields)
    raise ConfigError(
        f'Line {number} of standard input is not like {{"type": "user", "content": "your question"}} or '
        f'{{"type": "answer", "call_id": "...", "verdict": "allow" or "deny", "message": "why"}}.'
    )


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
