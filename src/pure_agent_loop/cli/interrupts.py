"""Ctrl-C during a run: once asks it to stop, twice leaves at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

from pure_agent_loop.cancel import CancelToken
from pure_agent_loop.cli.exits import INTERRUPTED
from pure_agent_loop.cli.output import PREFIX, Output


class Interrupts:
    """While this block runs, Ctrl-C cancels a token instead of raising KeyboardInterrupt.

    Args:
        token: Cancelled by the first one.
        output: Told about it.
    """

    def __init__(self, token: CancelToken, output: Output) -> None:
        self._token = token
        self._descriptor = output.error_fileno()
        self._before: Any = None
        self._asked = False
        self._raises = False
        self._active = threading.current_thread() is threading.main_thread()

    def __enter__(self) -> Interrupts:  # noqa: PYI034 - there are no subclasses
        if self._active:
            self._before = signal.signal(signal.SIGINT, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._active:
            signal.signal(signal.SIGINT, self._before)

    def wait_for(self, answer: Callable[[], bool]) -> bool:
        """Call something that waits for the person at the terminal; False if Ctrl-C comes instead.

        Args:
            answer: What waits; left by an exception when Ctrl-C comes.
        """
        self._raises = True  # before the look at the token, so that none comes unseen in between
        try:
            return not self._token.is_cancelled and answer()
        except KeyboardInterrupt:
            return False
        finally:
            self._raises = False

    def _on_signal(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - given by the system
        if self._asked:
            os._exit(INTERRUPTED)  # no cleanup that could hang: that is what the second Ctrl-C is for
        self._asked = True  # before it is said, because the second one may come right after
        self._tell()
        self._token.cancel("Ctrl-C")
        if self._raises:  # a read from the terminal would go on after this
            self._raises = False
            raise KeyboardInterrupt

    def _tell(self) -> None:
        """Not through the stream: the signal may have come in the middle of a write to it."""
        if self._descriptor is not None:
            try:
                os.write(self._descriptor, f"\n{PREFIX}stopping; Ctrl-C again leaves at once\n".encode())
            except OSError:
                return
