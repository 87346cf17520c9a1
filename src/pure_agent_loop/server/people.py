"""Authentication: by token, by a cookie that a token was exchanged for, or by a proxy's header.

Tokens are stored as SHA-256: they are long and random, so a slow hash would add no safety. A cookie holds a
name, an expiry time and a signature, which becomes invalid when the person's token changes.
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

from pure_agent_loop.durable.values import DurableError, DurableNotFoundError
from pure_agent_loop.errors import (
    AlreadyAnsweredError,
    ConfigError,
    PureAgentLoopError,
    SessionLockedError,
    SessionNotFoundError,
)
from pure_agent_loop.support.language import LANGUAGES, notice, translated
from pure_agent_loop.support.text import safe_str

ROLES = ("use", "approve", "operate")
OWNER = "owner"
MIN_TOKEN_LENGTH = 16
COOKIE_SECONDS = 30 * 86_400
_NAME = re.compile(r"[A-Za-z0-9_.@+-]{1,100}")
_HASH = re.compile(r"[0-9a-f]{64}")
UNEXPECTED = notice("library.server_internal")
ALREADY_ANSWERED = "urn:pure-agent-loop:already-answered"  # a problem type
SLASH = "\0"  # replaces an escaped slash (%2F) in a path
TITLES = {
    400: "Bad request",
    401: "Not authenticated",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    408: "Request timeout",
    409: "Conflict",
    413: "Too large",
    415: "Wrong content type",
    421: "Wrong host",
    422: "Invalid request",
    429: "Too many requests",
    500: "Failed",
    503: "Unavailable",
}


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
        table = json.loads(Path(path).read_text(encoding="utf-8"))
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
        token: The owner's token.
        header: The header in which a proxy that sends the owner's token names the user; empty for none.
        now: Returns seconds since the epoch.

    Raises:
        ConfigError: The token is too short, or two users share a name or a token.
    """

    def __init__(
        self,
        token: str,
        others: Iterable[Person] = (),
        header: str = "",
        secret: bytes = b"",
        now: Callable[[], float] = time.time,
    ) -> None:
        if len(token) < MIN_TOKEN_LENGTH or not token.isascii() or not token.isprintable() or " " in token:
            raise ConfigError(notice("library.token_short", min_token_length=MIN_TOKEN_LENGTH))
        owner = Person(OWNER, frozenset(ROLES), hash_of(token))
        self.header = header.lower()
        self._secret, self._now = secret or secrets.token_bytes(32), now
        self._by_name: dict[str, Person] = {}
        for person in (owner, *others):
            if person.name in self._by_name:
                raise ConfigError(notice("library.users_name_twice", name=person.name))
            self._by_name[person.name] = person
        hashes = [person.token_hash for person in self._by_name.values() if person.token_hash]
        if len(set(hashes)) < len(hashes):
            raise ConfigError(notice("library.users_token_twice"))
        # A lookup by hash does not leak the token through its timing.
        self._by_hash = {person.token_hash: person for person in self._by_name.values() if person.token_hash}
        self.cookie_name = f"pal_{hashlib.sha256(owner.token_hash.encode()).hexdigest()[:8]}"

    def by_token(self, token: str) -> Person | None:
        """Return the owner of a token."""
        return self._by_hash.get(hash_of(token))

    def named(self, person: Person, headers: Mapping[str, str]) -> Person | None:
        """Return the user of a request: with the owner's token, the one that the proxy's header names."""
        name = headers.get(self.header, "") if self.header else ""
        if not name or person.name != OWNER:
            return person
        if name == OWNER or not _NAME.fullmatch(name):
            return None
        return self._by_name.get(name) or Person(name)

    def cookie_for(self, person: Person) -> str:
        """Create the value of a person's cookie."""
        name = base64.urlsafe_b64encode(person.name.encode()).decode().rstrip("=")
        expiry = str(int(self._now()) + COOKIE_SECONDS)
        return f"{name}.{expiry}.{self._sign(name, expiry, person)}"

    def by_cookie(self, value: str) -> Person | None:
        """Return the person of a cookie; None if the cookie is invalid or has expired."""
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
        return person if hmac.compare_digest(signature, self._sign(name, expiry, person)) else None

    def _sign(self, name: str, expiry: str, person: Person) -> str:
        message = f"{name}.{expiry}.{person.token_hash}".encode()
        return hmac.new(self._secret, message, hashlib.sha256).hexdigest()


