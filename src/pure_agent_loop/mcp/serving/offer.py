"""Tools and agents as an MCP server, for whichever transport.

A call of a tool is a run of its own with one call in it, so the gate, the audit log and the snapshots are
those of any run; prompts and resources of a user's are called the same way. An agent is a tool that takes a
task; its session is a resource. What a person would be asked is asked of the client's user where the client
can do that, and denied elsewhere.
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
from pure_agent_loop.agent import Agent
from pure_agent_loop.errors import ConfigError, PureAgentLoopError
from pure_agent_loop.events import EventType
from pure_agent_loop.mcp.connection import hush
from pure_agent_loop.mcp.forms import SHOW_FORM
from pure_agent_loop.mcp.serving.changes import Changes
from pure_agent_loop.mcp.serving.content import SESSIONS, contents_of, failed, messages_of, result_of
from pure_agent_loop.mcp.serving.one_call import OneCall
from pure_agent_loop.mcp.serving.open_ids import checked_lines
from pure_agent_loop.mcp.serving.published import Published, choices
from pure_agent_loop.mcp.serving.questions import Asking, Turn, followed, set_level
from pure_agent_loop.runs.handoff import tool_name
from pure_agent_loop.schema.outcome import ToolOutcome
from pure_agent_loop.sessions.export import to_markdown
from pure_agent_loop.sessions.store import SessionStore, check_session_id
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.support.threads import in_thread
from pure_agent_loop.tool import Tool

MOST_SESSIONS = MOST_VALUES = 100
NO_RESOURCE, INVALID = -32002, -32602
T = TypeVar("T")
_TASK = {
    "type": "object",
    "properties": {
        "task": {"type": "string", "description": "What to do, with everything that is needed for it."},
        "session": {"type": "string", "description": "Goes on with an earlier task: the id of its session."},
    },
    "required": ["task"],
    "additionalProperties": False,
}


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
        published: Prompts and resources of the user's; None for none.

    Raises:
        ConfigError: A tool and an agent have one name.
    """

    def __init__(
        self,
        tools: Agent | None,
        agents: Mapping[str, Agent],
        store: SessionStore,
        caller: Callable[[Any], Caller],
        published: Published | None = None,
    ) -> None:
        self._agent, self._store, self._caller = None if tools is None else _of_one_tool(tools), store, caller
        self._published = Published() if published is None else published
        self.tools: dict[str, Tool] = {} if tools is None else {each.name: each for each in tools.tools}
        self.agents = {tool_name(name): agent for name, agent in agents.items()}
        if twice := self.tools.keys() & self.agents.keys():
            raise ConfigError(f"A tool and an agent are both called {min(twice)!r}. Rename the agent.")
        self._changing = asyncio.Lock()
        self._changes = Changes()
        self._published.listen(self._changes.tell)

    # -- tools ----------------------------------------------------------------------------------------

    async def _list_tools(self, context: Any, _: Any) -> Any:
        caller = self._caller(context)
        found = [_described(each) for each in self.tools.values()] if caller.may_call else []
        found += [_as_tool(name, each) for name, each in self.agents.items()] if caller.may_run else []
        return types.ListToolsResult(tools=found)

    async def _call_tool(self, context: Any, params: Any) -> Any:
        caller, args = self._caller(context), params.arguments or {}
        asking = Asking(context, params.name, params.input_responses, tells=caller.may_call)
        try:
            if params.name in self.agents and caller.may_run:
                return await self._run_agent(params.name, args, caller, asking)
            if params.name in self.tools and caller.may_call:
                return await self._call(self.tools[params.name], args, asking)
        except PureAgentLoopError as error:
            return failed(safe_str(error))
        return failed(f"There is no tool {params.name!r:.80}.")

    async def _call(self, tool: Tool, args: dict[str, Any], asking: Asking) -> Any:
        assert self._agent is not None
        if tool.read_only:
            outcome = await _once(self._agent, tool, args, asking)
        else:  # one after the other, so that it is known what each of them has changed
            asking.turn = turn = Turn(self._changing)
            try:
                await turn.take()
                outcome = await _once(self._agent, tool, args, asking)
            finally:
                turn.leave()
        if asking.wanted:  # nothing was done yet: the client asks, and calls again
            return asking.input_required()
        return result_of(outcome)

    async def _run_agent(self, name: str, args: dict[str, Any], caller: Caller, asking: Asking) -> Any:
        task, session = args.get("task"), args.get("session") or ""
        if not isinstance(task, str) or not task.strip() or not isinstance(session, str):
            return failed("An agent needs a task, as text.")
        if session and not caller.has(session):
            return failed("There is no such session.")
        session = session or caller.new_session()
        agent = self.agents[name]
        if agent._kit.on_ask is None:
            asking.is_stateless = False
            agent = agent.clone(on_ask=asking.ask)
            SHOW_FORM.set(asking.form)
        run = agent.prepare(task, session_id=session, sessions=self._store)
        async for event in followed(run.stream(), asking):
            if event.type in (EventType.STEP_END, EventType.LOOP_END):
                self.session_changed(session)
        result = run.result()
        text = result.content or f"It stopped: {result.stop_reason}."
        return result_of(ToolOutcome(text, is_error=result.stop_reason != "completed"), session)

    # -- prompts --------------------------------------------------------------------------------------

    async def _list_prompts(self, context: Any, _: Any) -> Any:
        found = self._published.prompts.values() if self._caller(context).may_run else ()
        return types.ListPromptsResult(prompts=[_as_prompt(each) for each in found])

    async def _get_prompt(self, context: Any, params: Any) -> Any:
        prompt = self._published.prompts.get(params.name) if self._caller(context).may_run else None
        if prompt is None:
            raise MCPError(INVALID, f"There is no prompt {params.name!r:.80}.")
        messages = await self._read(prompt, params.arguments or {}, context, INVALID, messages_of)
        return types.GetPromptResult(description=prompt.description, messages=messages)

    async def _complete(self, context: Any, params: Any) -> Any:
        caller, begun = self._caller(context), params.argument.value
        values: list[str] = []
        if getattr(params.ref, "name", None) is not None:
            prompt = self._published.prompts.get(params.ref.name) if caller.may_run else None
            if prompt is None:
                raise MCPError(INVALID, f"There is no prompt {params.ref.name!r:.80}.")
            values = choices(prompt, params.argument.name)
        elif params.ref.uri.startswith(SESSIONS):
            values = await self._sessions(caller)
        elif caller.may_run:
            same = (each.tool for each in self._published.resources if each.uri == params.ref.uri)
            values = [value for tool in same for value in choices(tool, params.argument.name)]
        found = [each for each in values if each.startswith(begun)]
        most = found[:MOST_VALUES]
        return types.CompleteResult(
            completion=types.Completion(values=most, total=len(found), has_more=len(found) > len(most))
        )

    async def _read(
        self, tool: Tool, args: dict[str, Any], context: Any, code: int, form: Callable[[ToolOutcome], T]
    ) -> T:
        """Call a function of the user's, and bring what it gives into a form of the protocol."""
        asking = Asking(context, tool.name, None, tells=self._caller(context).may_call)
        agent = self._agent or Agent(llm=OneCall("", {}))
        outcome = await _once(agent, tool, args, asking)
        if outcome.is_error:
            raise MCPError(code, outcome.text)
        try:
            return await in_thread(partial(form, outcome))
        except PureAgentLoopError as error:  # a file that is not there, an image that is none
            raise MCPError(code, safe_str(error)) from None

    # -- resources ------------------------------------------------------------------------------------

    async def _list_resources(self, context: Any, _: Any) -> Any:
        """The user's, and the newest sessions of the caller."""
        caller = self._caller(context)
        found = [
            types.Resource(uri=each.uri, name=each.tool.name, description=each.tool.description)
            for each in self._published.resources
            if caller.may_run and not each.is_template
        ]
        sessions = (await self._sessions(caller))[:MOST_SESSIONS]
        found += [
            types.Resource(uri=f"{SESSIONS}{each}", name=each, mime_type="text/markdown") for each in sessions
        ]
        return types.ListResourcesResult(resources=found)

    async def _list_templates(self, context: Any, _: Any) -> Any:
        caller = self._caller(context)
        found = [
            types.ResourceTemplate(
                uri_template=each.uri, name=each.tool.name, description=each.tool.description
            )
            for each in self._published.resources
            if caller.may_run and each.is_template
        ]
        sessions = types.ResourceTemplate(
            uri_template=f"{SESSIONS}{{id}}", name="session", mime_type="text/markdown"
        )
        return types.ListResourceTemplatesResult(resource_templates=[*found, sessions])

    async def _read_resource(self, context: Any, params: Any) -> Any:
        """A session as Markdown, or what the user's function gives."""
        uri, caller = str(params.uri), self._caller(context)
        self._check_readable(uri, caller)
        if not uri.startswith(SESSIONS):
            found = self._published.resource_at(uri)
            assert found is not None
            resource, args = found
            form = partial(contents_of, uri)
            return types.ReadResourceResult(
                contents=[await self._read(resource.tool, args, context, NO_RESOURCE, form)]
            )
        session = uri.removeprefix(SESSIONS)
        try:
            records = await asyncio.to_thread(lambda: self._store.read(session).records)
        except (LookupError, PureAgentLoopError):
            raise MCPError(NO_RESOURCE, "There is no such resource.") from None
        text = to_markdown(records, session)
        return types.ReadResourceResult(
            contents=[types.TextResourceContents(uri=uri, mime_type="text/markdown", text=text)]
        )

    def _is_readable(self, uri: str, caller: Caller) -> bool:
        if uri.startswith(SESSIONS):
            return caller.may_call and caller.has(uri.removeprefix(SESSIONS))
        return caller.may_run and self._published.resource_at(uri) is not None

    def _check_readable(self, uri: str, caller: Caller) -> None:
        if not self._is_readable(uri, caller):
            raise MCPError(NO_RESOURCE, "There is no such resource.")

    async def _sessions(self, caller: Caller) -> list[str]:
        listed = await asyncio.to_thread(self._store.list) if caller.may_call else []
        return [each.id for each in listed if caller.owns(each.id)]

    # -- changes --------------------------------------------------------------------------------------

    def session_changed(self, session: str) -> None:
        """Tell who subscribed to a session that there is something new in it."""
        self._changes.tell(f"{SESSIONS}{session}")

    async def _subscribe(self, context: Any, params: Any) -> Any:
        self._check_readable(str(params.uri), self._caller(context))
        try:
            self._changes.add(context, str(params.uri))
        except ValueError as error:
            raise MCPError(INVALID, str(error)) from None
        return types.EmptyResult()

    async def _unsubscribe(self, context: Any, params: Any) -> Any:
        self._changes.remove(context, str(params.uri))
        return types.EmptyResult()

    async def _listen(self, context: Any, params: Any) -> Any:
        """Of what the caller may read."""
        caller, asked = self._caller(context), params.notifications
        uris = [each for each in asked.resource_subscriptions or () if self._is_readable(str(each), caller)]
        wanted = asked.model_copy(update={"resource_subscriptions": uris})
        return await self._changes.listen(context, params.model_copy(update={"notifications": wanted}))

    def server(self) -> Any:
        """It as a server of the SDK."""
        hush()
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


