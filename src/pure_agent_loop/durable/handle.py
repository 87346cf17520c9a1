"""A durable run as it is seen from outside, in any process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

from pure_agent_loop.durable.client import Client
from pure_agent_loop.durable.events import read_events
from pure_agent_loop.durable.values import TaskInfo
from pure_agent_loop.events import AnyEvent
from pure_agent_loop.llm.values import ToolCall
from pure_agent_loop.permissions import PermissionRequest, Verdict
from pure_agent_loop.stop_reasons import WAITING

POLL_SECONDS = 0.1


class Handle:
    """A durable run. It goes on whether or not anybody holds this.

    Args:
        client: The database it is in.
        run_id: Its id.
    """

    def __init__(self, client: Client, run_id: str) -> None:
        self._client = client
        self.run_id = run_id

    def info(self) -> TaskInfo:
        """All that is known about it.

        Raises:
            DurableError: There is none of that id, or the database cannot be used.
        """
        return self._client.info(self.run_id)

    def status(self) -> str:
        """One of the words of `pure_agent_loop.durable.TASK_STATES`."""
        return self.info().status

    @property
    def questions(self) -> list[PermissionRequest]:
        """What a person has to answer before it goes on."""
        return self.info().questions

    def result(self, timeout: float | None = None) -> TaskInfo:
        """Wait until it has ended, or waits for a permission or a result made elsewhere.

        Args:
            timeout: Seconds to wait at most; None for ever.

        Raises:
            TimeoutError: It has not ended by then. It goes on.
        """
        give_up = None if timeout is None else time.monotonic() + timeout
        while not _has_stopped(info := self.info()):
            self._check(give_up, timeout, info)
            time.sleep(POLL_SECONDS)
        return info

    async def aresult(self, timeout: float | None = None) -> TaskInfo:
        """Await its end; see `result`."""
        give_up = None if timeout is None else time.monotonic() + timeout
        while not _has_stopped(info := await asyncio.to_thread(self.info)):
            self._check(give_up, timeout, info)
            await asyncio.sleep(POLL_SECONDS)
        return info

    async def events(self, *, follow: bool = True, after: int = 0) -> AsyncIterator[AnyEvent]:
        """Its events from the first on, while they happen, until it has ended.

        After the death of a worker there is a second ``loop_start``. Pieces of an answer come as far as they
        are still there; the whole answer always comes.

        Args:
            follow: False for those that are there by now.
            after: Only those behind this `Event.number`, for a reader that comes back.
        """
        last = after
        while True:
            info = await asyncio.to_thread(self.info)
            found = await asyncio.to_thread(read_events, self._client.database, self.run_id, last)
            for event in found:
                last = event.number
                yield event
            if not found and (info.has_ended or not follow):
                return
            if not found:
                await asyncio.sleep(POLL_SECONDS)

    def cancel(self) -> TaskInfo:
        """Cancel it. A tool that is at work is stopped within about a second."""
        return self._client.cancel(self.run_id)

    def answer(self, call_id: str, verdict: Verdict) -> None:
        """Answer one of the `questions`. Once all are answered it goes on.

        Args:
            call_id: Which one.
            verdict: ``allow``, ``deny``, or a `Permission` that says more.

        Raises:
            ConfigError: Nothing is asked about that call, or the verdict is neither.
        """
        self._client.answer(self.run_id, call_id, verdict)

    @property
    def open_calls(self) -> list[ToolCall]:
        """The calls whose results are made elsewhere and have not come."""
        return self.info().open_calls

    def give_result(self, call_id: str, result: Any, *, is_error: bool = False) -> None:
        """Bring the result of one of the `open_calls`. Once all are there it goes on.

        Args:
            call_id: Which one.
            result: Text, or what has a JSON form.
            is_error: The call failed; `result` says how.

        Raises:
            ConfigError: The result of no such call is awaited.
        """
        self._client.give_result(self.run_id, call_id, result, is_error=is_error)

    def _check(self, give_up: float | None, timeout: float | None, info: TaskInfo) -> None:
        if give_up is not None and time.monotonic() >= give_up:
            raise TimeoutError(f"The run {self.run_id!r} is still {info.status} after {timeout:g} s.")


def _has_stopped(info: TaskInfo) -> bool:
    return info.has_ended or info.status in WAITING