def load_or_create_secret(path: Path, make: Callable[[], str]) -> str:
    """Read a secret from a private file. If missing, create the file.

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
    """Return the users that `create_app` got: `Person` objects, or the path of a JSON file.

    Raises:
        ConfigError: `users` is neither, or the file is invalid.
    """
    if isinstance(users, (str, os.PathLike)):
        return read_people(users)
    people = list(users or ())
    if not all(isinstance(person, Person) for person in people):
        raise ConfigError("users must be Person objects or the path of a JSON file of them.")
    return people


# -- problem details (RFC 9457) for clients, and the HTTP status of each of this package's errors --------


class HttpProblem(PureAgentLoopError):  # noqa: N818 - RFC 9457's term
    """An error response.

    Args:
        detail: What is wrong and what to do, or an error that says it. Must not reveal file or server names.
    """

    def __init__(
        self, status: int, detail: str | Exception, headers: Mapping[str, str] | None = None, **fields: Any
    ) -> None:
        super().__init__(detail if isinstance(detail, str) else safe_str(detail))
        self.status, self.headers, self.fields = status, dict(headers or {}), fields
        self.detail, self._source = str(self), detail

    def _in_language(self, language: str) -> str:
        text = translated(self._source, language)
        return text if isinstance(text, str) else self.detail

    def to_dict(self, language: str) -> dict[str, Any]:
        """Return the body.

        Args:
            language: One of `LANGUAGES`, for the detail if it has a translation.
        """
        title = TITLES.get(self.status, "Failed")
        return {
            "type": "about:blank",
            "title": title,
            "status": self.status,
            "detail": self._in_language(language),
            **self.fields,
        }

    def body(self, path: str, language: str) -> tuple[bytes, str]:
        """Return the body and its content type: OpenAI's error format below ``/v1``, else RFC 9457."""
        if not path.startswith("/v1/"):
            return json.dumps(self.to_dict(language)).encode(), "application/problem+json"
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        error = {"message": self._in_language(language), "type": kind, "param": self.fields.get("param")}
        return json.dumps({"error": {**error, "code": self.fields.get("code")}}).encode(), "application/json"


def language_of(accepted: str) -> str:
    """Return the first of `LANGUAGES` in an ``Accept-Language`` header, else English."""
    names = (name.strip()[:2].lower() for name in accepted.split(","))
    return next((name for name in names if name in LANGUAGES), LANGUAGES[0])


def path_of(scope: Mapping[str, Any]) -> str:
    """Return the path of a request, relative to the application's mount point."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    return path[len(root) :] or "/" if root and f"{path}/".startswith(f"{root.rstrip('/')}/") else path


def not_found(kind: str) -> HttpProblem:
    """Return a 404. Missing and forbidden objects give the same response."""
    return HttpProblem(404, notice("library.server_no_id", kind=notice(f"library.noun_{kind}")))


def no_agent(name: str, agents: Iterable[str], **fields: Any) -> HttpProblem:
    """Return a 404 that lists the agents."""
    detail = notice("library.server_no_agent", name=name, agents=", ".join(agents))
    return HttpProblem(404, detail, **fields)


def as_problem(error: BaseException) -> HttpProblem:
    """Convert an error to a problem. An error of another package becomes a 500 without details."""
    if isinstance(error, HttpProblem):
        return error
    if isinstance(error, AlreadyAnsweredError):
        fields: dict[str, Any] = {
            "call_id": error.call_id,
            "by": error.by,
            "answer": error.answer,
            "answered_at": error.at,
        }
        return HttpProblem(409, error, type=ALREADY_ANSWERED, **fields)
    if isinstance(error, SessionNotFoundError):
        return not_found("session")
    if isinstance(error, SessionLockedError):
        return HttpProblem(409, notice("library.server_session_in_use"))
    if isinstance(error, DurableNotFoundError):
        return HttpProblem(404, notice("library.server_not_found"))
    if isinstance(error, DurableError):
        return HttpProblem(503, notice("library.server_database_away"))
    if isinstance(error, ConfigError):
        return HttpProblem(422, error)
    return HttpProblem(500, UNEXPECTED)
