"""Targets for the answer of a scheduled run: a session, a file, or a command."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.sessions import check_session_name
from pure_agent_loop.support.folders import expanded
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.text import PlainForm

MAX_TIMEOUT = 3_600.0
MAX_RETRIES = 20


@dataclass(frozen=True, slots=True)
class Delivery(PlainForm):
    """Target for an answer. Create one with `to_session`, `to_file` or `to_command`.

    Args:
        kind: ``session``, ``file`` or ``command``.
        target: The session id, the file, or the working directory of the command.
        append: True to append to the file.
        argv: Program and arguments of the command.
        timeout: Maximum seconds for the command.
        retries: Number of retries after a failed delivery.
        idempotent: True if a command may be repeated when its outcome is unknown.

    Raises:
        ConfigError: A value is invalid.
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
            check_session_name(self.target)
        elif self.kind not in ("file", "command"):
            raise ConfigError(
                f"kind={self.kind!r:.40} is not a delivery kind. Use to_session, to_file or to_command."
            )
        if not 0 < self.timeout <= MAX_TIMEOUT:
            raise ConfigError(
                notice("library.delivery_timeout", timeout=self.timeout, max_timeout=MAX_TIMEOUT)
            )
        if not 0 <= self.retries <= MAX_RETRIES:
            raise ConfigError(f"retries={self.retries!r:.40} must be from 0 to {MAX_RETRIES}.")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Delivery:
        """Rebuild a delivery from `to_dict`."""
        return cls(**{**data, "argv": tuple(data.get("argv", ()))})

    def __str__(self) -> str:
        return f"{self.kind} {' '.join(self.argv) or self.target}"


def to_session(session_id: str) -> Delivery:
    """Deliver the answer to a session: the model reads it at the start of that session's next durable run.

    Args:
        session_id: Id of a session in the same database; the session need not exist yet.

    Raises:
        ConfigError: The id is invalid.
    """
    return Delivery("session", session_id)


def to_file(path: str | os.PathLike[str], append: bool = True) -> Delivery:
    """Write the answer to a file on the machine of the worker that delivers it.

    Args:
        path: Path of the file, relative to the current directory. A new file is readable by this user only.
        append: True to append; False to replace the content.

    Raises:
        ConfigError: The path is invalid, or its folder is missing.
    """
    if not str(path).strip() or "\0" in str(path):
        raise ConfigError(notice("library.delivery_path", path=str(path)))
    absolute = expanded(path).absolute()
    if absolute.is_dir() or not absolute.parent.is_dir():
        problem = "is a folder" if absolute.is_dir() else "is in a missing folder; create the folder first"
        raise ConfigError(f"path={str(path)!r:.200} {problem}.")
    return Delivery("file", str(absolute), append=append)


def to_command(
    argv: Sequence[str],
    timeout: float = 60.0,
    *,
    retries: int = 2,
    idempotent: bool = False,
    cwd: str | os.PathLike[str] = ".",
) -> Delivery:
    """Pass the answer to a command on its standard input.

    The command runs without a shell, in a clean environment without keys.

    Args:
        argv: Program and arguments.
        timeout: Maximum seconds.
        retries: Number of retries after a non-zero exit code.
        idempotent: True to also repeat a command whose outcome is unknown, after a timeout or the death of
            the worker.
        cwd: Working directory of the command.

    Raises:
        ConfigError: A value is invalid.
    """
    if isinstance(argv, (str, bytes)) or not argv or not all(isinstance(arg, str) for arg in argv):
        raise ConfigError(
            f"argv={argv!r:.200} must be a list of strings, such as ['mail', '-s', 'News', 'me']."
        )
    if not argv[0] or any("\0" in arg for arg in argv):
        raise ConfigError(notice("library.argv_program", argv=argv))
    folder = expanded(cwd).absolute()
    if not folder.is_dir():
        raise ConfigError(f"cwd={str(cwd)!r:.200} is not a folder.")
    return Delivery(
        "command", str(folder), argv=tuple(argv), timeout=timeout, retries=retries, idempotent=idempotent
    )
