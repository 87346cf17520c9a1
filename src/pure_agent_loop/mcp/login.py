"""OAuth for servers on the network: a login in the browser, once; or of a program, by itself."""

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
from pure_agent_loop.mcp.kept import Kept
from pure_agent_loop.mcp.settings import OAuth, ServerSettings
from pure_agent_loop.mcp.words import say
from pure_agent_loop.support.terminal import one_line
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.support.threads import in_thread, run_in_thread

LOGIN_SECONDS = 300.0
NO_BROWSER = "PAL_NO_BROWSER"  # a variable: only show the address
_DONE = "You can close this page and go back to the terminal."


class LoginNeededError(ServerError):
    """Nobody has logged in, or the login has run out."""


def forget(settings: ServerSettings) -> bool:
    """Log out, here; whether there was a login."""
    kept = Kept(settings)
    found = kept.exists
    kept.forget()
    return found


async def kept_login(settings: ServerSettings) -> Any:
    """Puts a login into requests, and renews it; None where a person would have to log in first."""
    kept, is_machine = Kept(settings), settings.oauth is not None and settings.oauth.is_machine
    if not kept.exists and not is_machine:
        return None

    async def nobody(*_: Any) -> Any:
        raise LoginNeededError(say("mcp_login", server=settings.name))

    return await _provider(settings, kept, "http://127.0.0.1/callback", nobody, nobody)


async def log_in(settings: ServerSettings, tell: Callable[[str], None]) -> str:
    """Log in: the browser opens, and comes back to a port of this machine.

    Args:
        tell: Shows the address, for a browser that does not open.

    Returns:
        Where the login is kept, for people.

    Raises:
        ServerError: It did not work.
    """
    await load_sdk()
    kept = Kept(settings, anew=True)
    async with asking_browser(settings, tell, kept) as auth:

        async def ready() -> Any:
            return auth

        connection = Connection(settings, dict, ready, lambda: None, start_timeout=LOGIN_SECONDS)
        try:
            await connection.client()
        finally:
            await connection.close()
    if not await kept.get_tokens():
        raise ServerError(say("mcp_login_failed", error="the server wants none"))
    return kept.place


@contextlib.asynccontextmanager
async def asking_browser(
    settings: ServerSettings, tell: Callable[[str], None], kept: Kept
) -> AsyncIterator[Any]:
    """Puts a login into requests, and lets a person log in when one is wanted; see `log_in`."""
    browser = _Browser()
    wanted = 0 if settings.oauth is None else settings.oauth.redirect_port
    try:
        listener = await asyncio.start_server(browser.answer, "127.0.0.1", wanted)
    except OSError as error:
        why = f"redirect_port={wanted}: {error.strerror}"
        raise ServerError(say("mcp_login_failed", error=why)) from error
    here = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/callback"

    async def redirect(address: str) -> None:
        browser.state = parse_qs(urlsplit(address).query).get("state")
        tell(f"log in here: {address}")
        if not os.environ.get(NO_BROWSER):
            with contextlib.suppress(webbrowser.Error):
                await run_in_thread(partial(webbrowser.open, address))

    async def callback() -> Any:
        from mcp.client.auth import AuthorizationCodeResult

        found = await asyncio.wait_for(browser.codes.get(), LOGIN_SECONDS)
        if "code" not in found:
            why = found.get("error_description") or found.get("error") or "?"
            raise ServerError(say("mcp_login_failed", error=one_line(why)))
        return AuthorizationCodeResult(code=found["code"], state=found.get("state"), iss=found.get("iss"))

    async with listener:
        try:
            yield await _provider(settings, kept, here, redirect, callback)
        finally:
            browser.leave()


class _Browser:
    """What the browser brings back. Any page can open an address here; only what was asked for counts."""

    def __init__(self) -> None:
        self.state: list[str] | None = []  # of the question, and so of its answer; of none so far
        self.codes: asyncio.Queue[dict[str, str]] = asyncio.Queue()
        self._open: set[Any] = set()

    async def answer(self, reader: Any, writer: Any) -> None:
        """Read a request."""
        self._open.add(writer)
        with contextlib.suppress(OSError, ValueError, asyncio.LimitOverrunError):
            line = (await reader.readline()).decode("latin-1")
            parts = urlsplit(line.split(" ")[1] if " " in line else "")
            found = parse_qs(parts.query)
            is_ours = (
                line.startswith("GET ") and parts.path == "/callback" and found.get("state") == self.state
            )
            status, body = ("200 OK", _DONE) if is_ours else ("404 Not Found", "")
            about = f"Content-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}"
            writer.write(f"HTTP/1.1 {status}\r\n{about}\r\nConnection: close\r\n\r\n{body}".encode())
            await writer.drain()
            if is_ours:
                self.codes.put_nowait({name: values[0] for name, values in found.items()})
        self._open.discard(writer)
        writer.close()

    def leave(self) -> None:
        """Close what browsers hold open and do not use; from Python 3.12 on the listener waits for it."""
        for each in self._open:
            each.close()


async def _provider(
    settings: ServerSettings,
    kept: Kept,
    redirect_uri: str,
    redirect: Callable[[str], Awaitable[None]],
    callback: Callable[[], Awaitable[Any]],
) -> Any:
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import OAuthClientMetadata

    oauth = settings.oauth or OAuth()
    if oauth.is_machine:
        provider = await _machine(settings.url, oauth, kept)
    else:
        about = {
            "client_name": "pure-agent-loop",
            "redirect_uris": [redirect_uri],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        }
        metadata = OAuthClientMetadata.model_validate(about)
        document = oauth.client_metadata_url or None
        provider = OAuthClientProvider(settings.url, metadata, kept, redirect, callback, document)
    await kept.restore(provider.context)
    return provider


async def _machine(url: str, oauth: OAuth, kept: Kept) -> Any:
    from mcp.client.auth.extensions import client_credentials as sdk

    if not oauth.private_key_file:
        method: Any = f"client_secret_{oauth.client_auth}"
        return sdk.ClientCredentialsOAuthProvider(
            url, kept, oauth.client_id, oauth.client_secret, method, issuer=oauth.issuer
        )
    try:
        key = await in_thread(Path(oauth.private_key_file).expanduser().read_text)
    except (OSError, ValueError) as error:
        why = f"private_key_file={oauth.private_key_file!r}: {safe_str(error)}"
        raise ServerError(say("mcp_login_failed", error=one_line(why))) from error
    signed = sdk.SignedJWTParameters(
        issuer=oauth.client_id, subject=oauth.client_id, signing_key=key, signing_algorithm=oauth.algorithm
    )
    assertion = signed.create_assertion_provider()
    return sdk.PrivateKeyJWTOAuthProvider(url, kept, oauth.client_id, assertion, issuer=oauth.issuer)
