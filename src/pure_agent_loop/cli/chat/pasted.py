"""Input that was not typed: pastes, dropped files and clipboard images.

Input that was not typed is text for the model. Only typed text can be a command or a note.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from pure_agent_loop.cli.chat.custom import sign_of
from pure_agent_loop.cli.task import MEDIA_ENDINGS, MENTION
from pure_agent_loop.support.child import NEUTRAL_DIR, child_environment, find_program
from pure_agent_loop.support.folders import data_folder, private_folder
from pure_agent_loop.support.language import user_text

if TYPE_CHECKING:
    from prompt_toolkit.buffer import Buffer

LONG_PASTE_LINES, LONG_PASTE_CHARS = 8, 1_000
LOOK_SECONDS = 3.0
# Programs that write the clipboard image to standard output, by the environment variable of the desktop.
_CLIPBOARDS = (
    ("WAYLAND_DISPLAY", ("wl-paste", "--no-newline", "--type", "image/png")),
    ("DISPLAY", ("xclip", "-selection", "clipboard", "-target", "image/png", "-out")),
    ("", ("pngpaste", "-")),
)
_DESKTOP = ("WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "DISPLAY", "XAUTHORITY")
_PNG = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True, slots=True)
class InputEntry:
    """A submitted input.

    Args:
        named: The text without pastes; only files and resources named in this text are attached.
        sign: See `sign_of`; empty for text for the model, including every paste.
    """

    text: str
    named: str = ""
    sign: str = ""

    @property
    def has_key(self) -> bool:
        """True for a command or note that contains an API key, and for a text that is only an API key."""
        from pure_agent_loop.support.secrets.secret_shapes import holds_key  # many patterns

        return (self.sign in ("/", "#") or len(self.text.split()) == 1) and holds_key(self.text)

    @classmethod
    def typed(cls, text: str) -> InputEntry:
        """Create the entry for a text without a pasted part."""
        return cls(text, text, sign_of(text))


class TypedSign:
    """Tracks whether the sign at the start of the input was typed.

    A sign that arrived in any other way (paste, editor, yank) is text and stays text when edited. A line from
    the history keeps the meaning that it had when it was sent.
    """

    def __init__(self, buffer: Buffer) -> None:
        self._buffer = buffer
        self.forget()
        buffer.on_text_changed += lambda _: self._changed()
        buffer.on_cursor_position_changed += lambda _: self._moved()

    def forget(self) -> None:
        """Empty the input."""
        self._buffer.reset()
        self._is_typed: dict[int, bool] = {}
        self._moved()

    def type(self, sign: str) -> None:
        """Insert a sign that the user typed at the start."""
        self._buffer.insert_text(sign)
        self._is_typed[self._line] = True

    def distrust(self) -> None:
        """Treat the current input as text."""
        self._is_typed[self._line] = False

    @property
    def sign(self) -> str:
        """The sign of the current input; see `sign_of`."""
        return sign_of(self._buffer.text) if self._is_typed.get(self._line) else ""

    @property
    def _line(self) -> int:
        """The line of the history being edited; 1 is the new line."""
        return len(self._buffer._working_lines) - self._buffer.working_index

    def _moved(self) -> None:
        self._before = (self._line, self._buffer.text, self._buffer.cursor_position)

    def _changed(self) -> None:
        (line, old, cursor), text = self._before, self._buffer.text
        if line != self._line:
            self._is_typed.setdefault(self._line, self._line > 1 and sign_of(text) != "")
        else:
            removed = len(old) - len(text)
            is_cut = removed > 0 and cursor <= removed and old.endswith(text)  # the start was deleted
            if cursor == 0 or is_cut or text[:1] != old[:1]:
                self.distrust()
        self._moved()


class TagRow:
    """Placeholders in the input for pastes and files."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._pasted_mentions: set[str] = set()

    def fold(self, text: str) -> str:
        """Return the text to insert for a paste: a placeholder if the paste is long or names files."""
        if files := dropped_files(text):
            return "".join(f"{self._chip('image_chip', _mention(path), name=path.name)} " for path in files)
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        self._pasted_mentions.update(mention[0] for mention in MENTION.finditer(text))
        lines = text.count("\n") + 1
        if lines <= LONG_PASTE_LINES and len(text) <= LONG_PASTE_CHARS:
            return text
        return self._chip("chip", text, lines=lines)

    def of_clipboard(self) -> str:
        """Return the placeholder for the image on the clipboard; empty if there is none."""
        path = clipboard_image()
        return "" if path is None else f"{self._chip('image_chip', _mention(path), name='')} "

    def unfold(self, line: str) -> str:
        """Return the line with its placeholders expanded."""
        if not self._texts:
            return line
        # One pass, because a paste may itself contain placeholders.
        placeholders = re.compile("|".join(map(re.escape, self._texts)))
        return placeholders.sub(lambda chip: self._texts[chip[0]], line)

    def entry(self, line: str, sign: str) -> InputEntry:
        """Create the entry of a submitted line."""
        text, pasted = self.unfold(line), self._pasted_mentions
        self._pasted_mentions = set()
        return InputEntry(
            text, MENTION.sub(lambda mention: "" if mention[0] in pasted else mention[0], text), sign
        )

    def _chip(self, word: str, text: str, **values: object) -> str:
        chip = user_text(f"chat.{word}", number=len(self._texts) + 1, **values)
        self._texts[chip] = text
        return chip


def _mention(path: Path) -> str:
    return f'@"{path}"'


def dropped_files(text: str) -> list[Path]:
    """Return the images and PDFs that were dropped on the terminal; empty for any other paste.

    For dropped files, a terminal pastes absolute paths: plain, quoted, backslash-escaped or as ``file://``.
    """
    try:
        words = (
            shlex.split(text.strip()) if len(text) <= LONG_PASTE_CHARS and "\n" not in text.strip() else []
        )
        paths = [Path(unquote(urlsplit(word).path) if word.startswith("file://") else word) for word in words]
        fits = all(
            path.is_absolute()
            and path.suffix.lower() in MEDIA_ENDINGS
            and str(path).isprintable()
            and '"' not in str(path)
            and path.is_file()
            for path in paths
        )
    except (ValueError, OSError):
        return []
    return paths if fits else []


def clipboard_image() -> Path | None:
    """Save the clipboard image in the data folder and return the path; None if there is no image."""
    for variable, command in _CLIPBOARDS:
        program = find_program(command[0]) if not variable or os.environ.get(variable) else None
        if program is None:
            continue
        try:
            process = subprocess.run(  # noqa: S603 - absolute path, constant arguments
                [program, *command[1:]],
                capture_output=True,
                timeout=LOOK_SECONDS,
                check=False,
                cwd=NEUTRAL_DIR,
                env=child_environment(*_DESKTOP),
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if process.stdout.startswith(_PNG):
            folder = private_folder(data_folder() / "pasted")
            path = folder / f"{hashlib.sha256(process.stdout).hexdigest()[:16]}.png"
            path.write_bytes(process.stdout)
            return path
    return None
