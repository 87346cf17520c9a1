"""OAuth for servers on the network: a login in the browser, once, and what it brought in a private file."""

from __future__ import annotations

import asyncio
import contextlib
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
from pure_agent_loop.mcp.settings import ServerSettings
from pure_agent_loop.mcp.words import say
from pure_agent_loop.support.paths import data_folder, private_folder
from pure_agent_loop.support.shared_file import change_file
from pure_agent_loop.support.terminal import one_line
from pure_agent_loop.support.threads import run_in_thread

LOGIN_SECONDS = 300.0
NO_BROWSER = "PAL_NO_BROWSER"  # a variable: only show the address
_DONE = "You can close this page and go back to the terminal."


class LoginNeededError(ServerError):
    """Nobody has logged in, or the login has run out."""


def _path(settings: ServerSettings) -> Path:
    return data_folder() / "mcp" / "logins" / f"{settings.identity}.json"


def forget(settings: ServerSettings) -> None:
    """Log out, here."""
    _path(settings).unlink(missing_ok=True)


def kept_login(settings: ServerSettings) -> Any:
    """Puts what a login has brought into requests, and renews it; None where there was none."""
    if not _path(settings).exists():
        return None

    async def nobody(*_: Any) -> Any:
        raise LoginNeededError(say("mcp_login", server=settings.name))

    return _provider(settings, "http://127.0.0.1/callback", nobody, nobody)


async def log_in(settings: ServerSettings, tell: Callable[[str], None]) -> None:
    """Log in: the browser opens, and comes back to a port of this machine.

    Args:
        tell: Shows the address, for a browser that does not open.

    Raises:
        ServerError: It did not work.
    """
    await load_sdk()
    forget(settings)
    async with asking_browser(settings, tell) as auth:
        connection = Connection(settings, dict, lambda: auth, lambda: None, start_timeout=LOGIN_SECONDS)
        try:
            await connection.client()
        finally:
            await connection.close()
    if not _path(settings).exists():
        raise ServerError(say("mcp_login_failed", error="the server wants none"))


@contextlib.asynccontextmanager
async def asking_browser(settings: ServerSettings, tell: Callable[[str], None]) -> AsyncIterator[Any]:
    """Puts a login into requests, and lets a person log in when one is wanted; see `log_in`."""
    codes: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    listener = await asyncio.start_server(
        lambda reader, writer: _answer(reader, writer, codes), "127.0.0.1", 0
    )
    port = listener.sockets[0].getsockname()[1]

    async def redirect(address: str) -> None:
        tell(f"log in here: {address}")
        if not os.environ.get(NO_BROWSER):
            with contextlib.suppress(webbrowser.Error):
                await run_in_thread(partial(webbrowser.open, address))

    async def callback() -> Any:
        from mcp.client.auth import AuthorizationCodeResult

        found = await asyncio.wait_for(codes.get(), LOGIN_SECONDS)
        if "code" not in found:
            why = found.get("error_description") or found.get("error") or "?"
            raise ServerError(say("mcp_login_failed", error=one_line(why)))
        return AuthorizationCodeResult(code=found["code"], state=found.get("state"), iss=found.get("iss"))

    async with listener:
        yield _provider(settings, f"http://127.0.0.1:{port}/callback", redirect, callback)


async def _answer(reader: Any, writer: Any, codes: asyncio.Queue[dict[str, str]]) -> None:
    """Take what the browser brings back."""
    with contextlib.suppress(OSError, ValueError, asyncio.LimitOverrunError):
        line = (await reader.readline()).decode("latin-1")
        parts = urlsplit(line.split(" ")[1] if " " in line else "")
        is_ours = line.startswith("GET ") and parts.path == "/callback"
        status, body = ("200 OK", _DONE) if is_ours else ("404 Not Found", "")
        writer.write(
            f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
            f"Connection: close\r\n\r\n{body}".encode()
        )
        await writer.drain()
        if is_ours:
            codes.put_nowait({name: values[0] for name, values in parse_qs(parts.query).items()})
    writer.close()


def _provider(
    settings: ServerSettings,
    redirect_uri: str,
    redirect: Callable[[str], Awaitable[None]],
    callback: Callable[[], Awaitable[Any]],
) -> Any:
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import OAuthClientMetadata

    about = {
        "client_name": "pure-agent-loop",
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    }
    metadata, kept = OAuthClientMetadata.model_validate(about), _Kept(_path(settings))
    provider = OAuthClientProvider(settings.url, metadata, kept, redirect, callback)
    kept.restore(provider.context)
    return provider


class _Kept:
    """The tokens and the registration of one server, in a file for this user only."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._context: Any = None

    def restore(self, context: Any) -> None:
        """Tell the SDK what it keeps nowhere: until when the token holds, and where it is renewed."""
        from mcp.shared.auth import OAuthMetadata

        self._context, found = context, self._read()
        context.token_expiry_time = found.get("until")
        if (about := found.get("server")) is not None:
            context.oauth_metadata = OAuthMetadata.model_validate(about)

    async def get_tokens(self) -> Any:
        from mcp.shared.auth import OAuthToken

        found = self._read().get("tokens")
        return None if found is None else OAuthToken.model_validate(found)

    async def set_tokens(self, tokens: Any) -> None:
        about, lasts = self._context.oauth_metadata, tokens.expires_in
        self._write(
            tokens=_plain(tokens),
            until=time.time() + lasts if lasts else None,
            server=None if about is None else _plain(about),
        )

    async def get_client_info(self) -> Any:
        from mcp.shared.auth import OAuthClientInformationFull

        found = self._read().get("client")
        return None if found is None else OAuthClientInformationFull.model_validate(found)

    async def set_client_info(self, client_info: Any) -> None:
        self._write(client=_plain(client_info))

    def _read(self) -> dict[str, Any]:
        try:
            found = json.loads(self._path.read_bytes())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _write(self, **changed: Any) -> None:
        private_folder(self._path.parent)
        new = {**self._read(), **changed}
        change_file(self._path, lambda _: json.dumps(new).encode())  # made as a file of mode 0600


def _plain(value: Any) -> Any:
    return value.model_dump(mode="json", exclude_none=True)
