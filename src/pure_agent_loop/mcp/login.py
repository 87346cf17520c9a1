"""OAuth for servers on the network: one login in the browser, or a program's own credentials."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.util
import json
import os
import time
import webbrowser
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from pure_agent_loop.mcp.connection import Connection, ServerError, load_sdk
from pure_agent_loop.mcp.settings import OAuth, ServerSettings
from pure_agent_loop.support.folders import data_folder, private_folder
from pure_agent_loop.support.language import model_text, user_text
from pure_agent_loop.support.locking import change_file
from pure_agent_loop.support.terminal import one_line
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.support.threads import Raised, in_thread, run_in_thread

# -- storage of a login: the user's key ring if available, else a private file ---------------------------

SERVICE = "pure-agent-loop mcp"  # service name of the key-ring entries
_IN_RING = "key ring"  # marks a file whose content is in the key ring
LOGIN_SECONDS = 300.0
NO_BROWSER = "PAL_NO_BROWSER"  # environment variable: print the URL, open no browser


class TokenStorage:
    """The tokens and the client registration of one server, in the form the SDK requests.

    The file exists whenever a login does; with a key ring it holds only a marker. A key ring that fails, or
    rejects a string of that length, counts as missing.

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
            with contextlib.suppress(Exception):  # missing, or not deletable
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
        """Return the stored tokens; None if missing."""
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
        """Return the client registration, from the settings or stored; None if missing."""
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
            stored = _object(text or "")
        return stored if stored.get("for", "") == self._whose else {}

    @property
    def _whose(self) -> str:
        """The client's identity: logins of other clients are ignored."""
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
        change_file(self._path, lambda _: text.encode())  # created with mode 0600


def _is_in_ring(name: str, text: str) -> bool:
    """Store a string in the key ring; return False if no key ring accepts it."""
    ring = _ring()
    try:
        if ring is not None:
            ring.set_password(SERVICE, name, text)
    except Exception:  # noqa: BLE001 - key rings raise various errors; the file is the fallback
        with contextlib.suppress(Exception):  # the old content is out of date
            ring.delete_password(SERVICE, name)
        return False
    return ring is not None


def _ring() -> Any:
    """Return the key ring that a person chose or that ``keyring`` recommends; None if missing."""
    if importlib.util.find_spec("keyring") is None:
        return None
    with contextlib.suppress(Exception):  # an error means that no key ring is usable
        keyring = importlib.import_module("keyring.core")
        ring = keyring.get_keyring()
        is_chosen = bool(os.environ.get("PYTHON_KEYRING_BACKEND")) or keyring.load_config() is not None
        if ring.priority >= 1 or (is_chosen and ring.priority > 0):  # 0 and less store nothing
            return ring
    return None


def _object(text: str | bytes) -> dict[str, Any]:
    with contextlib.suppress(ValueError):
        value = json.loads(text)
        return value if isinstance(value, dict) else {}
    return {}


def _plain(value: Any) -> Any:
    return value.model_dump(mode="json", exclude_none=True)


class LoginNeededError(ServerError):
    """A login is missing or has expired."""


def forget_login(settings: ServerSettings) -> bool:
    """Delete the stored login and return whether it existed."""
    storage = TokenStorage(settings)
    existed = storage.exists
    storage.forget()
    return existed


async def stored_login(settings: ServerSettings) -> Any:
    """Return an auth object that adds and renews the stored login; None if a person has to log in first."""
    storage, is_machine = TokenStorage(settings), settings.oauth is not None and settings.oauth.is_machine
    if not storage.exists and not is_machine:
        return None

    async def reject(*_: Any) -> Any:
        raise LoginNeededError(model_text("mcp_login", server=settings.name))

    return await _provider(settings, storage, "http://127.0.0.1/callback", reject, reject)


async def log_in(settings: ServerSettings, tell: Callable[[str], None]) -> str:
    """Log in through the browser, which returns to a local port.

    Args:
        tell: Shows the URL, in case the browser does not open.

    Returns:
        A description of where the login is stored.

    Raises:
        ServerError: The login failed.
    """
    await load_sdk()
    storage = TokenStorage(settings, fresh=True)
    async with asking_browser(settings, tell, storage) as auth:

        async def ready() -> Any:
            return auth

        connection = Connection(settings, dict, ready, lambda: None, start_timeout=LOGIN_SECONDS)
        try:
            await connection.client()
        finally:
            await connection.close()
    if not await storage.get_tokens():
        raise ServerError(model_text("mcp_login_failed", error="the server did not request a login"))
    return storage.place


