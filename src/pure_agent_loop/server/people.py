"""Authentication: by token, by a cookie issued for a token, or by a proxy's header.

Tokens are stored as SHA-256 hashes: tokens are long and random, so a slow hash would add no safety. A cookie
holds a name, an expiry time and a signature; the signature becomes invalid when the person's token changes. A
cookie that was logged out is recorded as a file, so that it stays invalid in all processes of the server and
after restarts.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import hmac
import logging
import os
import re
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pure_agent_loop.errors import (
    ConfigError,
)
from pure_agent_loop.support.folders import file_stamp, private_folder
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.parsing import read_json
from pure_agent_loop.support.text import safe_str

LOG = logging.getLogger("pure_agent_loop.server")
WATCH_SECONDS = 1.0  # seconds between two checks of the files
ROLES = ("use", "approve", "operate")
OWNER = "owner"
MIN_TOKEN_LENGTH = 16
COOKIE_SECONDS = 30 * 86_400
_NAME = re.compile(r"[A-Za-z0-9_.@+-]{1,100}")
_HASH = re.compile(r"[0-9a-f]{64}")
_DIGEST_CHARS = 64
SLASH = "\0"  # replaces an escaped slash (%2F) in a path


@dataclass(frozen=True)
class Person:
    """An authenticated user.

    Args:
        name: At most 100 letters, digits and ``_ . @ + -``.
        roles: ``use``: run agents and see one's own runs. ``approve``: also answer questions about anyone's
            calls. ``operate``: everything, for all users.
        token_hash: The SHA-256 of the token as 64 hexadecimal digits; empty for a user that a proxy names.

    Raises:
        ConfigError: An argument is invalid.
    """

    name: str
    roles: frozenset[str] = frozenset(["use"])
    token_hash: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        name: object = self.name
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ConfigError(notice("library.user_name", name=name))
        object.__setattr__(self, "roles", frozenset(self.roles))
        if not self.roles or not self.roles <= set(ROLES):
            raise ConfigError(notice("library.user_roles", name=self.name, roles=", ".join(ROLES)))
        if self.token_hash and not _HASH.fullmatch(self.token_hash):
            raise ConfigError(notice("library.user_token_hash", name=self.name))

    def may(self, role: str) -> bool:
        """Return whether this person has a role. ``operate`` includes all roles."""
        return role in self.roles or "operate" in self.roles

    @property
    def mark(self) -> str:
        """The prefix of this person's session ids; empty for the owner of the server."""
        return "" if self.name == OWNER else hashlib.sha256(f"pal:{self.name}".encode()).hexdigest()[:20]

    def owns(self, session_id: str) -> bool:
        """Return whether this person may see a session."""
        return self.may("operate") or (bool(self.mark) and session_id.startswith(f"{self.mark}-"))

    def new_session_id(self) -> str:
        """Create a session id that cannot be guessed."""
        moment = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
        head = f"{self.mark}-" if self.mark else ""
        return f"{head}{moment}-{secrets.token_hex(8 if head else 16)}"


