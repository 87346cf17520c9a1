"""Tools and agents as an MCP server, for whichever transport.

A call of a tool is a run of its own with one call in it, so the gate, the audit log and the snapshots are
those of any run. An agent is a tool that takes a task; its session is a resource. What a person would be
asked is asked of the client's user where the client can do that, and denied elsewhere.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pure_agent_loop._version import __version__
from pure_agent_loop.agent import Agent
from pure_agent_loop.errors import ConfigError, PureAgentLoopError
from pure_agent_loop.events import AnyEvent, EventType
from pure_agent_loop.mcp.connection import hush
from pure_agent_loop.mcp.one_call import OneCall
from pure_agent_loop.mcp.words import say
from pure_agent_loop.permissions import Permission, PermissionRequest
from pure_agent_loop.runs.handoff import tool_name
from pure_agent_loop.sessions.store import check_session_id
from pure_agent_loop.support.terminal import one_line
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.tool import Tool
from pure_agent_loop.tool_context import current_call

if TYPE_CHECKING:
    from pure_agent_loop.sessions.store import SessionStore

SESSIONS = "pal://sessions/"
MOST_SESSIONS = 100
_TASK = {
    "type": "object",
    "properties": {
        "task": {"type": "string", "description": "What to do, with everything that is needed for it."},
        "session": {"type": "string", "description": "Goes on with an earlier task: the id of its session."},
    },
    "required": ["task"],
    "additionalProperties": False,
}
_ALLOW = {"type": "object", "properties": {"allow": {"type": "boolean"}}, "required": ["allow"]}
_ANSWER = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls.

    Args:
        owns: Whether a session is the caller's.
        new_session: Gives a new session an id.
        may_call: Whether the tools may be called, and what agents do with theirs be seen.
        may_run: Whether agents may be given tasks.
    """

    owns: Callable[[str], bool]
    new_session: Callable[[], str]
    may_call: bool = True
    may_run: bool = True

    def has(self, session: str) -> bool:
        """Whether this can be, and is, one of the caller's sessions."""
        try:
            return self.owns(check_session_id(session))
        except ConfigError:
            return False


