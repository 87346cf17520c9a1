"""What a login has brought: in the key ring of the user where there is one, else in a private file."""

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
from pure_agent_loop.mcp.words import say
from pure_agent_loop.support.paths import data_folder, private_folder
from pure_agent_loop.support.shared_file import change_file
from pure_agent_loop.support.threads import Raised, in_thread, run_in_thread

SERVICE = "pure-agent-loop mcp"  # the name of our entries in a key ring
_IN_RING = "key ring"  # stands in the file when the rest is in the key ring


class Kept:
    """The tokens and the registration of one server, as the SDK asks for them.

    The file is there whenever a login is; with a key ring it holds nothing else than that. A key ring that
    fails or takes no text of that length is as good as none.

    Args:
        settings: Which server.
        anew: What was kept so far is not used, and stays until there are other tokens.
    """

    def __init__(self, settings: ServerSettings, *, anew: bool = False) -> None:
        self._new: dict[str, Any] | None = {} if anew else None
        self._settings, self._oauth = settings, settings.oauth
        self._path = data_folder() / "mcp" / "logins" / f"{settings.identity}.json"
        self._context: Any = None

    @property
    def exists(self) -> bool:
        """Whether there was a login."""
        return self._path.exists()

    @property
    def place(self) -> str:
        """Where it is, for people."""
        return _IN_RING if _IN_RING in self._plain_file() else str(self._path)

    def forget(self) -> None:
        """Keep nothing of it."""
        if _IN_RING in self._plain_file() and (ring := _ring()) is not None:
            with contextlib.suppress(Exception):  # it is not there, or nobody can delete it
                ring.delete_password(SERVICE, self._settings.identity)
        self._path.unlink(missing_ok=True)

    async def restore(self, context: Any) -> None:
        """Tell the SDK what it keeps nowhere: until when the token holds, and where it is renewed."""
        from mcp.shared.auth import OAuthMetadata

        self._context, found = context, await self._found()
        context.token_expiry_time = found.get("until")
        if (about := found.get("server")) is not None:
            context.oauth_metadata = OAuthMetadata.model_validate(about)

    async def get_tokens(self) -> Any:
        """The SDK's tokens; None without."""
        from mcp.shared.auth import OAuthToken

        found = (await self._found()).get("tokens")
        return None if found is None else OAuthToken.model_validate(found)

    async def set_tokens(self, tokens: Any) -> None:
        """Keep them."""
        about, lasts = self._context.oauth_metadata, tokens.expires_in
        await self._keep(
            tokens=_plain(tokens),
            until=time.time() + lasts if lasts else None,
            server=None if about is None else _plain(about),
        )

    async def get_client_info(self) -> Any:
        """As what we are registered: what the settings say, or what we have done; None without."""
        from mcp.shared.auth import OAuthClientInformationFull

        oauth = self._oauth
        if oauth is None or not oauth.client_id:
            found = (await self._found()).get("client")
            return None if found is None else OAuthClientInformationFull.model_validate(found)
        method = f"client_secret_{oauth.client_auth}" if oauth.client_secret else "none"
        return OAuthClientInformationFull(
            client_id=oauth.client_id,
            client_secret=oauth.client_secret or None,
            token_endpoint_auth_method=method,
            issuer=oauth.issuer or None,
        )

    async def set_client_info(self, client_info: Any) -> None:
        """Keep a registration.

        Raises:
            ServerError: The settings say who we are, and the server leads to somebody else's.
        """
        if self._oauth is not None and self._oauth.client_id:
            raise ServerError(say("mcp_issuer", found=str(client_info.issuer), issuer=self._oauth.issuer))
        await self._keep(client=_plain(client_info))

    async def _found(self) -> dict[str, Any]:
        found = await run_in_thread(self._read)
        return {} if isinstance(found, Raised) else found

    async def _keep(self, **changed: Any) -> None:
        await in_thread(partial(self._write, changed))

    def _read(self) -> dict[str, Any]:
        if self._new is not None:
            return self._new
        found = self._plain_file()
        if _IN_RING in found:
            ring = _ring()
            text = None if ring is None else ring.get_password(SERVICE, self._settings.identity)
            found = _object(text or "")
        return found if found.get("for", "") == self._whose else {}

    @property
    def _whose(self) -> str:
        """Who logs in: what was kept for another name is none of its own."""
        return "" if self._oauth is None else self._oauth.client_id or self._oauth.client_metadata_url

    def _plain_file(self) -> dict[str, Any]:
        return _object(self._path.read_bytes()) if self._path.exists() else {}

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
        change_file(self._path, lambda _: text.encode())  # made as a file of mode 0600


def _is_in_ring(name: str, text: str) -> bool:
    """Put a text into the key ring, if there is one that takes it."""
    ring = _ring()
    try:
        if ring is not None:
            ring.set_password(SERVICE, name, text)
    except Exception:  # noqa: BLE001 - each key ring has errors of its own; the file is always there
        with contextlib.suppress(Exception):  # what it held until now is out of date
            ring.delete_password(SERVICE, name)
        return False
    return ring is not None


def _ring() -> Any:
    """The key ring: one that a person has chosen, or that the library ``keyring`` recommends here."""
    if importlib.util.find_spec("keyring") is None:
        return None
    with contextlib.suppress(Exception):  # then there is none that can be used
        found = importlib.import_module("keyring.core")
        ring = found.get_keyring()
        is_chosen = bool(os.environ.get("PYTHON_KEYRING_BACKEND")) or found.load_config() is not None
        if ring.priority >= 1 or (is_chosen and ring.priority > 0):  # 0 and less hold nothing
            return ring
    return None


def _object(text: str | bytes) -> dict[str, Any]:
    with contextlib.suppress(ValueError):
        found = json.loads(text)
        return found if isinstance(found, dict) else {}
    return {}


def _plain(value: Any) -> Any:
    return value.model_dump(mode="json", exclude_none=True)
