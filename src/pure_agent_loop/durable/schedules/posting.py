"""Delivery of an answer to a file or a command, and recovery of an interrupted delivery."""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from pure_agent_loop.durable.schedules.firings import PendingDelivery
from pure_agent_loop.durable.values import is_of_this_host
from pure_agent_loop.support.disk import flush_to_disk, write_all
from pure_agent_loop.support.locking import lock_within, write_whole
from pure_agent_loop.support.parsing import read_json

MAX_OUTPUT_BYTES = 4_000
MAX_WAIT = 300.0
_LOCK_SECONDS = 10.0
STARTED = "started"


class DeliveryOutcome(NamedTuple):
    """Outcome of a delivery.

    Args:
        state: New state of the `Firing`; ``answered`` to try again.
        detail: The reason, or the output of the command.
        wait: Seconds before the next attempt.
    """

    state: str
    detail: str
    wait: float = 0.0


def encode_entry(pending: PendingDelivery) -> bytes:
    """Return the bytes to write to a file: the answer with a final newline."""
    return (pending.answer.rstrip("\n") + "\n").encode("utf-8", "replace")


def post_to_file(pending: PendingDelivery, record_progress: Callable[[str], None]) -> DeliveryOutcome:
    """Write an answer to its file.

    Args:
        record_progress: Function that records the offset of an appended entry, before the write.
    """
    path = Path(pending.delivery.target)
    try:
        if pending.delivery.append:
            _append(path, encode_entry(pending), record_progress)
        else:
            mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o600
            write_whole(path, encode_entry(pending), durable=True, mode=mode)
    except OSError as error:
        return retry_or_fail(pending, f"{path}: {error.strerror or error}")
    return DeliveryOutcome("delivered", str(path))


async def post_to_command(pending: PendingDelivery) -> DeliveryOutcome:
    """Run a command with the answer on its standard input, and end all processes that the command started."""
    from pure_agent_loop.toolbox.sandbox.process import run_process
    from pure_agent_loop.toolbox.sandbox.variables import clean_environment

    delivery = pending.delivery
    try:
        done = await run_process(
            delivery.argv,
            cwd=delivery.target,
            env=clean_environment(str(Path.home())),
            timeout=delivery.timeout,
            max_output_bytes=MAX_OUTPUT_BYTES,
            input=pending.answer.encode("utf-8", "replace"),
        )
    except OSError as error:
        return retry_or_fail(pending, f"the command could not be started: {error.strerror or error}")
    if done.problem:
        return retry_or_fail(pending, f"the command could not be started: {done.problem}")
    if done.timed_out:
        return _unknown_or_retry(pending, f"timed out after {delivery.timeout:g} s\n{done.output}".rstrip())
    detail = f"exit code {done.exit_code}\n{done.output}".rstrip()
    return DeliveryOutcome("delivered", detail) if done.exit_code == 0 else retry_or_fail(pending, detail)


def after_death(pending: PendingDelivery, owner: str) -> DeliveryOutcome:
    """Return the outcome of a delivery whose worker is dead."""
    delivery = pending.delivery
    if not pending.detail or delivery.kind == "session":
        return DeliveryOutcome("answered", "")  # not started
    if delivery.kind == "command":
        return _unknown_or_retry(pending, "the worker died while the command ran; its effect is unknown")
    if not is_of_this_host(owner):
        return DeliveryOutcome("unknown", f"worker {owner} died while it wrote its file {delivery.target}")
    try:
        is_written = _is_written(
            Path(delivery.target), int(read_json(pending.detail)["offset"]), encode_entry(pending)
        )
    except OSError as error:
        return retry_or_fail(pending, f"{delivery.target}: {error.strerror or error}")
    return DeliveryOutcome("delivered", delivery.target) if is_written else DeliveryOutcome("answered", "")


def after_stop(pending: PendingDelivery) -> DeliveryOutcome:
    """Return the outcome of a command that was killed because its worker stopped."""
    return _unknown_or_retry(pending, "the worker was stopped while the command ran")


def retry_or_fail(pending: PendingDelivery, why: str) -> DeliveryOutcome:
    """Return the outcome of a failed delivery: try again, unless the retries are used up."""
    if pending.tries > pending.delivery.retries:
        return DeliveryOutcome("undelivered", why)
    return DeliveryOutcome("answered", why, min(MAX_WAIT, 2.0 ** (pending.tries - 1)))


def _unknown_or_retry(pending: PendingDelivery, why: str) -> DeliveryOutcome:
    return retry_or_fail(pending, why) if pending.delivery.idempotent else DeliveryOutcome("unknown", why)


def _append(path: Path, entry: bytes, record_progress: Callable[[str], None]) -> None:
    with _locked(path) as handle:
        offset = os.fstat(handle).st_size
        record_progress(json.dumps({"offset": offset}))
        try:
            write_all(handle, entry)
        except OSError:
            os.ftruncate(handle, offset)
            raise
        flush_to_disk(handle)


def _is_written(path: Path, offset: int, entry: bytes) -> bool:
    """Return True if the file contains the complete entry at this offset; remove a partial entry."""
    if not path.exists():
        return False
    with _locked(path) as handle:
        os.lseek(handle, offset, os.SEEK_SET)
        content = os.read(handle, len(entry))
        if content and content != entry and entry.startswith(content):
            os.ftruncate(handle, offset)
        return content == entry


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[int]:
    """Open and lock a file, so that no other worker writes at the same time."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    handle = os.open(path, flags | getattr(os, "O_BINARY", 0), 0o600)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(f"{path} is not a file")
        if not lock_within(handle, _LOCK_SECONDS):
            raise OSError(f"{path} is locked by another program")
        yield handle
    finally:
        os.close(handle)
