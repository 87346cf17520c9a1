"""Tools and agents as an MCP server, for any transport.

Each tool call is its own run, so the gate, the audit log and the snapshots apply as in any run. The user's
prompts and resources are called the same way. An agent is a tool that takes a task; its session is a
resource. Questions to a person go to the client's user; they are denied if the client cannot ask.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

from pure_agent_loop._version import __version__
from pure_agent_loop.agent import Agent, served_agents
from pure_agent_loop.errors import ConfigError, PureAgentLoopError
from pure_agent_loop.events import EventType
from pure_agent_loop.mcp.connection import silence_sdk_logs
from pure_agent_loop.mcp.forms import SHOW_FORM
from pure_agent_loop.mcp.serving.changes import Changes
from pure_agent_loop.mcp.serving.content import (
    SESSIONS,
    contents_of,
    failed,
    messages_of,
    result_of,
    session_at,
    uri_of,
)
from pure_agent_loop.mcp.serving.one_call import OneCall
from pure_agent_loop.mcp.serving.open_ids import checked_lines
from pure_agent_loop.mcp.serving.published import Published, choices
from pure_agent_loop.mcp.serving.questions import ClientLink, Turn, followed, set_level
from pure_agent_loop.runs.handoff import tool_name
from pure_agent_loop.runs.settings import DepsOfRun
from pure_agent_loop.schema.outcome import ToolOutcome
from pure_agent_loop.sessions.export import to_markdown
from pure_agent_loop.sessions.store import SessionStore, check_session_name
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.support.threads import in_thread
from pure_agent_loop.tool import Tool
from pure_agent_loop.tool_context import run_forgets, run_moves

MAX_SESSIONS = MAX_VALUES = 100
NO_RESOURCE, INVALID = -32002, -32602
T = TypeVar("T")
_TASK = {
    "type": "object",
    "properties": {
        "task": {"type": "string", "description": "The task, with all the details that the agent needs."},
        "session": {"type": "string", "description": "ID of an earlier task's session, to continue it."},
    },
    "required": ["task"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a request.

    Args:
        owns: Returns whether a session is the caller's.
        new_session: Returns an ID for a new session.
        may_call: Whether the caller may call tools, and see the tool calls of agents.
        may_run: Whether the caller may give tasks to agents.
    """

    owns: Callable[[str], bool]
    new_session: Callable[[], str]
    may_call: bool = True
    may_run: bool = True

    def has(self, session: str) -> bool:
        """Return whether the name is valid and the session belongs to the caller."""
        try:
            return self.owns(check_session_name(session))
        except ConfigError:
            return False