class Offer:
    """What is offered.

    Args:
        tools: An agent whose tools are offered, under its rules, in its sandbox, in its audit log; its model
            is not used. None for no tools.
        agents: Agents that take tasks, by name.
        store: Where their sessions are kept.
        caller: Who makes a request: the SDK's context of it to a `Caller`.

    Raises:
        ConfigError: A tool and an agent have one name.
    """

    def __init__(
        self,
        tools: Agent | None,
        agents: Mapping[str, Agent],
        store: SessionStore,
        caller: Callable[[Any], Caller],
    ) -> None:
        self._agent, self._store, self._caller = tools, store, caller
        self.tools: dict[str, Tool] = {} if tools is None else {each.name: each for each in tools.tools}
        self.agents = {tool_name(name): agent for name, agent in agents.items()}
        if twice := self.tools.keys() & self.agents.keys():
            raise ConfigError(f"A tool and an agent are both called {min(twice)!r}. Rename the agent.")
        self._changing = asyncio.Lock()

    # -- tools ----------------------------------------------------------------------------------------

    async def list_tools(self, context: Any, _: Any) -> Any:
        """Answer ``tools/list``."""
        from mcp_types import ListToolsResult

        caller = self._caller(context)
        found = [_described(each) for each in self.tools.values()] if caller.may_call else []
        found += [_as_tool(name, each) for name, each in self.agents.items()] if caller.may_run else []
        return ListToolsResult(tools=found)

    async def call_tool(self, context: Any, params: Any) -> Any:
        """Answer ``tools/call``."""
        caller, args = self._caller(context), params.arguments or {}
        asking = _Asking(context, params, tells=caller.may_call)
        try:
            if params.name in self.agents and caller.may_run:
                return await self._run_agent(params.name, args, caller, asking)
            if params.name in self.tools and caller.may_call:
                return await self._call(self.tools[params.name], args, asking)
        except PureAgentLoopError as error:
            return _failed(safe_str(error))
        return _failed(f"There is no tool {params.name!r:.80}.")

    async def _call(self, tool: Tool, args: dict[str, Any], asking: _Asking) -> Any:
        assert self._agent is not None
        client = OneCall(tool.name, args)
        agent = self._agent.clone(llm=client, on_ask=asking.ask, compaction=False)
        seen: list[AnyEvent] = []
        if tool.read_only:
            seen = [each async for each in _followed(agent.arun_stream(""), asking)]
        else:  # one after the other, so that it is known what each of them has changed
            async with self._changing:
                seen = [each async for each in _followed(agent.arun_stream(""), asking)]
        if asking.wanted:  # nothing was done yet: the client asks, and calls again
            return asking.input_required()
        results = [each for each in seen if each.type is EventType.OBSERVATION]
        if not results:
            return _failed(
                next((each.content for each in seen if each.type is EventType.ERROR), "It failed.")
            )
        return _result(
            str(results[0].data["result"]), client.parts, is_error=bool(results[0].data["is_error"])
        )

    async def _run_agent(self, name: str, args: dict[str, Any], caller: Caller, asking: _Asking) -> Any:
        task, session = args.get("task"), args.get("session") or ""
        if not isinstance(task, str) or not task.strip() or not isinstance(session, str):
            return _failed("An agent needs a task, as text.")
        if session and not caller.has(session):
            return _failed("There is no such session.")
        session = session or caller.new_session()
        agent = self.agents[name]
        if agent._kit.on_ask is None:
            asking.is_stateless = False
            agent = agent.clone(on_ask=asking.ask)
        run = agent.prepare(task, session_id=session, sessions=self._store)
        async for _ in _followed(run.stream(), asking):
            pass
        result = run.result()
        is_error = result.stop_reason != "completed"
        text = result.content or f"It stopped: {result.stop_reason}."
        return _result(text, [], is_error=is_error, session=session)

    # -- sessions -------------------------------------------------------------------------------------

    async def list_resources(self, context: Any, _: Any) -> Any:
        """Answer ``resources/list``: the newest sessions of the caller."""
        from mcp_types import ListResourcesResult

        caller = self._caller(context)
        listed = await asyncio.to_thread(self._store.list) if caller.may_call else []
        found = [each.id for each in listed if caller.owns(each.id)]
        return ListResourcesResult(resources=[_session(each) for each in found[:MOST_SESSIONS]])

    async def list_templates(self, _: Any, __: Any) -> Any:
        """Answer ``resources/templates/list``."""
        from mcp_types import ListResourceTemplatesResult, ResourceTemplate

        template = ResourceTemplate(
            uri_template=f"{SESSIONS}{{id}}", name="session", mime_type="text/markdown"
        )
        return ListResourceTemplatesResult(resource_templates=[template])

    async def read_resource(self, context: Any, params: Any) -> Any:
        """Answer ``resources/read``: a session as Markdown."""
        from mcp.shared.exceptions import MCPError
        from mcp_types import ReadResourceResult, TextResourceContents

        from pure_agent_loop.sessions.export import to_markdown

        session, caller = str(params.uri).removeprefix(SESSIONS), self._caller(context)
        missing = MCPError(code=-32002, message="There is no such resource.")
        if not str(params.uri).startswith(SESSIONS) or not (caller.may_call and caller.has(session)):
            raise missing
        try:
            records = await asyncio.to_thread(lambda: self._store.read(session).records)
        except (LookupError, PureAgentLoopError):
            raise missing from None
        text = TextResourceContents(
            uri=str(params.uri), mime_type="text/markdown", text=to_markdown(records, session)
        )
        return ReadResourceResult(contents=[text])

    def server(self) -> Any:
        """It as a server of the SDK."""
        from mcp.server.lowlevel import Server

        hush()
        return Server(
            "pure-agent-loop",
            version=__version__,
            on_list_tools=self.list_tools,
            on_call_tool=self.call_tool,
            on_list_resources=self.list_resources,
            on_list_resource_templates=self.list_templates,
            on_read_resource=self.read_resource,
        )


async def serve_stdio(offer: Offer) -> None:
    """Serve on standard input and output, until the input ends. Nothing else may write there."""
    from mcp.server.stdio import stdio_server

    server = offer.server()
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


