"""Storage of a login: the user's key ring if available, else a private file."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import time
from functools import partial
from typing import Any

from pure_agent_loop.mcp.connection import ServerError
from pure_agent_loop.mcp.settings import ServerSettings
from pure_agent_loop.support.folders import data_folder, private_folder
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.locking import change_file
from pure_agent_loop.support.parsing import parsed_object
from pure_agent_loop.support.threads import Raised, in_thread, run_in_thread

SERVICE = "pure-agent-loop mcp"  # service name of the key-ring entries
_IN_RING = "key ring"  # marks a file whose content is in the key ring


class TokenStorage:
    """The tokens and the client registration of one server, in the form that the SDK requires.

    The file exists whenever a login does; with a key ring it holds only a marker. A key ring that fails, or
    rejects a string as long as the login, is not used.

    Args:
        fresh: Ignore the stored login; it stays until new tokens replace it.
    """

    def __init__(self, settings: ServerSettings, *, fresh: bool = False) -> None:
        self._new: dict[str, Any] | None = {} if fresh else None
        self._settings, self._oauth = settings, settings.oauth
        self._path = data_folder() / "mcp" / "logins" / f"{settings.identity}.json"
        self._context: Any = None

    @property
    def exists(self) -> bool:
        """True if a login is stored."""
        return self._path.exists()

    @property
    def place(self) -> str:
        """The storage location, for people."""
        return _IN_RING if _IN_RING in self._plain_file() else str(self._path)

    def forget(self) -> None:
        """Delete the stored login."""
        if _IN_RING in self._plain_file() and (ring := _ring()) is not None:
            with contextlib.suppress(Exception):  # the entry is missing or cannot be deleted
                ring.delete_password(SERVICE, self._settings.identity)
        self._path.unlink(missing_ok=True)

    async def restore(self, context: Any) -> None:
        """Restore what the SDK does not store: the token's expiry and the server's metadata."""
        from mcp.shared.auth import OAuthMetadata

        self._context, stored = context, await self._stored()
        context.token_expiry_time = stored.get("until")
        if (metadata := stored.get("server")) is not None:
            context.oauth_metadata = OAuthMetadata.model_validate(metadata)

    async def get_tokens(self) -> Any:
        """Return the stored tokens; None if there are none."""
        from mcp.shared.auth import OAuthToken

        stored = (await self._stored()).get("tokens")
        return None if stored is None else OAuthToken.model_validate(stored)

    async def set_tokens(self, tokens: Any) -> None:
        """Store the tokens."""
        metadata, seconds = self._context.oauth_metadata, tokens.expires_in
        await self._store(
            tokens=_plain(tokens),
            until=time.time() + seconds if seconds else None,
            server=None if metadata is None else _plain(metadata),
        )

    async def get_client_info(self) -> Any:
        """Return the client registration from the settings or from storage; None if there is none."""
        from mcp.shared.auth import OAuthClientInformationFull

        oauth = self._oauth
        if oauth is None or not oauth.client_id:
            stored = (await self._stored()).get("client")
            return None if stored is None else OAuthClientInformationFull.model_validate(stored)
        method = f"client_secret_{oauth.client_auth}" if oauth.client_secret else "none"
        return OAuthClientInformationFull(
            client_id=oauth.client_id,
            client_secret=oauth.client_secret or None,
            token_endpoint_auth_method=method,
            issuer=oauth.issuer or None,
        )

    async def set_client_info(self, client_info: Any) -> None:
        """Store a client registration.

        Raises:
            ServerError: The settings name a client, and the server redirects to another issuer.
        """
        if self._oauth is not None and self._oauth.client_id:
            raise ServerError(
                model_text("mcp_issuer", found=str(client_info.issuer), issuer=self._oauth.issuer)
            )
        await self._store(client=_plain(client_info))

    async def _stored(self) -> dict[str, Any]:
        stored = await run_in_thread(self._read)
        return {} if isinstance(stored, Raised) else stored

    async def _store(self, **changed: Any) -> None:
        await in_thread(partial(self._write, changed))

    def _read(self) -> dict[str, Any]:
        if self._new is not None:
            return self._new
        stored = self._plain_file()
        if _IN_RING in stored:
            ring = _ring()
            text = None if ring is None else ring.get_password(SERVICE, self._settings.identity)
            stored = parsed_object(text or "") or {}
        return stored if stored.get("for", "") == self._whose else {}

    @property
    def _whose(self) -> str:
        """The client's identity: logins of other clients are ignored."""
        return "" if self._oauth is None else self._oauth.client_id or self._oauth.client_metadata_url

    def _plain_file(self) -> dict[str, Any]:
        stored = parsed_object(self._path.read_bytes()) if self._path.exists() else None
        return stored or {}

    def _write(self, changed: dict[str, Any]) -> None:
        whole = {**self._read(), **changed, "for": self._whose}
        if self._new is not None:
            self._new = whole
            if "tokens" not in whole:
                return
        private_folder(self._path.parent)
        text = json.dumps(whole)
        if _is_in_ring(self._settings.identity, text):
            text = json.dumps({_IN_RING: True})
        change_file(self._path, lambda _: text.encode())  # created with mode 0600


def _is_in_ring(name: str, text: str) -> bool:
    """Store a string in the key ring; return False if no key ring accepts it."""
    ring = _ring()
    try:
        if ring is not None:
            ring.set_password(SERVICE, name, text)
    except Exception:  # noqa: BLE001 - key rings raise various errors; the file is the fallback
        with contextlib.suppress(Exception):  # delete the old entry, which is out of date
            ring.delete_password(SERVICE, name)
        return False
    return ring is not None


def _ring() -> Any:
    """Return the key ring that a person chose or that ``keyring`` recommends; None if there is none."""
    if importlib.util.find_spec("keyring") is None:
        return None
    with contextlib.suppress(Exception):  # an error means that no key ring is usable
        keyring = importlib.import_module("keyring.core")
        ring = keyring.get_keyring()
        is_chosen = bool(os.environ.get("PYTHON_KEYRING_BACKEND")) or keyring.load_config() is not None
        # Key rings of priority 0 and below store nothing.
        if ring.priority >= 1 or (is_chosen and ring.priority > 0):
            return ring
    return None


def _plain(value: Any) -> Any:
    return value.model_dump(mode="json", exclude_none=True)
