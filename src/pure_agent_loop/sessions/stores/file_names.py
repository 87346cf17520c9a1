"""Convert session ids to file names: the id if it is a safe name, otherwise an encoded form."""

from __future__ import annotations

import hashlib
import re
from urllib.parse import unquote_to_bytes

MAX_NAME = 150  # bytes; leaves room for suffixes: file systems allow 255
# A suffix from `JsonlStore.repair` does not count toward the maximum length, so any session can be repaired.
_PLAIN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}?(\.repaired(-\d+)?)*")
_DEVICES = {
    "CON",
    "PRN",
    "AUX",
    "NUL",
    *(f"{name}{number}" for name in ("COM", "LPT") for number in range(10)),
}
_UNESCAPED = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_.")
_HASHED = "%~"


def file_name(session_id: str) -> str:
    """Return the name of a session's files, without a suffix.

    Encoded names contain a ``%`` and no capital letters, so that they also differ on case-insensitive file
    systems. A name that would be too long is replaced by a hash; see `is_hashed`.
    """
    is_device = session_id.partition(".")[0].upper() in _DEVICES
    if _PLAIN.fullmatch(session_id) and not is_device:
        return session_id
    parts = [character if character in _UNESCAPED else _escaped(character) for character in session_id]
    if is_device or parts[0] == "." or not any("%" in part for part in parts):
        parts[0] = _escaped(session_id[0])
    name = "".join(parts)
    return name if len(name) <= MAX_NAME else _HASHED + hashlib.sha256(session_id.encode()).hexdigest()


def _escaped(character: str) -> str:
    return "".join(f"%{byte:02x}" for byte in character.encode())


def is_hashed(name: str) -> bool:
    """Return True if a name is a hash of the id; the id is then kept in a ``.name`` file."""
    return name.startswith(_HASHED)


def session_of(name: str) -> str | None:
    """Return the id of an encoded name; None if `file_name` did not make the name, or if it is a hash."""
    try:
        session_id = unquote_to_bytes(name).decode()
        return session_id if session_id and file_name(session_id) == name else None
    except (UnicodeError, ValueError):
        return None