def hash_of(token: str) -> str:
    """Hash a token for storage."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def read_people(path: str | os.PathLike[str]) -> list[Person]:
    """Read users from a JSON file: ``{"ada": {"token_sha256": "...", "roles": ["use", "approve"]}}``.

    Raises:
        ConfigError: The file cannot be read, or an entry is invalid.
    """
    try:
        table = read_json(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(notice("library.users_unreadable", path=path, error=error)) from error
    if not isinstance(table, dict) or not all(isinstance(fields, dict) for fields in table.values()):
        raise ConfigError(notice("library.users_object", path=path))
    people = []
    for name, fields in table.items():
        unknown = fields.keys() - {"token_sha256", "roles"}
        if unknown:
            raise ConfigError(
                notice("library.users_key", path=path, name=name, unknown=", ".join(sorted(unknown)))
            )
        people.append(Person(name, frozenset(fields.get("roles", ["use"])), fields.get("token_sha256", "")))
    return people


class People:
    """The users of a server.

    Args:
        token: The owner's token, or the file that contains it.
        ended: The folder in which logged-out cookies are recorded.
        others: Additional users, or the path of a JSON file that lists them.
        header: The header that names the user, set by a proxy that sends the owner's token; empty for none.
        now: Returns seconds since the epoch.

    Raises:
        ConfigError: The token is too short, or two users share a name or a token.
    """

    def __init__(
        self,
        token: str | Path,
        ended: Path,
        others: Any = (),
        header: str = "",
        secret: bytes = b"",
        now: Callable[[], float] = time.time,
    ) -> None:
        self.header = header.lower()
        self._ended = ended
        self._secret, self._now = secret or secrets.token_bytes(32), now
        self._token, self._others = token, others
        self._files = [token] if isinstance(token, Path) else []
        if isinstance(others, (str, os.PathLike)):
            self._files.append(Path(others))
        else:
            self._others = check_people(others)
        self.on_ended: Callable[[set[Person]], None] = lambda _: None
        self._stamps = [*map(file_stamp, self._files)]
        self._by_name = self._read()
        # A lookup by hash does not leak the token through its timing.
        self._by_hash = {person.token_hash: person for person in self._by_name.values() if person.token_hash}
        owner = self._by_name[OWNER]
        # The cookie's name stays the same when the token is replaced: other users' cookies remain valid.
        self.cookie_name = f"pal_{hashlib.sha256(owner.token_hash.encode()).hexdigest()[:8]}"

    def _read(self) -> dict[str, Person]:
        token = (
            self._token.read_text(encoding="utf-8").strip() if isinstance(self._token, Path) else self._token
        )
        if len(token) < MIN_TOKEN_LENGTH or not token.isascii() or not token.isprintable() or " " in token:
            raise ConfigError(notice("library.token_short", min_token_length=MIN_TOKEN_LENGTH))
        by_name: dict[str, Person] = {}
        for person in (Person(OWNER, frozenset(ROLES), hash_of(token)), *check_people(self._others)):
            if person.name in by_name:
                raise ConfigError(notice("library.users_name_twice", name=person.name))
            by_name[person.name] = person
        hashes = [person.token_hash for person in by_name.values() if person.token_hash]
        if len(set(hashes)) < len(hashes):
            raise ConfigError(notice("library.users_token_twice"))
        return by_name

    def refresh(self) -> None:
        """Read the files again if they have changed. If a file is invalid, the previous users remain."""
        stamps = [*map(file_stamp, self._files)]
        if stamps == self._stamps:
            return
        self._stamps = stamps
        try:
            by_name = self._read()
        except (ConfigError, OSError, ValueError) as error:
            LOG.error(notice("library.users_kept", error=safe_str(error)))  # noqa: TRY400 - the reason is enough
            return
        ended = {*self._by_name.values()} - {*by_name.values()}
        self._by_name = by_name
        self._by_hash = {person.token_hash: person for person in by_name.values() if person.token_hash}
        LOG.info(notice("library.users_read", users=len(by_name), ended=len(ended)))
        self.on_ended(ended)

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Within the block, check the files for changes even if no request arrives."""

        async def watch() -> None:
            while True:
                await asyncio.sleep(WATCH_SECONDS)
                self.refresh()

        task = asyncio.create_task(watch())
        try:
            yield
        finally:
            task.cancel()

    def by_token(self, token: str) -> Person | None:
        """Return the person that a token belongs to."""
        self.refresh()
        return self._by_hash.get(hash_of(token))

    def named(self, person: Person, headers: Mapping[str, str]) -> Person | None:
        """Return the user of a request; for the owner's token, the user named in the proxy's header."""
        name = headers.get(self.header, "") if self.header else ""
        if not name or person.name != OWNER:
            return person
        if name == OWNER or not _NAME.fullmatch(name):
            return None
        return self._by_name.get(name) or Person(name)

    def cookie_for(self, person: Person) -> str:
        """Create the value of a person's cookie."""
        name = base64.urlsafe_b64encode(person.name.encode()).decode().rstrip("=")
        expiry, nonce = str(int(self._now()) + COOKIE_SECONDS), secrets.token_hex(8)
        return f"{name}.{expiry}.{nonce}{self._sign(name, expiry, person, nonce)}"

    def by_cookie(self, value: str) -> Person | None:
        """Return the person that a cookie belongs to; None if the cookie is invalid or has expired."""
        self.refresh()
        parts: Sequence[str] = value.split(".")
        if len(parts) != 3 or not value.isascii() or not parts[1].isdecimal() or len(parts[1]) > 15:
            return None
        name, expiry, signature = parts
        try:
            person = self._by_name.get(base64.urlsafe_b64decode(name + "=" * (-len(name) % 4)).decode())
        except ValueError:
            return None
        if person is None or int(expiry) < self._now():
            return None
        nonce, digest = signature[:-_DIGEST_CHARS], signature[-_DIGEST_CHARS:]
        is_valid = hmac.compare_digest(digest, self._sign(name, expiry, person, nonce))
        return person if is_valid and not (self._ended / digest).exists() else None

    def end_cookie(self, value: str) -> None:
        """End a valid cookie before its expiry time. Also delete the records of expired cookies.

        Raises:
            OSError: The folder cannot be written.
        """
        if self.by_cookie(value) is None:
            return
        for file in private_folder(self._ended).iterdir():
            if file.stat().st_mtime + COOKIE_SECONDS < self._now():
                file.unlink(missing_ok=True)
        (self._ended / value[-_DIGEST_CHARS:]).touch()

    def _sign(self, name: str, expiry: str, person: Person, nonce: str) -> str:
        message = f"{name}.{expiry}.{person.token_hash}{nonce}".encode()
        return hmac.new(self._secret, message, hashlib.sha256).hexdigest()


def load_or_create_secret(path: Path, make: Callable[[], str]) -> str:
    """Read a secret from a private file. If the file is missing, create it.

    Raises:
        ConfigError: The file can be neither read nor written.
    """
    try:
        if not path.exists():
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "w") as file:
                file.write(make())
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        raise ConfigError(notice("library.not_read_or_written", path=path, error=error)) from error


def check_people(users: Any) -> list[Person]:
    """Return the users passed to `create_app` as `Person` objects or as the path of a JSON file.

    Raises:
        ConfigError: `users` is neither, or the file is invalid.
    """
    if isinstance(users, (str, os.PathLike)):
        return read_people(users)
    people = list(users or ())
    if not all(isinstance(person, Person) for person in people):
        raise ConfigError("users must be Person objects or the path of a JSON file that lists them.")
    return people