class AgentServer:
    """The tools, agents, prompts and resources that the server exposes.

    Args:
        tools: An agent whose tools are exposed, with its rules, sandbox and audit log; its model is not used.
            None for no tools.
        agents: Agents that take tasks, by name.
        store: The store of the agents' sessions.
        caller: Returns the `Caller` for the SDK's context of a request.
        published: The user's prompts and resources; None if there are none.
        deps: Makes the deps for each agent run; None for the agents' own deps.

    Raises:
        ConfigError: A tool and an agent have the same name.
    """

    def __init__(
        self,
        tools: Agent | None,
        agents: Mapping[str, Agent],
        store: SessionStore,
        caller: Callable[[Any], Caller],
        published: Published | None = None,
        deps: Callable[..., Any] | None = None,
    ) -> None:
        self._deps = deps
        self._agent, self._store, self._caller = None if tools is None else _of_one_tool(tools), store, caller
        self._published = Published() if published is None else published
        self.tools: dict[str, Tool] = {} if tools is None else {tool.name: tool for tool in tools.tools}
        agents = served_agents(agents, "the server", "read them from the store of AgentServer")
        self.agents = {tool_name(name): agent for name, agent in agents.items()}
        if twice := self.tools.keys() & self.agents.keys():
            raise ConfigError(notice("library.mcp_name_twice", twice=min(twice)))
        self._changing = asyncio.Lock()
        self._changes = Changes()
        self._published.listen(self._changes.tell)

    # -- tools ----------------------------------------------------------------------------------------

    async def _list_tools(self, context: Any, _: Any) -> Any:
        caller = self._caller(context)
        listed = [_described(tool) for tool in self.tools.values()] if caller.may_call else []
        for name, agent in self.agents.items() if caller.may_run else ():
            description = f"Give a task to the agent {name}. {agent.description}".strip()
            listed.append(types.Tool(name=name, description=description, input_schema=_TASK))
        return types.ListToolsResult(tools=listed)

    async def _call_tool(self, context: Any, params: Any) -> Any:
        caller, args = self._caller(context), params.arguments or {}
        link = ClientLink(context, params.name, params.input_responses, reports_progress=caller.may_call)
        try:
            if params.name in self.agents and caller.may_run:
                return await self._run_agent(params.name, args, caller, link)
            if params.name in self.tools and caller.may_call:
                return await self._call(self.tools[params.name], args, link)
        except PureAgentLoopError as error:
            return failed(safe_str(error))
        return failed(f"Unknown tool {params.name!r:.80}.")

    async def _call(self, tool: Tool, args: dict[str, Any], link: ClientLink) -> Any:
        assert self._agent is not None
        if tool.read_only:
            outcome = await _once(self._agent, tool, args, link)
        else:  # one at a time, so that each change can be attributed to a call
            link.turn = turn = Turn(self._changing)
            try:
                await turn.take()
                outcome = await _once(self._agent, tool, args, link)
            finally:
                turn.leave()
        if link.wanted:  # nothing was executed: the client asks its user and repeats the call
            return link.input_required()
        return result_of(outcome)

    async def _run_agent(self, name: str, args: dict[str, Any], caller: Caller, link: ClientLink) -> Any:
        task, session = args.get("task"), args.get("session") or ""
        if not isinstance(task, str) or not task.strip() or not isinstance(session, str):
            return failed("task must be a non-empty string.")
        if session and not caller.has(session):
            return failed("Session not found.")
        session = session or caller.new_session()
        agent = self.agents[name]
        if agent.config.on_ask is None:
            link.is_stateless = False
            agent = agent.clone(on_ask=link.ask)
            SHOW_FORM.set(link.form)
        deps = None if self._deps is None else DepsOfRun(self._deps)
        run = agent.prepare(task, session_id=session, sessions=self._store, deps=deps)
        async for event in followed(run.stream(), link):
            if event.type in (EventType.STEP_END, EventType.LOOP_END):
                self.session_changed(session)
        result = run.result()
        text = result.content or f"The run stopped: {result.stop_reason}."
        return result_of(ToolOutcome(text, is_error=result.stop_reason != "completed"), session)

    # -- prompts --------------------------------------------------------------------------------------

    async def _list_prompts(self, context: Any, _: Any) -> Any:
        prompts = self._published.prompts.values() if self._caller(context).may_run else ()
        return types.ListPromptsResult(prompts=[_as_prompt(prompt) for prompt in prompts])

    async def _get_prompt(self, context: Any, params: Any) -> Any:
        prompt = self._published.prompts.get(params.name) if self._caller(context).may_run else None
        if prompt is None:
            raise MCPError(INVALID, f"Unknown prompt {params.name!r:.80}.")
        messages = await self._read(prompt, params.arguments or {}, context, INVALID, messages_of)
        return types.GetPromptResult(description=prompt.description, messages=messages)

    async def _complete(self, context: Any, params: Any) -> Any:
        caller, begun = self._caller(context), params.argument.value
        values: list[str] = []
        if getattr(params.ref, "name", None) is not None:
            prompt = self._published.prompts.get(params.ref.name) if caller.may_run else None
            if prompt is None:
                raise MCPError(INVALID, f"Unknown prompt {params.ref.name!r:.80}.")
            values = choices(prompt, params.argument.name)
        elif params.ref.uri.startswith(SESSIONS):
            values = await self._sessions(caller)
        elif caller.may_run:
            same = (resource.tool for resource in self._published.resources if resource.uri == params.ref.uri)
            values = [value for tool in same for value in choices(tool, params.argument.name)]
        matches = [value for value in values if value.startswith(begun)]
        shown = matches[:MAX_VALUES]
        return types.CompleteResult(
            completion=types.Completion(values=shown, total=len(matches), has_more=len(matches) > len(shown))
        )

    async def _read(
        self, tool: Tool, args: dict[str, Any], context: Any, code: int, form: Callable[[ToolOutcome], T]
    ) -> T:
        """Call a user's function and convert its result."""
        link = ClientLink(context, tool.name, None, reports_progress=self._caller(context).may_call)
        agent = self._agent or Agent(llm=OneCall("", {}))
        outcome = await _once(agent, tool, args, link)
        if outcome.is_error:
            raise MCPError(code, outcome.text)
        try:
            return await in_thread(partial(form, outcome))
        except PureAgentLoopError as error:  # for example a missing file or an invalid image
            raise MCPError(code, safe_str(error)) from None

    # -- resources ------------------------------------------------------------------------------------

    async def _list_resources(self, context: Any, _: Any) -> Any:
        """List the user's resources and the caller's newest sessions."""
        caller = self._caller(context)
        listed = [
            types.Resource(uri=resource.uri, name=resource.tool.name, description=resource.tool.description)
            for resource in self._published.resources
            if caller.may_run and not resource.is_template
        ]
        sessions = (await self._sessions(caller))[:MAX_SESSIONS]
        listed += [
            types.Resource(uri=uri_of(session), name=session, mime_type="text/markdown")
            for session in sessions
        ]
        return types.ListResourcesResult(resources=listed)

    async def _list_templates(self, context: Any, _: Any) -> Any:
        caller = self._caller(context)
        listed = [
            types.ResourceTemplate(
                uri_template=resource.uri, name=resource.tool.name, description=resource.tool.description
            )
            for resource in self._published.resources
            if caller.may_run and resource.is_template
        ]
        sessions = types.ResourceTemplate(
            uri_template=f"{SESSIONS}{{id}}", name="session", mime_type="text/markdown"
        )
        return types.ListResourceTemplatesResult(resource_templates=[*listed, sessions])

    async def _read_resource(self, context: Any, params: Any) -> Any:
        """Read a session as Markdown, or call the user's function."""
        uri, caller = str(params.uri), self._caller(context)
        self._check_readable(uri, caller)
        if not uri.startswith(SESSIONS):
            match = self._published.resource_at(uri)
            assert match is not None
            resource, args = match
            form = partial(contents_of, uri)
            return types.ReadResourceResult(
                contents=[await self._read(resource.tool, args, context, NO_RESOURCE, form)]
            )
        session = session_at(uri)
        try:
            records = await asyncio.to_thread(lambda: self._store.read(session).records)
        except (LookupError, PureAgentLoopError):
            raise MCPError(NO_RESOURCE, "Resource not found.") from None
        text = to_markdown(records)
        return types.ReadResourceResult(
            contents=[types.TextResourceContents(uri=uri, mime_type="text/markdown", text=text)]
        )

    def _is_readable(self, uri: str, caller: Caller) -> bool:
        if uri.startswith(SESSIONS):
            return caller.may_call and caller.has(session_at(uri))
        return caller.may_run and self._published.resource_at(uri) is not None

    def _check_readable(self, uri: str, caller: Caller) -> None:
        if not self._is_readable(uri, caller):
            raise MCPError(NO_RESOURCE, "Resource not found.")

    async def _sessions(self, caller: Caller) -> list[str]:
        listed = await asyncio.to_thread(self._store.list) if caller.may_call else []
        return [session.id for session in listed if caller.owns(session.id)]

    # -- changes --------------------------------------------------------------------------------------

    def session_changed(self, session: str) -> None:
        """Notify a session's subscribers that it has changed."""
        self._changes.tell(uri_of(session))

    async def _subscribe(self, context: Any, params: Any) -> Any:
        uri = str(params.uri)
        self._check_readable(uri, self._caller(context))
        if not _is_notified_uri(uri):
            raise MCPError(INVALID, f"Subscribe to {uri_of(session_at(uri))} instead.")
        try:
            self._changes.add(context, uri)
        except ValueError as error:
            raise MCPError(INVALID, str(error)) from None
        return types.EmptyResult()

    async def _unsubscribe(self, context: Any, params: Any) -> Any:
        self._changes.remove(context, str(params.uri))
        return types.EmptyResult()

    async def _listen(self, context: Any, params: Any) -> Any:
        """Listen for changes to the resources that the caller may read."""
        caller, asked = self._caller(context), params.notifications
        wishes = map(str, asked.resource_subscriptions or ())
        uris = [uri for uri in wishes if self._is_readable(uri, caller) and _is_notified_uri(uri)]
        wanted = asked.model_copy(update={"resource_subscriptions": uris})
        return await self._changes.listen(context, params.model_copy(update={"notifications": wanted}))

    def server(self) -> Any:
        """Build the SDK's server."""
        silence_sdk_logs()
        made: Any = Server(
            "pure-agent-loop",
            version=__version__,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
            on_completion=self._complete,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_subscribe_resource=self._subscribe,
            on_unsubscribe_resource=self._unsubscribe,
            on_subscriptions_listen=self._listen,
        )
        made.add_request_handler("logging/setLevel", types.SetLevelRequestParams, set_level)
        return made


