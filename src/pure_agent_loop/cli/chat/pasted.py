"""What comes into the input without being typed: long pastes, dropped files, an image of the clipboard."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import subprocess
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pure_agent_loop.cli.chat.words import chat_word
from pure_agent_loop.cli.task import MEDIA_ENDINGS
from pure_agent_loop.support.child import ELSEWHERE, child_environment, find_program
from pure_agent_loop.support.paths import data_folder, private_folder

LONG_PASTE_LINES, LONG_PASTE_CHARS = 8, 1_000
LOOK_SECONDS = 3.0
# Each writes the image of the clipboard to its standard output, on one kind of desktop.
_CLIPBOARDS = (
    ("WAYLAND_DISPLAY", ("wl-paste", "--no-newline", "--type", "image/png")),
    ("DISPLAY", ("xclip", "-selection", "clipboard", "-target", "image/png", "-out")),
    ("", ("pngpaste", "-")),
)
_DESKTOP = ("WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "DISPLAY", "XAUTHORITY")
_PNG = b"\x89PNG\r\n\x1a\n"


class Chips:
    """What stands in the input line for something longer."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def fold(self, text: str) -> str:
        """What stands in the input line for a paste.

        Args:
            text: The paste.
        """
        if files := dropped_files(text):
            return "".join(f"{self._chip('image_chip', _mention(each), name=each.name)} " for each in files)
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.count("\n") + 1
        if lines <= LONG_PASTE_LINES and len(text) <= LONG_PASTE_CHARS:
            return text
        return self._chip("chip", text, lines=lines)

    def of_clipboard(self) -> str:
        """What stands in the input line for the image of the clipboard; empty if there is none."""
        path = clipboard_image()
        return "" if path is None else f"{self._chip('image_chip', _mention(path), name='')} "

    def unfold(self, line: str) -> str:
        """The line with all that was pasted."""
        if not self._texts:
            return line
        found = re.compile("|".join(map(re.escape, self._texts)))  # at once: a paste may look like a chip
        return found.sub(lambda chip: self._texts[chip[0]], line)

    def _chip(self, word: str, text: str, **values: object) -> str:
        chip = chat_word(word, number=len(self._texts) + 1, **values)
        self._texts[chip] = text
        return chip


def _mention(path: Path) -> str:
    return f'@"{path}"'


def dropped_files(text: str) -> list[Path]:
    """The images and PDF that were dropped on the terminal; empty if the paste is something else.

    A terminal pastes their absolute paths: plain, in quotes, with backslashes, or as ``file://``.

    Args:
        text: The paste.
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
    """The image of the clipboard, as a file in the data folder; None if none can be had."""
    for variable, command in _CLIPBOARDS:
        program = find_program(command[0]) if not variable or os.environ.get(variable) else None
        if program is None:
            continue
        try:
            done = subprocess.run(  # noqa: S603 - by its full path, with words of our own
                [program, *command[1:]],
                capture_output=True,
                timeout=LOOK_SECONDS,
                check=False,
                cwd=ELSEWHERE,
                env=child_environment(*_DESKTOP),
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.stdout.startswith(_PNG):
            folder = private_folder(data_folder() / "pasted")
            path = folder / f"{hashlib.sha256(done.stdout).hexdigest()[:16]}.png"
            path.write_bytes(done.stdout)
            return path
    return None