@contextlib.asynccontextmanager
async def asking_browser(
    settings: ServerSettings, tell: Callable[[str], None], storage: TokenStorage
) -> AsyncIterator[Any]:
    """Return an auth object that lets a person log in if needed; see `log_in`."""
    browser = _Browser()
    wanted = 0 if settings.oauth is None else settings.oauth.redirect_port
    try:
        listener = await asyncio.start_server(browser.answer, "127.0.0.1", wanted)
    except OSError as error:
        why = f"redirect_port={wanted}: {error.strerror}"
        raise ServerError(model_text("mcp_login_failed", error=why)) from error
    here = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/callback"

    async def redirect(address: str) -> None:
        browser.state = parse_qs(urlsplit(address).query).get("state")
        tell(user_text("library.login_here", address=address))
        if not os.environ.get(NO_BROWSER):
            with contextlib.suppress(webbrowser.Error):
                await run_in_thread(partial(webbrowser.open, address))

    async def callback() -> Any:
        from mcp.client.auth import AuthorizationCodeResult

        params = await asyncio.wait_for(browser.codes.get(), LOGIN_SECONDS)
        if "code" not in params:
            why = params.get("error_description") or params.get("error") or "?"
            raise ServerError(model_text("mcp_login_failed", error=one_line(why)))
        return AuthorizationCodeResult(code=params["code"], state=params.get("state"), iss=params.get("iss"))

    async with listener:
        try:
            yield await _provider(settings, storage, here, redirect, callback)
        finally:
            browser.leave()


class _Browser:
    """A receiver of the browser's redirect. Any page can open this URL; only the expected state counts."""

    def __init__(self) -> None:
        self.state: list[str] | None = []  # expected `state`; empty before the first request
        self.codes: asyncio.Queue[dict[str, str]] = asyncio.Queue()
        self._open: set[Any] = set()

    async def answer(self, reader: Any, writer: Any) -> None:
        """Handle one request."""
        self._open.add(writer)
        with contextlib.suppress(OSError, ValueError, asyncio.LimitOverrunError):
            line = (await reader.readline()).decode("latin-1")
            parts = urlsplit(line.split(" ")[1] if " " in line else "")
            params = parse_qs(parts.query)
            is_ours = (
                line.startswith("GET ") and parts.path == "/callback" and params.get("state") == self.state
            )
            status, body = ("200 OK", user_text("library.login_done")) if is_ours else ("404 Not Found", "")
            headers = f"Content-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}"
            writer.write(f"HTTP/1.1 {status}\r\n{headers}\r\nConnection: close\r\n\r\n{body}".encode())
            await writer.drain()
            if is_ours:
                self.codes.put_nowait({name: values[0] for name, values in params.items()})
        self._open.discard(writer)
        writer.close()

    def leave(self) -> None:
        """Close idle browser connections: from Python 3.12 on the listener waits for them."""
        for writer in self._open:
            writer.close()


async def _provider(
    settings: ServerSettings,
    storage: TokenStorage,
    redirect_uri: str,
    redirect: Callable[[str], Awaitable[None]],
    callback: Callable[[], Awaitable[Any]],
) -> Any:
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import OAuthClientMetadata

    oauth = settings.oauth or OAuth()
    if oauth.is_machine:
        provider = await _machine(settings.url, oauth, storage)
    else:
        fields = {
            "client_name": "pure-agent-loop",
            "redirect_uris": [redirect_uri],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        }
        metadata = OAuthClientMetadata.model_validate(fields)
        document = oauth.client_metadata_url or None
        provider = OAuthClientProvider(settings.url, metadata, storage, redirect, callback, document)
    await storage.restore(provider.context)
    return provider


async def _machine(url: str, oauth: OAuth, storage: TokenStorage) -> Any:
    from mcp.client.auth.extensions import client_credentials as sdk

    if not oauth.private_key_file:
        method: Any = f"client_secret_{oauth.client_auth}"
        return sdk.ClientCredentialsOAuthProvider(
            url, storage, oauth.client_id, oauth.client_secret, method, issuer=oauth.issuer
        )
    try:
        key = await in_thread(Path(oauth.private_key_file).expanduser().read_text)
    except (OSError, ValueError) as error:
        why = f"private_key_file={oauth.private_key_file!r}: {safe_str(error)}"
        raise ServerError(model_text("mcp_login_failed", error=one_line(why))) from error
    signed = sdk.SignedJWTParameters(
        issuer=oauth.client_id, subject=oauth.client_id, signing_key=key, signing_algorithm=oauth.algorithm
    )
    assertion = signed.create_assertion_provider()
    return sdk.PrivateKeyJWTOAuthProvider(url, storage, oauth.client_id, assertion, issuer=oauth.issuer)
