"""Where the answer of a scheduled run goes: a session, a file, or a command."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.sessions import check_session_id
from pure_agent_loop.support.paths import expanded

MAX_TIMEOUT = 3_600.0
MAX_RETRIES = 20


@dataclass(frozen=True, slots=True)
class Delivery:
    """Where an answer goes. Make one with `to_session`, `to_file` or `to_command`.

    Args:
        kind: ``session``, ``file`` or ``command``.
        target: The session, the file, or the folder the command works in.
        append: The file keeps what it has.
        argv: The command.
        timeout: Seconds it may take.
        retries: How often a delivery that failed is tried again.
        idempotent: A command whose outcome nobody knows may be run again.

    Raises:
        ConfigError: A value cannot be used.
    """

    kind: Literal["session", "file", "command"]
    target: str
    append: bool = True
    argv: tuple[str, ...] = ()
    timeout: float = 60.0
    retries: int = 2
    idempotent: bool = False

    def __post_init__(self) -> None:
        if self.kind == "session":
            check_session_id(self.target)
        elif self.kind not in ("file", "command"):
            raise ConfigError(
                f"kind={self.kind!r:.40} is no delivery. Use to_session, to_file or to_command."
            )
        if not 0 < self.timeout <= MAX_TIMEOUT:
            raise ConfigError(
                f"timeout={self.timeout!r:.40} must be above 0 and at most {MAX_TIMEOUT:.0f} s."
            )
        if not 0 <= self.retries <= MAX_RETRIES:
            raise ConfigError(f"retries={self.retries!r:.40} must be from 0 to {MAX_RETRIES}.")

    def to_dict(self) -> dict[str, Any]:
        """It as JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Delivery:
        """The reverse of `to_dict`."""
        return cls(**{**data, "argv": tuple(data.get("argv", ()))})

    def __str__(self) -> str:
        return f"{self.kind} {' '.join(self.argv) or self.target}"


def to_session(session_id: str) -> Delivery:
    """Leave the answer for a session: the model reads it at the start of the next durable run there.

    Args:
        session_id: A session of the same database. It need not be there yet.

    Raises:
        ConfigError: It is no id.
    """
    return Delivery("session", session_id)


def to_file(path: str | os.PathLike[str], append: bool = True) -> Delivery:
    """Write the answer to a file of the machine whose worker delivers it.

    Args:
        path: The file; a new one can be read by this user only. Relative to the current folder.
        append: Put it at the end; False to replace what is there.

    Raises:
        ConfigError: It is no path, or its folder is missing.
    """
    if not str(path).strip() or "\0" in str(path):
        raise ConfigError(f"path={str(path)!r:.200} is no file. Name one: to_file('answers.md').")
    whole = expanded(path).absolute()
    if whole.is_dir() or not whole.parent.is_dir():
        wrong = "is a folder" if whole.is_dir() else "is in a folder that is missing; make the folder first"
        raise ConfigError(f"path={str(path)!r:.200} {wrong}.")
    return Delivery("file", str(whole), append=append)


def to_command(
    argv: Sequence[str],
    timeout: float = 60.0,
    *,
    retries: int = 2,
    idempotent: bool = False,
    cwd: str | os.PathLike[str] = ".",
) -> Delivery:
    """Give the answer to a command on its standard input. No shell; a clean environment without keys.

    Args:
        argv: Program and arguments.
        timeout: Seconds it may take.
        retries: How often it is run again after an exit code other than 0.
        idempotent: It may also be run again when nobody knows whether it took effect: after a timeout, or
            the death of the worker.
        cwd: The folder it works in.

    Raises:
        ConfigError: A value cannot be used.
    """
    if isinstance(argv, (str, bytes)) or not argv or not all(isinstance(each, str) for each in argv):
        raise ConfigError(
            f"argv={argv!r:.200} must be a list of texts, such as ['mail', '-s', 'News', 'me']."
        )
    if not argv[0] or any("\0" in each for each in argv):
        raise ConfigError(f"argv={argv!r:.200} has no program, or a zero byte. Begin it with a program.")
    folder = expanded(cwd).absolute()
    if not folder.is_dir():
        raise ConfigError(f"cwd={str(cwd)!r:.200} is no folder.")
    return Delivery(
        "command", str(folder), argv=tuple(argv), timeout=timeout, retries=retries, idempotent=idempotent
    )
