"""The methods of the protocol, over one connection."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any, BinaryIO

from pure_agent_loop._version import __version__
from pure_agent_loop.acp.host import Host, NoModelError
from pure_agent_loop.acp.params import folder, items, text, wrong
from pure_agent_loop.acp.session import Session
from pure_agent_loop.acp.wire import AUTH_REQUIRED, NOT_FOUND, Peer, Reply, RpcError
from pure_agent_loop.errors import ConfigError, SessionNotFoundError
from pure_agent_loop.support.text import safe_str

VERSION = 1
PAGE = 50  # sessions in one answer
_CURSOR = re.compile("[0-9]{1,9}")


class Connection:
    """One editor.

    Args:
        host: Opens folders.
        source: What the editor writes.
        sink: What it reads.
    """

    def __init__(self, host: Host, source: BinaryIO, sink: BinaryIO) -> None:
        self._host = host
        self._sessions: dict[str, Session] = {}
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
        """Serve until the editor is gone."""
        try:
            await self.peer.run()
        finally:
            closing = [each.work.close() for each in self._sessions.values()]
            await asyncio.gather(*closing, return_exceptions=True)

    # -- beginning --------------------------------------------------------------------------------------

    async def _initialize(self, params: Mapping[str, Any]) -> Reply:
        wanted = params.get("protocolVersion")
        if isinstance(wanted, bool) or not isinstance(wanted, int):
            raise wrong(f"protocolVersion must be a whole number; it is {wanted!r:.80}.")
        client = params.get("clientCapabilities")
        self._client = client if isinstance(client, dict) else {}
        about = "A key, an address or an embedded model that is at hand; pal init writes settings."
        methods: list[dict[str, Any]] = [{"id": "at-hand", "name": "What is at hand", "description": about}]
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
            raise wrong("methodId must be one of those that initialize has named for this.")
        try:
            await self._host.check()
        except NoModelError as error:
            raise RpcError(AUTH_REQUIRED, safe_str(error)) from error
        return Reply({})

    # -- sessions ---------------------------------------------------------------------------------------

    async def _new(self, params: Mapping[str, Any]) -> Reply:
        session = await self._opened(params, None)
        return Reply({"sessionId": session.id, **session.choices}, session.tell_commands)

    async def _load(self, params: Mapping[str, Any]) -> Reply:
        session = await self._opened(params, text(params, "sessionId"))
        try:
            await session.tell_history()
        except BaseException:  # it is not open then
            del self._sessions[session.id]
            await session.work.close()
            raise
        return Reply(session.choices, session.tell_commands)

    async def _resume(self, params: Mapping[str, Any]) -> Reply:
        session = await self._opened(params, text(params, "sessionId"))
        return Reply(session.choices, session.tell_commands)

    async def _opened(self, params: Mapping[str, Any], session_id: str | None) -> Session:
        place, servers = folder(params, "cwd"), items(params, "mcpServers")
        if params.get("additionalDirectories"):
            raise wrong("additionalDirectories are not offered: a session works in one folder.")
        if session_id in self._sessions:
            raise wrong(f"The session {session_id} is open already.")
        session = Session(self.peer, self._client)
        try:
            session.id, session.work = await self._host.open(place, session_id, servers, session)
        except NoModelError as error:
            raise RpcError(AUTH_REQUIRED, safe_str(error)) from error
        except SessionNotFoundError as error:
            raise RpcError(NOT_FOUND, safe_str(error)) from error
        except ConfigError as error:
            raise wrong(safe_str(error)) from error
        if session.id in self._sessions:  # by another request meanwhile
            await session.work.close()
            raise wrong(f"The session {session.id} is open already.")
        self._sessions[session.id] = session
        return session

    def _session(self, params: Mapping[str, Any]) -> Session:
        name = text(params, "sessionId")
        if name not in self._sessions:
            raise RpcError(NOT_FOUND, f"No session {name[:80]!r} is open here.")
        return self._sessions[name]

    async def _list(self, params: Mapping[str, Any]) -> Reply:
        cursor = params.get("cursor")
        start = 0 if cursor is None else int(cursor) if _CURSOR.fullmatch(str(cursor)) else -1
        if start < 0:
            raise wrong("cursor must be one that session/list has given.")
        place = None if params.get("cwd") is None else folder(params, "cwd")
        found = await self._host.sessions(place, start, PAGE + 1)
        page = [
            {
                "sessionId": each.id,
                "cwd": each.folder,
                "title": each.title,
                "updatedAt": datetime.fromtimestamp(each.updated, timezone.utc).isoformat(),
            }
            for each in found[:PAGE]
        ]
        more = {"nextCursor": str(start + PAGE)} if len(found) > PAGE else {}
        return Reply({"sessions": page, **more})

    async def _close(self, params: Mapping[str, Any]) -> Reply:
        session = self._session(params)
        session.cancel()
        del self._sessions[session.id]
        await session.work.close()
        return Reply({})

    async def _delete(self, params: Mapping[str, Any]) -> Reply:
        name = text(params, "sessionId")
        if name in self._sessions:
            await self._close(params)
        try:
            self._host.delete(name)
        except SessionNotFoundError as error:
            raise RpcError(NOT_FOUND, safe_str(error)) from error
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
    """Serve one editor until it is gone.

    Args:
        host: Opens folders.
        source: What the editor writes: lines of JSON.
        sink: What it reads.
    """
    await Connection(host, source, sink).run()