async def serve_stdio(offer: Offer) -> None:
    """Serve on standard input and output, until the input ends. Nothing else may write there."""
    server = offer.server()
    async with stdio_server() as streams, checked_lines(*streams) as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


async def _once(agent: Agent, tool: Tool, args: dict[str, Any], asking: Asking) -> ToolOutcome:
    """What comes of one call, in a run of its own."""
    client = OneCall(tool.name, args)
    SHOW_FORM.set(asking.form)  # of this request's task
    run = agent.clone(llm=client, tools=[tool], on_ask=asking.ask, compaction=False).arun_stream("")
    seen = [each async for each in followed(run, asking)]
    for event in seen:
        if event.type is EventType.OBSERVATION:
            data = event.data
            return ToolOutcome(data["result"], data["is_error"], parts=client.parts, value=data.get("value"))
    errors = (each.content for each in seen if each.type is EventType.ERROR)
    return ToolOutcome(next(errors, "It failed."), is_error=True)


def _of_one_tool(agent: Agent) -> Agent:
    """An agent whose runs have one of its tools, for which nobody reads its prompt; its rules are for all."""
    rules = replace(agent._kit.permissions.rules, shared=True)
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


def _as_tool(name: str, agent: Agent) -> Any:
    about = f"Give a task to the agent {name}. {agent.description}".strip()
    return types.Tool(name=name, description=about, input_schema=_TASK)