class _Asking:
    """Puts questions of a run to the client's user, and tells the client how far it is.

    Args:
        context: The SDK's context of the request.
        params: Of the request.
        tells: Whether it tells how far it is.
    """

    def __init__(self, context: Any, params: Any, *, tells: bool) -> None:
        self._context, self._answers, self._tells = context, params.input_responses or {}, tells
        self.is_stateless = True  # nothing is lost if the whole call is made again
        self.wanted: dict[str, Any] = {}
        self._told = 0

    async def ask(self, request: PermissionRequest) -> Permission:
        """For ``Agent(on_ask=...)``."""
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS

        capabilities = self._context.session.client_capabilities
        if capabilities is None or capabilities.elicitation is None:
            return Permission("deny", say("mcp_nobody"))
        is_open = current_call() is not None and request.args.keys() == {"question"}
        if self._context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            found = await self._context.session.elicit_form(
                _question(request), _ANSWER if is_open else _ALLOW, self._context.request_id
            )
            return _read(found)
        key = hashlib.sha256(_question(request).encode("utf-8", "surrogatepass")).hexdigest()[:32]
        if key in self._answers:
            return _read(self._answers[key])
        if self.is_stateless and not is_open:
            self.wanted[key] = _question(request)
        return Permission("deny", say("mcp_nobody"))

    def input_required(self) -> Any:
        """What the client is to ask before it calls again."""
        from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult

        return InputRequiredResult(
            input_requests={
                key: ElicitRequest(params=ElicitRequestFormParams(message=text, requested_schema=_ALLOW))
                for key, text in self.wanted.items()
            }
        )

    async def tell(self, event: AnyEvent) -> None:
        """Tell of progress, if the client wants to hear of it."""
        if not self._tells:
            return
        if event.type is EventType.PROGRESS:
            text = event.content
        elif event.type is EventType.ACTION:
            text = str(event.data["tool"])
        else:
            return
        self._told += 1
        await self._context.session.report_progress(self._told, None, one_line(text))


async def _followed(events: AsyncIterator[AnyEvent], asking: _Asking) -> AsyncIterator[AnyEvent]:
    async with aclosing(events) as coming:  # type: ignore[type-var] # they are generators
        async for event in coming:
            await asking.tell(event)
            yield event


def _question(request: PermissionRequest) -> str:
    if request.args.keys() == {"question"}:
        return str(request.args["question"])
    args = json.dumps(request.args, ensure_ascii=False, default=str)
    return f"May {request.tool} be called with {args}? {request.reason}".rstrip()


def _read(found: Any) -> Permission:
    content = getattr(found, "content", None) or {}
    if getattr(found, "action", "") != "accept" or content.get("allow") is False:
        return Permission("deny")
    if "answer" in content:
        return Permission("allow", str(content["answer"]))
    return Permission("allow" if content.get("allow") is True else "deny")


def _described(tool: Tool) -> Any:
    from mcp_types import Tool as MCPTool
    from mcp_types import ToolAnnotations

    hints = ToolAnnotations(
        read_only_hint=tool.read_only,
        destructive_hint=None if tool.read_only else bool(tool.destructive),
        idempotent_hint=tool.idempotent,
    )
    schema = {"type": "object", "properties": {}, **tool.parameters}
    return MCPTool(name=tool.name, description=tool.description, input_schema=schema, annotations=hints)


def _as_tool(name: str, agent: Agent) -> Any:
    from mcp_types import Tool as MCPTool

    about = f"Give a task to the agent {name}. {agent.description}".strip()
    return MCPTool(name=name, description=about, input_schema=_TASK)


def _session(session: str) -> Any:
    from mcp_types import Resource

    return Resource(uri=f"{SESSIONS}{session}", name=session, mime_type="text/markdown")


def _failed(text: str) -> Any:
    return _result(text, [], is_error=True)


def _result(text: str, parts: list[dict[str, Any]], *, is_error: bool, session: str = "") -> Any:
    from mcp_types import CallToolResult, ResourceLink, TextContent

    content: list[Any] = [TextContent(type="text", text=text), *(_block(each) for each in parts)]
    if session:
        content.append(ResourceLink(type="resource_link", uri=f"{SESSIONS}{session}", name=session))
    return CallToolResult(content=content, is_error=is_error)


def _block(part: dict[str, Any]) -> Any:
    """A part of a message as a block of content."""
    from mcp_types import AudioContent, BlobResourceContents, EmbeddedResource, ImageContent

    kind = part["type"]
    if kind == "input_audio":
        sound = part[kind]
        return AudioContent(type="audio", data=sound["data"], mime_type=f"audio/{sound['format']}")
    url = str(part[kind].get("url") or part[kind].get("file_data"))
    head, _, data = url.partition(",")
    media_type = head.removeprefix("data:").partition(";")[0]
    if kind == "image_url":
        return ImageContent(type="image", data=data, mime_type=media_type)
    name = str(part[kind].get("filename", "file"))
    blob = BlobResourceContents(uri=f"file:///{name}", mime_type=media_type, blob=data)
    return EmbeddedResource(type="resource", resource=blob)
