"""Links that show a session, as it was when it was shared, to anybody who has the link.

<digest>.link   a line of JSON about the link, then the document; named after the SHA-256 of the link's token
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.account import account
from pure_agent_loop.support.folders import private_folder, server_folder
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.locking import write_whole
from pure_agent_loop.support.parsing import read_json

MAX_LINK_DAYS = 365
DAY = 86_400.0  # seconds
_SUFFIX = ".link"
_TOKEN_BYTES = 24  # 192 random bits
_ID = 12  # characters of the digest that are used as the id


@dataclass(frozen=True, slots=True)
class SharedLink:
    """A link to a session.

    Args:
        id: First characters of the link's digest; they identify the link but do not open it.
        title: Title of the session when it was shared.
        by: Name of the person who shared it.
        created: Time of the snapshot, in seconds since the epoch.
        until: Time when the link expires, in seconds since the epoch.
    """

    id: str
    session: str
    title: str
    by: str
    created: float
    until: float


class LinkFolder:
    """The links of a server. Only digests of tokens are stored, so nobody can open a link from the files.

    Args:
        server: The private folder of the server; None for the one in the data folder.
        now: Function that returns seconds since the epoch.
    """

    DAYS = 7  # default lifetime of a link

    def __init__(self, server: str | Path | None = None, now: Callable[[], float] = time.time) -> None:
        self._server, self._now = server_folder(server), now
        self._folder = self._server / "links"

    @property
    def address_file(self) -> Path:
        """The file in which a server writes its address while it runs."""
        return self._server / "address"

    def add(
        self, session: str, title: str, document: str, days: int = DAYS, by: str | None = None
    ) -> tuple[str, SharedLink]:
        """Create a link, and return its token (which is not stored) and the link.

        Args:
            document: The HTML document that the link shows.
            days: Lifetime in days.
            by: Name of the person who shares the session; the current user account if None.

        Raises:
            ConfigError: `days` is out of range, or the folder cannot be written.
        """
        if not 1 <= days <= MAX_LINK_DAYS:
            raise ConfigError(notice("library.link_days", days=days, most=MAX_LINK_DAYS))
        token, created = secrets.token_urlsafe(_TOKEN_BYTES), self._now()
        path = self._path(token)
        person = account() if by is None else by
        link = SharedLink(path.stem[:_ID], session, title, person, created, created + days * DAY)
        try:
            private_folder(self._server)
            private_folder(self._folder)
            write_whole(path, f"{json.dumps(asdict(link))}\n{document}".encode("utf-8", "replace"))
        except OSError as error:
            raise ConfigError(notice("library.link_unwritten", path=self._folder, error=error)) from error
        return token, link

    def find(self, token: str) -> tuple[SharedLink, bytes] | None:
        """Return a link and its document; None if the token is unknown or the link has expired."""
        found = self._read(self._path(token))
        return None if found is None or found[0].until <= self._now() else found

    def list(self, session: str = "") -> list[SharedLink]:
        """Return the active links, newest first, and delete the expired ones.

        Args:
            session: Return only this session's links; empty for all.
        """
        links = []
        for path, link in self._all():
            if link.until <= self._now():
                path.unlink(missing_ok=True)
            elif session in ("", link.session):
                links.append(link)
        return sorted(links, key=lambda link: link.created, reverse=True)

    def end(self, name: str, session: str = "") -> bool:
        """End a link before it expires; return False if there is no such link.

        Args:
            name: The token or the id of the link.
            session: The session that the link must show; empty for any.
        """
        ids = (name, self._path(name).stem[:_ID])
        matches = [path for path, link in self._all() if link.id in ids and session in ("", link.session)]
        for path in matches:
            path.unlink(missing_ok=True)
        return bool(matches)

    def forget(self, session: str) -> None:
        """Delete the links of a session."""
        for path, link in self._all():
            if link.session == session:
                path.unlink(missing_ok=True)

    def _all(self) -> Iterator[tuple[Path, SharedLink]]:
        for path in sorted(self._folder.glob(f"*{_SUFFIX}")):
            if (found := self._read(path)) is not None:
                yield path, found[0]

    def _path(self, token: str) -> Path:
        digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
        return self._folder / f"{digest}{_SUFFIX}"

    def _read(self, path: Path) -> tuple[SharedLink, bytes] | None:
        with contextlib.suppress(OSError, ValueError, TypeError):
            head, _, document = path.read_bytes().partition(b"\n")
            return SharedLink(**read_json(head)), document
        return None
