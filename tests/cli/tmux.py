"""A conversation in a real tmux: its keys, its paste, its scroll-back. The same words as `screens.Screen`."""

from __future__ import annotations

import os
import re
import select
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from typing import Any

from tests.cli.terminal import PATIENCE

_KEYS = {"\r": "Enter", "\x1b": "Escape", "\x1b\r": "M-Enter", "\t": "Tab", "\x1b[A": "Up", "\x1b[Z": "BTab"}
_KEYS |= {chr(code): f"C-{chr(code + 96)}" for code in range(1, 27) if chr(code) not in _KEYS}
_KEY = re.compile("|".join(map(re.escape, sorted(_KEYS, key=len, reverse=True))))


class TmuxScreen:
    """Runs the command in a pane of a tmux of its own."""

    def __init__(self, pal: Any, *words: str, columns: int = 80, rows: int = 24) -> None:
        self._at = pal.workspace.parent / f"tmux-{time.monotonic_ns()}"
        self._at.mkdir()
        settings = [
            ("set", "-g", "history-limit", "20000"),
            ("set", "-g", "remain-on-exit", "on"),
            ("set", "-g", "set-clipboard", "on"),
            ("set", "-g", "escape-time", "0"),
            ("set", "-g", "default-terminal", "tmux-256color"),
        ]
        conf = self._at / "conf"
        conf.write_text("".join(f"{shlex.join(each)}\n" for each in settings))
        start = ["new-session", "-d", "-x", str(columns), "-y", str(rows), "-c", str(pal.workspace)]
        self.tmux("-f", str(conf), *start, shlex.join([*pal.command, *words]), env=pal.env)
        self.resize(columns, rows)  # from here on no client changes it
        # A control client tells when something is written, so that nobody has to guess when to look.
        self._control = subprocess.Popen(
            ["tmux", "-C", *self._socket, "attach"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def __enter__(self) -> TmuxScreen:  # noqa: PYI034 - there are no subclasses
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["tmux", *self._socket, "kill-server"], check=False, capture_output=True)
        self._control.communicate(timeout=PATIENCE)

    @property
    def _socket(self) -> list[str]:
        return ["-S", str(self._at / "socket")]

    def tmux(self, *words: str, data: str | None = None, env: Mapping[str, str] = os.environ) -> str:
        """Do a command of tmux, and return what it prints."""
        done = subprocess.run(
            ["tmux", "-u", *self._socket, *words],
            input=data,
            capture_output=True,
            check=True,
            text=True,
            timeout=PATIENCE,
            env={**env, "LC_ALL": "C.UTF-8"},
        )
        return done.stdout

    @property
    def lines(self) -> list[str]:
        """What is on the screen now."""
        return self.tmux("capture-pane", "-p").split("\n")[:-1]

    @property
    def text(self) -> str:
        return "\n".join(self.lines).rstrip()

    @property
    def all(self) -> str:
        """With what has scrolled out of it."""
        return self.tmux("capture-pane", "-p", "-S", "-").rstrip()

    @property
    def joined(self) -> str:
        """With lines that tmux has broken whole again."""
        return self.tmux("capture-pane", "-p", "-J", "-S", "-")

    @property
    def history(self) -> list[str]:
        """What has scrolled out of it."""
        return (
            self.tmux("capture-pane", "-p", "-S", "-", "-E", "-1").split("\n")[:-1] if self._scrolled else []
        )

    @property
    def _scrolled(self) -> int:
        return int(self.tmux("display-message", "-p", "#{history_size}"))

    @property
    def coloured(self) -> str:
        """With the sequences of its colours."""
        return self.tmux("capture-pane", "-p", "-e", "-S", "-")

    def type(self, keys: str) -> None:
        place = 0
        for found in _KEY.finditer(keys):
            self._literal(keys[place : found.start()])
            self.tmux("send-keys", _KEYS[found[0]])
            place = found.end()
        self._literal(keys[place:])

    def _literal(self, text: str) -> None:
        if text:
            self.tmux("send-keys", "-l", "--", text)

    def paste(self, text: str) -> None:
        self.tmux("load-buffer", "-", data=text)
        self.tmux("paste-buffer", "-p")

    def resize(self, columns: int, rows: int) -> None:
        self.tmux("resize-window", "-x", str(columns), "-y", str(rows))

    @property
    def told(self) -> int:
        """Columns of which tmux has told the program."""
        tty = os.open(self.tmux("display-message", "-p", "#{pane_tty}").strip(), os.O_RDONLY | os.O_NOCTTY)
        try:
            return os.get_terminal_size(tty).columns
        finally:
            os.close(tty)

    def until(self, wanted: str | Callable[[TmuxScreen], bool]) -> str:
        """Wait until a text, or a state, is on the screen; returns the screen."""
        ends = time.monotonic() + PATIENCE
        while not (wanted(self) if callable(wanted) else re.search(wanted, self.all)):
            assert time.monotonic() < ends, f"{wanted!r} did not come:\n{self.all}"
            self._wait_for_news(0.2)
        return self.text

    def kill(self) -> None:
        """As a power cut does it."""
        os.kill(int(self.tmux("display-message", "-p", "#{pane_pid}")), signal.SIGKILL)
        self.end()

    def end(self) -> int:
        """Wait for the end; the exit code."""
        self.until(lambda _: self._is_over())
        return int(self.tmux("display-message", "-p", "#{pane_dead_status}").strip() or -1)

    def _is_over(self) -> bool:
        dead, ended, server = self.tmux(
            "display-message", "-p", "#{pane_dead}:#{pane_dead_status}#{pane_dead_signal}:#{pid}"
        ).split(":")
        if dead == "1" and not ended:  # tmux 3.3 can miss that a process ended; so it looks again
            os.kill(int(server), signal.SIGCHLD)
        return bool(ended)

    def _wait_for_news(self, seconds: float) -> None:
        """Return when the pane has written something, or nothing came."""
        assert self._control.stdout is not None
        out = self._control.stdout.fileno()
        if select.select([out], [], [], seconds)[0]:
            os.read(out, 1 << 20)
