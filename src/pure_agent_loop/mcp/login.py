"""OAuth for servers on the network: one login in the browser, or a program's own credentials."""

from __future__ import annotations

import asyncio
import contextlib
import os
import webbrowser
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from pure_agent_loop.mcp.connection import Connection, ServerError, load_sdk
from pure_agent_loop.mcp.settings import OAuth, ServerSettings
from pure_agent_loop.mcp.token_storage import TokenStorage
from pure_agent_loop.support.clock import within
from pure_agent_loop.support.language import model_text, user_text
from pure_agent_loop.support.terminal import one_line
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.support.threads import in_thread, run_in_thread

LOGIN_SECONDS = 300.0
NO_BROWSER = "PAL_NO_BROWSER"  # environment variable: if set, only show the URL and open no browser


class LoginNeededError(ServerError):
    """A login is missing or has expired."""


def forget_login(settings: ServerSettings) -> bool:
    """Delete the stored login and return whether it existed."""
    storage = TokenStorage(settings)
    existed = storage.exists
    storage.forget()
    return existed


async def stored_login(settings: ServerSettings) -> Any:
    """Return an auth object that sends and renews the stored login; None if a person has to log in first."""
    storage, is_machine = TokenStorage(settings), settings.oauth is not None and settings.oauth.is_machine
    if not storage.exists and not is_machine:
        return None

    async def reject(*_: Any) -> Any:
        raise LoginNeededError(model_text("mcp_login", server=settings.name))

    return await _provider(settings, storage, "http://127.0.0.1/callback", reject, reject)


async def log_in(settings: ServerSettings, tell: Callable[[str], None]) -> str:
    """Log in through the browser, which is then redirected to a local port.

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
    """Within the block, receive the browser's redirect; yield an auth object that lets a person log in."""
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

        params = await within(LOGIN_SECONDS, browser.codes.get())
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
    """Receives the browser's redirect, which must carry the expected state: any page can open its URL."""

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
        """Close idle browser connections, because from Python 3.12 on the listener waits for them."""
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
