"""A key in a file, which is read again when the file changes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.failures import LOG
from pure_agent_loop.support.folders import file_stamp

if TYPE_CHECKING:
    from typing_extensions import Self


class KeyFile(str):
    """A key in a file: ``Agent(api_key=KeyFile("/run/secrets/openai"))``.

    A client reads the file again before a request if the file has changed. If the file is then missing or
    empty, the client keeps the former key and logs an error.

    Args:
        path: File that contains the key and nothing else.

    Raises:
        ConfigError: The file cannot be read, or is empty.
    """

    path: Path
    _stamp: tuple[int, ...]
    _key: str

    def __new__(cls, path: str | os.PathLike[str]) -> Self:  # noqa: D102 - see the class
        file = Path(path).expanduser().absolute()
        stamp = file_stamp(file)
        self = super().__new__(cls, key := _read(file))
        self.path, self._stamp, self._key = file, stamp, key
        return self

    def __repr__(self) -> str:
        return f"KeyFile({str(self.path)!r})"

    def read(self) -> str:
        """Return the key that the file contains now."""
        stamp = file_stamp(self.path)
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._key = _read(self.path)
            except ConfigError as error:
                LOG.error("%s The former key is used.", error)
        return self._key


def _read(path: Path) -> str:
    try:
        key = path.read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        raise ConfigError(f"KeyFile({str(path)!r}) cannot be read: {type(error).__name__}.") from None
    if not key or not key.isprintable():
        raise ConfigError(f"KeyFile({str(path)!r}) must contain one key on one line.")
    return key
