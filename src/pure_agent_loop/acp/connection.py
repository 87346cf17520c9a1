"""The protocol's methods, for one connection."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any, BinaryIO

from pure_agent_loop._version import __version__
from pure_agent_loop.acp.host import Host, NoModelError
from pure_agent_loop.acp.session import AcpSession
from pure_agent_loop.acp.wire import (
    AUTH_REQUIRED,
    NOT_FOUND,
    Peer,
    Reply,
    RpcError,
    folder,
    invalid,
    items,
    text,
)
from pure_agent_loop.errors import ConfigError, SessionNotFoundError
from pure_agent_loop.support.language import translated, user_language, user_text
from pure_agent_loop.support.text import safe_str

VERSION = 1
PAGE = 50  # maximum sessions per response
_CURSOR = re.compile("[0-9]{1,9}")


class EditorConnection:
    """The connection to an editor."""

    def __init__(self, host: Host, source: BinaryIO, sink: BinaryIO) -> None:
        self._host = host
        self._sessions: dict[str, AcpSession] = {}
        self._closing: dict[str, asyncio.Event] = {}
        self._client: Mapping[str, Any] = {}
        methods = {
            "initialize": self._initialize,
            "authenticate": self._authenticate,
            "session/new": self._new,
            "session/load": self._load,
            "session/resume": self._resume,
            "session/list": self._list,
            "session/close": self._close,
            "session/delete": self._delete,
            "session/set_mode": self._set_mode,
            "session/set_config_option": self._set_option,
            "session/prompt": self._prompt,
        }
        self.peer = Peer(source, sink, methods, {"session/cancel": self._cancel})

    async def run(self) -> None:
        """Serve until the editor disconnects."""
        try:
            await self.peer.run()
        finally:
            closing = [session.work.close() for session in self._sessions.values()]
            await asyncio.gather(*closing, return_exceptions=True)

    # -- initialization ---------------------------------------------------------------------------------

    async def _initialize(self, params: Mapping[str, Any]) -> Reply:
        version = params.get("protocolVersion")
        if isinstance(version, bool) or not isinstance(version, int):
            raise invalid(f"protocolVersion must be an integer, not {version!r:.80}.")
        client = params.get("clientCapabilities")
        self._client = client if isinstance(client, dict) else {}
        name, description = user_text("cli.acp_auth_name"), user_text("cli.acp_auth")
        methods: list[dict[str, Any]] = [{"id": "at-hand", "name": name, "description": description}]
        session: dict[str, Any] = {name: {} for name in ("list", "resume", "close", "delete")}
        return Reply(
            {
                "protocolVersion": VERSION,
                "agentInfo": {"name": "pure-agent-loop", "title": "pal", "version": __version__},
                "agentCapabilities": {
                    "loadSession": True,
                    "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
                    "mcpCapabilities": {"http": self._host.has_mcp, "sse": self._host.has_mcp},
                    "sessionCapabilities": session,
                },
                "authMethods": methods,
            }
        )

    async def _authenticate(self, params: Mapping[str, Any]) -> Reply:
        if text(params, "methodId") != "at-hand":
            raise invalid("methodId must be 'at-hand'.")
        try:
            await self._host.check()
        except NoModelError as error:
            raise RpcError(AUTH_REQUIRED, safe_str(error)) from error
        return Reply({})

    # -- sessions ---------------------------------------------------------------------------------------

    async def _new(self, params: Mapping[str, Any]) -> Reply:
        session = await self._open(params, None)
        return Reply({"sessionId": session.id, **session.choices}, session.send_commands)

    async def _load(self, params: Mapping[str, Any]) -> Reply:
        session = await self._open(params, text(params, "sessionId"))
        try:
            await session.send_history()
        except BaseException:  # after a failure, do not leave the session open
            del self._sessions[session.id]
            await session.work.close()
            raise
        return Reply(session.choices, session.send_commands)

    async def _resume(self, params: Mapping[str, Any]) -> Reply:
        session = await self._open(params, text(params, "sessionId"))
        return Reply(session.choices, session.send_commands)

    async def _open(self, params: Mapping[str, Any], session_id: str | None) -> AcpSession:
        cwd, servers = folder(params, "cwd"), items(params, "mcpServers")
        if params.get("additionalDirectories"):
            raise invalid("additionalDirectories are not supported: a session has one folder.")
        while session_id in self._closing:
            await self._closing[session_id].wait()
        if session_id in self._sessions:
            raise invalid(user_text("cli.acp_open", session=session_id))
        session = AcpSession(self.peer, self._client)
        try:
            session.id, session.work = await self._host.open(cwd, session_id, servers, session)
        except NoModelError as error:
            raise RpcError(AUTH_REQUIRED, safe_str(error)) from error
        except SessionNotFoundError as error:
            raise RpcError(NOT_FOUND, safe_str(translated(error, user_language()))) from error
        except ConfigError as error:
            raise invalid(safe_str(translated(error, user_language()))) from error
        if session.id in self._sessions:  # a concurrent request has opened this session
            await session.work.close()
            raise invalid(user_text("cli.acp_open", session=session.id))
        self._sessions[session.id] = session
        return session

    def _session(self, params: Mapping[str, Any]) -> AcpSession:
        name = text(params, "sessionId")
        if name not in self._sessions:
            raise RpcError(NOT_FOUND, user_text("cli.acp_not_open", session=name))
        return self._sessions[name]

    async def _list(self, params: Mapping[str, Any]) -> Reply:
        cursor = params.get("cursor")
        start = 0 if cursor is None else int(cursor) if _CURSOR.fullmatch(str(cursor)) else -1
        if start < 0:
            raise invalid("cursor must be a nextCursor of session/list.")
        cwd = None if params.get("cwd") is None else folder(params, "cwd")
        sessions = await self._host.sessions(cwd, start, PAGE + 1)
        page = [
            {
                "sessionId": session.id,
                "cwd": session.folder,
                "title": session.title,
                "updatedAt": datetime.fromtimestamp(session.updated, timezone.utc).isoformat(),
            }
            for session in sessions[:PAGE]
        ]
        next_page = {"nextCursor": str(start + PAGE)} if len(sessions) > PAGE else {}
        return Reply({"sessions": page, **next_page})

    async def _close(self, params: Mapping[str, Any]) -> Reply:
        session = self._session(params)
        session.cancel()
        del self._sessions[session.id]
        self._closing[session.id] = closed = asyncio.Event()
        try:
            await session.wait_stopped()
            await session.work.close()
        finally:
            del self._closing[session.id]
            closed.set()
        return Reply({})

    async def _delete(self, params: Mapping[str, Any]) -> Reply:
        name = text(params, "sessionId")
        if name in self._sessions:
            await self._close(params)
        try:
            self._host.delete(name)
        except SessionNotFoundError as error:
            raise RpcError(NOT_FOUND, safe_str(translated(error, user_language()))) from error
        return Reply({})

    async def _set_mode(self, params: Mapping[str, Any]) -> Reply:
        await self._session(params).choose("mode", text(params, "modeId"))
        return Reply({})

    async def _set_option(self, params: Mapping[str, Any]) -> Reply:
        session = self._session(params)
        await session.choose(text(params, "configId"), text(params, "value"))
        return Reply({"configOptions": session.choices["configOptions"]})

    async def _prompt(self, params: Mapping[str, Any]) -> Reply:
        session = self._session(params)
        return Reply({"stopReason": await session.prompt(items(params, "prompt"))})

    def _cancel(self, params: Mapping[str, Any]) -> None:
        self._session(params).cancel()


async def serve(host: Host, source: BinaryIO, sink: BinaryIO) -> None:
    """Serve one editor until it disconnects.

    Args:
        host: The application.
        source: The editor's output: lines of JSON.
        sink: The editor's input.
    """
    await EditorConnection(host, source, sink).run()
