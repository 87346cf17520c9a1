"""Ctrl-C during a run: the first one stops the run, the second one exits immediately."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any

from pure_agent_loop.cancel import CancelToken
from pure_agent_loop.cli.exits import INTERRUPTED
from pure_agent_loop.cli.output import PREFIX, CommandOutput
from pure_agent_loop.support.language import user_text


class Interrupts:
    """Within the block, Ctrl-C cancels a token instead of raising KeyboardInterrupt."""

    def __init__(self, token: CancelToken, output: CommandOutput) -> None:
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
        """Call a function that waits for the user; return False if Ctrl-C interrupted it."""
        self._raises = True  # set before the token is checked, so that no signal is missed
        try:
            return not self._token.is_cancelled and answer()
        except KeyboardInterrupt:
            return False
        finally:
            self._raises = False

    def _on_signal(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - passed by the system
        if self._asked:
            os._exit(INTERRUPTED)  # skip cleanup, which could hang
        self._asked = True  # set before the message, because the next signal may follow immediately
        self._print_notice()
        self._token.cancel("Ctrl-C")
        if self._raises:  # otherwise, the interrupted read would resume
            self._raises = False
            raise KeyboardInterrupt

    def _print_notice(self) -> None:
        """Write to the descriptor, because the signal may have interrupted a write to the stream."""
        if self._descriptor is not None:
            with suppress(OSError):
                os.write(self._descriptor, f"\n{PREFIX}{user_text('cli.leave_again')}\n".encode())
