"""Read the task from the command line and from standard input."""

from __future__ import annotations

import codecs
import json
import re
import select
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TextIO

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.language import notice, user_text
from pure_agent_loop.support.parsing import parsed_object
from pure_agent_loop.support.quoted_paths import unquoted_path
from pure_agent_loop.support.terminal import is_terminal

MAX_INPUT_BYTES = 4_000_000
MEDIA_ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf")  # types of files that are sent with a task
MENTION = re.compile(r'(?:^|(?<=\s))@(?:"([^"\n]+)"|(\S+))')


_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # begins with the UTF-16 byte order mark
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CONTROLS = re.compile("[\x00-\x07\x0e-\x1a\x1c-\x1f]")  # characters that are rare in text


def decoded_text(data: bytes) -> str | None:
    """Decode the text of a file or a pipe, by byte order mark or as UTF-8, UTF-16 or Windows-1252.

    Returns:
        The text, with broken characters replaced; None if the data is not text.
    """
    mark, encoding = next((pair for pair in _MARKS if data.startswith(pair[0])), (b"", ""))
    even, odd = data[:4096:2].count(0), data[1:4096:2].count(0)
    if mark:
        text = data[len(mark) :].decode(encoding, "replace")
        strange = text.count("\ufffd")
    elif max(even, odd) > 4 * min(even, odd) and 5 * max(even, odd) > len(data[:4096]):
        text = data.decode("utf-16-le" if odd > even else "utf-16-be", "replace")
        strange = sum(sign > "\xff" or not (sign.isprintable() or sign.isspace()) for sign in text)
    else:
        begun = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        escaped = begun.decode(data)  # drops a character that was cut at the end
        broken = sum("\udc80" <= sign <= "\udcff" for sign in escaped)
        is_utf8 = 2 * broken <= sum(sign > "\x7f" for sign in escaped)
        text = data.decode("utf-8" if is_utf8 else "cp1252", "replace")
        strange = text.count("\ufffd") if is_utf8 else broken
    return text if 10 * len(_CONTROLS.findall(text)) <= len(text) >= 3 * strange else None


def read_task(
    words: Sequence[str],
    notify: Callable[[str], None],
    stdin: TextIO | None = None,
    *,
    needed: bool = True,
    command: str = "run",
) -> str:
    """Read the whole task.

    Piped text is context for the words on the command line; without words, piped text is the task.

    Args:
        words: Words from the command line; a single ``-`` means the piped text.
        notify: Function that prints a notice if reading may take long.
        needed: False if the task may be empty; the terminal is then not read.

    Raises:
        ConfigError: The task is missing, too long or not text.
    """
    words = [] if list(words) == ["-"] else words
    instruction = " ".join(words).strip()
    piped = _piped(sys.stdin if stdin is None else stdin, notify, bool(instruction) or not needed).strip()
    if instruction and piped:
        return f"{instruction}\n\n<stdin>\n{piped}\n</stdin>"
    if needed and not (instruction or piped):
        raise ConfigError(user_text("cli.no_task", command=command))
    return instruction or piped


def media_named(text: str, workspace: Path) -> list[Path]:
    """Return the images and PDFs that a text names, such as ``@shot.png`` or ``@"my shot.png"``."""
    names = [quoted or bare.rstrip(",;:!?)") for quoted, bare in MENTION.findall(text)]
    names += [unquoted_path(f'"{name}"') for name in names if "\\" in name]
    paths = dict.fromkeys(workspace / Path(name).expanduser() for name in names)
    return [path for path in paths if path.suffix.lower() in MEDIA_ENDINGS and path.is_file()]


def with_attached(task: str, files: Sequence[str]) -> tuple[str, list[Path]]:
    """Return the task including the text of attached files, and the attached images and PDFs.

    Raises:
        ConfigError: The task is missing, or a file is unreadable, too long or of an unknown kind.
    """
    if files and not task:
        raise ConfigError(user_text("cli.attach_nothing"))
    parts, media = [task], []
    for name in files:
        path = Path(name).expanduser()
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ConfigError(user_text("cli.attach_unreadable", name=name, error=error.strerror)) from error
        if path.suffix.lower() in MEDIA_ENDINGS:
            media.append(path.absolute())
        elif len(data) > MAX_INPUT_BYTES or (text := decoded_text(data)) is None:
            endings = ", ".join(MEDIA_ENDINGS)
            raise ConfigError(user_text("cli.attach_kind", name=name, limit=MAX_INPUT_BYTES, endings=endings))
        else:
            parts.append(f"<file name={json.dumps(name)}>\n{text}\n</file>")
    return "\n\n".join(parts), media


@dataclass(frozen=True, slots=True)
class PipedAnswer:
    """The answer to a question in a conversation over a pipe.

    Args:
        message: The reason for the model, if the call is denied.
    """

    call_id: str
    verdict: Literal["allow", "deny"]
    message: str = ""


def tasks_of_lines(stdin: TextIO | None) -> Iterator[str | PipedAnswer]:
    """Yield the tasks and answers of a conversation over a pipe, one JSON object per line.

    The objects are ``{"type": "user", "content": "..."}`` and ``{"type": "answer", "call_id": "...",
    "verdict": "allow"}``; the verdict can also be ``deny``, and a ``message`` is optional.

    Raises:
        ConfigError: A line is too long or is not one of these objects.
    """
    number = 0
    while stdin is not None and (line := stdin.buffer.readline(MAX_INPUT_BYTES + 1)):
        number += 1
        if len(line) > MAX_INPUT_BYTES:
            raise ConfigError(notice("cli.input_line_long", number=number, max_input_bytes=MAX_INPUT_BYTES))
        if line.strip():
            yield _task_of(line, number)


def _task_of(line: bytes, number: int) -> str | PipedAnswer:
    fields = parsed_object(line) or {}
    if not all(isinstance(value, str) for value in fields.values()):
        fields = {}
    kind = fields.pop("type", "")
    if kind == "user" and fields.keys() == {"content"} and fields["content"].strip():
        return str(fields["content"])
    is_answer = {"call_id", "verdict"} <= fields.keys() <= {"call_id", "verdict", "message"}
    if kind == "answer" and is_answer and fields["verdict"] in ("allow", "deny"):
        return PipedAnswer(**fields)
    try:
        is_utf8 = "\0" not in line.decode("utf-8")
    except UnicodeDecodeError:
        is_utf8 = False
    hint = "" if is_utf8 else notice("cli.not_utf8")
    raise ConfigError(notice("cli.input_line", number=number, hint=hint))


def _piped(stdin: TextIO | None, notify: Callable[[str], None], optional: bool) -> str:
    if stdin is None or stdin.closed or (optional and is_terminal(stdin)):
        return ""
    if is_terminal(stdin):
        notify(user_text("cli.type_task"))
    elif optional and not _ready(stdin):
        notify(user_text("cli.reading_input"))
    data = stdin.buffer.read(MAX_INPUT_BYTES + 1)
    if len(data) > MAX_INPUT_BYTES:
        raise ConfigError(user_text("cli.input_too_long", limit=MAX_INPUT_BYTES))
    text = decoded_text(data)
    if text is None:
        raise ConfigError(user_text("cli.input_not_text"))
    return text


def _ready(stdin: TextIO) -> bool:
    try:
        return bool(select.select([stdin], [], [], 0)[0])
    except (OSError, ValueError):  # `select` does not support all kinds of files
        return True
