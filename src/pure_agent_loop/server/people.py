"""Who asks: people by their tokens, by a cookie that a token was exchanged for, or by the word of a proxy.

A token is kept as its SHA-256: it is random and long, so that is as good as a slow hash, and a thousand times
cheaper. A cookie holds a name, a time and a seal; the seal breaks when the person's token changes.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pure_agent_loop.errors import ConfigError

ROLES = ("use", "approve", "operate")
OWNER = "owner"
SHORTEST_TOKEN = 16
COOKIE_SECONDS = 30 * 86_400
_NAME = re.compile(r"[A-Za-z0-9_.@+-]{1,100}")
_HASH = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Person:
    """Somebody who may ask.

    Args:
        name: At most 100 letters, digits and ``_ . @ + -``.
        roles: ``use``: run agents, and see what came of one's own runs; ``approve``: answer questions about
            calls, of everybody; ``operate``: everything, of everybody.
        token_hash: The SHA-256 of the token, as 64 hexadecimal digits; empty for one whom a proxy names.

    Raises:
        ConfigError: One of them cannot be.
    """

    name: str
    roles: frozenset[str] = frozenset(["use"])
    token_hash: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        name: object = self.name
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ConfigError(
                f"name={name!r:.80} cannot name a person. Use at most 100 letters, digits and '_ . @ + -'."
            )
        object.__setattr__(self, "roles", frozenset(self.roles))
        if not self.roles or not self.roles <= set(ROLES):
            raise ConfigError(f"roles of {self.name}: use some of {', '.join(ROLES)}.")
        if self.token_hash and not _HASH.fullmatch(self.token_hash):
            raise ConfigError(
                f"token_hash of {self.name} must be 64 hexadecimal digits, as `sha256sum` prints them."
            )

    def may(self, role: str) -> bool:
        """True if this person has a role; who operates has them all."""
        return role in self.roles or "operate" in self.roles

    @property
    def mark(self) -> str:
        """What the ids of this person's sessions begin with; empty for the owner of the server."""
        return "" if self.name == OWNER else hashlib.sha256(f"pal:{self.name}".encode()).hexdigest()[:20]

    def owns(self, session_id: str) -> bool:
        """True if a session is this person's, or this person sees all of them."""
        return self.may("operate") or (bool(self.mark) and session_id.startswith(f"{self.mark}-"))

    def new_session_id(self) -> str:
        """A new id that nobody can guess."""
        moment = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
        head = f"{self.mark}-" if self.mark else ""
        return f"{head}{moment}-{secrets.token_hex(8 if head else 16)}"


def hash_of(token: str) -> str:
    """What is kept of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def read_people(path: str | os.PathLike[str]) -> list[Person]:
    """The people in a JSON file: ``{"ada": {"token_sha256": "...", "roles": ["use", "approve"]}}``.

    Raises:
        ConfigError: It cannot be read, or says something that cannot be.
    """
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"The table of people {path} cannot be read: {error}") from error
    if not isinstance(found, dict) or not all(isinstance(each, dict) for each in found.values()):
        raise ConfigError(f"{path} must hold an object of people by name, each an object.")
    people = []
    for name, about in found.items():
        strange = about.keys() - {"token_sha256", "roles"}
        if strange:
            raise ConfigError(f"{path}: {name}: {', '.join(sorted(strange))} is not known.")
        people.append(Person(name, frozenset(about.get("roles", ["use"])), about.get("token_sha256", "")))
    return people


class People:
    """Everybody who may ask.

    Args:
        token: The token of the owner.
        others: Further people.
        header: The header in which a proxy that shows the owner's token names a person; empty for none.
        secret: Seals cookies.
        now: Tells the time in seconds since the epoch.

    Raises:
        ConfigError: The token is too short, or two people have one name or one token.
    """

    def __init__(
        self,
        token: str,
        others: Iterable[Person] = (),
        header: str = "",
        secret: bytes = b"",
        now: Callable[[], float] = time.time,
    ) -> None:
        if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
            raise ConfigError(
                f"token must be at least {SHORTEST_TOKEN} letters and digits that nobody can guess, such as "
                "`python -c 'import secrets; print(secrets.token_urlsafe(24))'` prints."
            )
        owner = Person(OWNER, frozenset(ROLES), hash_of(token))
        self.header = header.lower()
        self._secret, self._now = secret or secrets.token_bytes(32), now
        self._by_name: dict[str, Person] = {}
        for each in (owner, *others):
            if each.name in self._by_name:
                raise ConfigError(f"There are two people of the name {each.name!r}.")
            self._by_name[each.name] = each
        hashes = [each.token_hash for each in self._by_name.values() if each.token_hash]
        if len(set(hashes)) < len(hashes):
            raise ConfigError("Two people have the same token.")
        # Looked up by the hash: how long that takes tells nothing of the token.
        self._by_hash = {each.token_hash: each for each in self._by_name.values() if each.token_hash}
        self.cookie_name = f"pal_{hashlib.sha256(owner.token_hash.encode()).hexdigest()[:8]}"

    def by_token(self, token: str) -> Person | None:
        """Whose token it is."""
        return self._by_hash.get(hash_of(token))

    def named(self, person: Person, headers: Mapping[str, str]) -> Person | None:
        """Who is meant by a request: where the owner's token comes with a name, that person."""
        name = headers.get(self.header, "") if self.header else ""
        if not name or person.name != OWNER:
            return person
        if name == OWNER or not _NAME.fullmatch(name):
            return None
        return self._by_name.get(name) or Person(name)

    def cookie_for(self, person: Person) -> str:
        """The value of the cookie that a person gets for a token."""
        name = base64.urlsafe_b64encode(person.name.encode()).decode().rstrip("=")
        until = str(int(self._now()) + COOKIE_SECONDS)
        return f"{name}.{until}.{self._seal(name, until, person)}"

    def by_cookie(self, value: str) -> Person | None:
        """Whose cookie it is; None if it is nobody's, or too old."""
        parts: Sequence[str] = value.split(".")
        if len(parts) != 3 or not value.isascii() or not parts[1].isdecimal() or len(parts[1]) > 15:
            return None
        name, until, seal = parts
        try:
            known = self._by_name.get(base64.urlsafe_b64decode(name + "=" * (-len(name) % 4)).decode())
        except ValueError:
            return None
        if known is None or int(until) < self._now():
            return None
        return known if hmac.compare_digest(seal, self._seal(name, until, known)) else None

    def _seal(self, name: str, until: str, person: Person) -> str:
        said = f"{name}.{until}.{person.token_hash}".encode()
        return hmac.new(self._secret, said, hashlib.sha256).hexdigest()


def kept_secret(path: Path, make: Callable[[], str]) -> str:
    """What stands in a file for this user only; it is made if there is none.

    Raises:
        ConfigError: It can be neither read nor written.
    """
    try:
        if not path.exists():
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "w") as file:
                file.write(make())
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read or written: {error}") from error


def check_people(given: Any) -> list[Person]:
    """People as `create_app` is given them: `Person` objects, or the path of a table.

    Raises:
        ConfigError: It is neither.
    """
    if isinstance(given, (str, os.PathLike)):
        return read_people(given)
    found = list(given or ())
    if not all(isinstance(each, Person) for each in found):
        raise ConfigError("users must be Person objects, or the path of a JSON table of them.")
    return found