def _is_notified_uri(uri: str) -> bool:
    """Return whether notifications use this spelling of a URI: for each session, they use only one."""
    return not uri.startswith(SESSIONS) or uri == uri_of(session_at(uri))


async def serve_stdio(agent_server: AgentServer) -> None:
    """Serve on standard input and output until the input ends. Other code must not use either of them."""
    sdk_server = agent_server.server()
    async with stdio_server() as streams, checked_lines(*streams) as (reading, writing):
        await sdk_server.run(reading, writing, sdk_server.create_initialization_options())


async def _once(agent: Agent, tool: Tool, args: dict[str, Any], link: ClientLink) -> ToolOutcome:
    """Run one call in its own run and return its outcome."""
    client = OneCall(tool.name, args)
    SHOW_FORM.set(link.form)  # a context variable, so the value is local to this request's task
    run_moves()
    run_forgets()  # files read in earlier calls stay known, because the client's model has seen them
    run = agent.clone(llm=client, tools=[tool], on_ask=link.ask, compaction=False).arun_stream("")
    run_events = [event async for event in followed(run, link)]
    for event in run_events:
        if event.type is EventType.OBSERVATION:
            data = event.data
            return ToolOutcome(data["result"], data["is_error"], parts=client.parts, value=data.get("value"))
    errors = (event.content for event in run_events if event.type is EventType.ERROR)
    return ToolOutcome(next(errors, "The call failed."), is_error=True)


def _of_one_tool(agent: Agent) -> Agent:
    """Return a clone for one-tool runs: without a system prompt, and with rules shared by all runs."""
    rules = replace(agent.config.permission_rules, shared=True)
    return agent.clone(permission_rules=rules, system_prompt="")


def _described(tool: Tool) -> Any:
    hints = types.ToolAnnotations(
        read_only_hint=tool.read_only,
        destructive_hint=None if tool.read_only else bool(tool.destructive),
        idempotent_hint=tool.idempotent,
    )
    schema = {"type": "object", "properties": {}, **tool.parameters}
    return types.Tool(name=tool.name, description=tool.description, input_schema=schema, annotations=hints)


def _as_prompt(tool: Tool) -> Any:
    required = tool.parameters.get("required", ())
    arguments = [
        types.PromptArgument(name=name, description=field.get("description"), required=name in required)
        for name, field in tool.parameters.get("properties", {}).items()
    ]
    return types.Prompt(name=tool.name, description=tool.description, arguments=arguments)
