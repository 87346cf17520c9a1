"""Handing an answer to a file or a command, and finding out what became of one that was cut short."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from pure_agent_loop.durable.schedules.firings import Parcel
from pure_agent_loop.support.disk import flush_to_disk
from pure_agent_loop.support.locking import lock_within

MAX_OUTPUT_BYTES = 4_000
MAX_WAIT = 300.0
_LOCK_SECONDS = 10.0
STARTED = "started"


class Outcome(NamedTuple):
    """How a delivery ended.

    Args:
        state: See `Firing`; ``answered`` to try it again.
        detail: Why, or what the command wrote.
        wait: Seconds until it may be tried again.
    """

    state: str
    detail: str
    wait: float = 0.0


def entry_of(parcel: Parcel) -> bytes:
    """What is written to a file: the answer, and a newline at its end."""
    return (parcel.answer.rstrip("\n") + "\n").encode("utf-8", "replace")


def post_to_file(parcel: Parcel, put_down: Callable[[str], None]) -> Outcome:
    """Write an answer to its file.

    Args:
        put_down: Keeps where it will stand, before it does.
    """
    path = Path(parcel.delivery.target)
    try:
        if parcel.delivery.append:
            _append(path, entry_of(parcel), put_down)
        else:
            _replace(path, entry_of(parcel))
    except OSError as error:
        return again(parcel, f"{path}: {error.strerror or error}")
    return Outcome("delivered", str(path))


async def post_to_command(parcel: Parcel) -> Outcome:
    """Run a command with an answer on its standard input. Nothing that it began is left afterwards."""
    from pure_agent_loop.toolbox.sandbox.environment import clean_environment
    from pure_agent_loop.toolbox.sandbox.process import run_process

    delivery = parcel.delivery
    try:
        done = await run_process(
            delivery.argv,
            cwd=delivery.target,
            env=clean_environment(str(Path.home())),
            timeout=delivery.timeout,
            max_output_bytes=MAX_OUTPUT_BYTES,
            input=parcel.answer.encode("utf-8", "replace"),
        )
    except OSError as error:
        return again(parcel, f"it could not be started: {error.strerror or error}")
    if done.problem:
        return again(parcel, f"it could not be started: {done.problem}")
    if done.timed_out:
        return _unsure(parcel, f"it was ended after {delivery.timeout:g} s\n{done.output}".rstrip())
    words = f"exit code {done.exit_code}\n{done.output}".rstrip()
    return Outcome("delivered", words) if done.exit_code == 0 else again(parcel, words)


def after_death(parcel: Parcel, owner: str) -> Outcome:
    """What to do about a delivery whose worker is gone.

    Args:
        owner: The worker that had claimed it.
    """
    delivery = parcel.delivery
    if not parcel.detail or delivery.kind == "session":
        return Outcome("answered", "")  # nothing was begun
    if delivery.kind == "command":
        return _unsure(parcel, "the worker died while the command ran; whether it took effect is not known")
    if owner.rsplit("-", 2)[0] != socket.gethostname()[:40]:
        return Outcome("unknown", f"the worker {owner} died while it wrote its file {delivery.target}")
    try:
        is_there = _stands(Path(delivery.target), int(json.loads(parcel.detail)["offset"]), entry_of(parcel))
    except OSError as error:
        return again(parcel, f"{delivery.target}: {error.strerror or error}")
    return Outcome("delivered", delivery.target) if is_there else Outcome("answered", "")


def after_stop(parcel: Parcel) -> Outcome:
    """What to do about a command that was ended because its worker stopped."""
    return _unsure(parcel, "the worker was stopped while the command ran")


def again(parcel: Parcel, why: str) -> Outcome:
    """It failed: try it again, unless it was tried often enough."""
    if parcel.tries > parcel.delivery.retries:
        return Outcome("undelivered", why)
    return Outcome("answered", why, min(MAX_WAIT, 2.0 ** (parcel.tries - 1)))


def _unsure(parcel: Parcel, why: str) -> Outcome:
    return again(parcel, why) if parcel.delivery.idempotent else Outcome("unknown", why)


def _append(path: Path, entry: bytes, put_down: Callable[[str], None]) -> None:
    with _locked(path) as handle:
        offset = os.fstat(handle).st_size
        put_down(json.dumps({"offset": offset}))
        try:
            _write(handle, entry)
        except OSError:
            os.ftruncate(handle, offset)
            raise
        flush_to_disk(handle)


def _replace(path: Path, entry: bytes) -> None:
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o600
    new = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        try:
            _write(handle, entry)
            flush_to_disk(handle)
        finally:
            os.close(handle)
        new.chmod(mode)
        new.replace(path)
    except OSError:
        new.unlink(missing_ok=True)
        raise


def _stands(path: Path, offset: int, entry: bytes) -> bool:
    """True if an entry stands where it was to be written; a piece of it is taken away."""
    if not path.exists():
        return False
    with _locked(path) as handle:
        os.lseek(handle, offset, os.SEEK_SET)
        found = os.read(handle, len(entry))
        if found and found != entry and entry.startswith(found):
            os.ftruncate(handle, offset)
        return found == entry


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[int]:
    """A file for this worker alone. Where we write stays where we write: nobody of ours writes meanwhile."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    handle = os.open(path, flags | getattr(os, "O_BINARY", 0), 0o600)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(f"{path} is no file")
        if not lock_within(handle, _LOCK_SECONDS):
            raise OSError(f"{path} is locked by another program")
        yield handle
    finally:
        os.close(handle)


def _write(handle: int, entry: bytes) -> None:
    rest = memoryview(entry)
    while rest:
        rest = rest[os.write(handle, rest) :]
