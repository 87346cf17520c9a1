"""A server of others as a toolset: ``Agent(tools=[MCPServer(command=["uvx", "mcp-server-time"])])``."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.llm.base import ChatModel
from pure_agent_loop.mcp.asking import Asking
from pure_agent_loop.mcp.connection import PATIENCE, ServerError, ping
from pure_agent_loop.mcp.in_use import InUse, Prompts, Tools, all_pages, run_here, tell_person, teller
from pure_agent_loop.mcp.offered import (
    MOST_TOOLS,
    Approvals,
    as_ours,
    changed_tool,
    digest_of,
    is_wanted,
    own_name,
)
from pure_agent_loop.mcp.results import items_of, joined, resource_of, value_of
from pure_agent_loop.mcp.settings import OAuth, ServerSettings, default_name
from pure_agent_loop.mcp.shown import MOST_SHOWN, Shown
from pure_agent_loop.mcp.words import say
from pure_agent_loop.support.terminal import one_line
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.support.threads import in_thread
from pure_agent_loop.tool import StepContext, Tool

if TYPE_CHECKING:
    from typing_extensions import Self

# What else goes along with a call as its ``_meta``. The trace context of OpenTelemetry the SDK adds itself.
REQUEST_META: ContextVar[Mapping[str, Any] | None] = ContextVar("pure_agent_loop_mcp_meta", default=None)
T = TypeVar("T")
ASK_SECONDS = 60.0  # for an answer about resources and prompts
MOST_LISTED = 200  # resources that a model is told of at once


@dataclass(frozen=True, slots=True)
class ServerState:
    """Where a server stands, for people.

    Args:
        name: Its name.
        place: Its command or address.
        state: ``idle`` before its first use, ``ready`` or ``failed``.
        error: What went wrong last; empty for nothing.
        tools: How many of its tools are used.
    """

    name: str
    place: str
    state: str
    error: str = ""
    tools: int = 0


class MCPServer:
    """A server as a toolset. It is started when a run first needs its tools, and ended with the last run.

    Whatever goes wrong with it is an error of a tool: the model reads a sentence about it, and the run goes
    on. To keep it for several runs, enter it around them: ``async with server: ...``.

    Args:
        command: The program and its arguments; it is talked to over its standard input and output.
        url: Where it is, instead.
        name: What it is called; the names of its tools begin with ``mcp__NAME__``. From its program or host
            if empty.
        transport: Of a `url`: ``http`` (streamable), or ``sse`` for older servers.
        env: Variables for the program. Of ours it gets only those that programs need to find the user's
            folders, such as PATH and HOME.
        inherit: Names of further variables of ours that it gets.
        cwd: The folder it runs in; this one if empty.
        headers: For each request to a `url`.
        prefix: What the names of its tools begin with instead.
        allow: Patterns of the names of tools that are used (``read_*``); None for all.
        deny: Patterns of names that are not.
        trusted: Believe what it says of its tools: one marked ``readOnlyHint`` needs no question, one marked
            ``idempotentHint`` may be repeated. ``destructiveHint`` is believed of everybody.
        pinned: Ask a person before a tool is used that says something else than when it was first seen.
        resources: Offer its resources as two tools.
        timeout: Seconds a call may take; None for the run's default.
        start_timeout: Seconds it may take to start and to say what it has.
        roots: Folders it is told to keep to.
        log_level: Which of its log messages become events of a run and lines of its log: those of ``debug``,
            ``info``, ``notice``, ``warning``, ``error`` and so on, and what is worse.
        oauth: How to log in at a `url`, other than in the browser as nobody it has known before.
        legacy: Speak a version of the protocol from before 2026, also if it knows a newer one. There a server
            can ask back (roots, questions, the model) in the middle of a call, and many do so only there.
        sampling: A model that it may ask. A person is asked about each question. None for no model.
        auth: Puts a login into each request to a `url`, an ``httpx2.Auth``; if None what `oauth` says, and
            what ``pal mcp login`` has kept.

    Raises:
        ConfigError: An argument cannot be used.
    """

    def __init__(
        self,
        command: Sequence[str] | None = None,
        *,
        url: str = "",
        name: str = "",
        transport: str = "http",
        env: Mapping[str, str] | None = None,
        inherit: Sequence[str] = (),
        cwd: str = "",
        headers: Mapping[str, str] | None = None,
        prefix: str | None = None,
        allow: Sequence[str] | None = None,
        deny: Sequence[str] = (),
        trusted: bool = False,
        pinned: bool = True,
        resources: bool = True,
        timeout: float | None = None,
        start_timeout: float = 30.0,
        roots: Sequence[str] = (),
        log_level: str = "warning",
        oauth: OAuth | None = None,
        legacy: bool = False,
        sampling: ChatModel | None = None,
        auth: Any = None,
    ) -> None:
        about = {key: value for key, value in locals().items() if key not in ("self", "sampling", "auth")}
        words = () if command is None else command
        about |= {"command": words, "env": env or {}, "headers": headers or {}}
        if not name and not isinstance(words, str):
            about["name"] = default_name(words, url)
        self._begin(ServerSettings(**about), sampling, auth)

    @classmethod
    def of(
        cls, settings: ServerSettings, *, sampling: ChatModel | None = None, auth: Any = None
    ) -> MCPServer:
        """A server of settings that were read from a file."""
        made = cls.__new__(cls)
        made._begin(settings, sampling, auth)
        return made

    def _begin(self, settings: ServerSettings, sampling: ChatModel | None, auth: Any) -> None:
        self.settings = settings
        self._sampling, self._auth = sampling, auth
        self._used: dict[asyncio.AbstractEventLoop, InUse] = {}
        self._last_error = ""
        self._search = own_name(settings.tool_prefix, "search_tools", set())
        self._shown = Shown(self.every, MOST_SHOWN, self._search, f"MCP: {settings.name}.")

    def __repr__(self) -> str:
        return f"MCPServer({self.settings.name!r}, {self.settings.shown!r})"

    @property
    def name(self) -> str:
        """What it is called."""
        return self.settings.name

    @property
    def state(self) -> ServerState:
        """Where it stands."""
        name, place = self.name, self.settings.shown
        for used in self._used.values():
            if used.connection.is_ready:
                return ServerState(name, place, "ready", tools=len(used.tools or ()))
            self._last_error = used.connection.last_error or self._last_error
        return ServerState(name, place, "failed" if self._last_error else "idle", self._last_error)

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        if loop not in self._used:
            self._used[loop] = InUse(self.settings, Asking(self.settings, self._sampling), self._login)
        self._used[loop].users += 1
        return self

    async def __aexit__(self, *error: object) -> None:
        loop = asyncio.get_running_loop()
        used = self._used[loop]
        used.users -= 1
        if not used.users:
            self._last_error = used.connection.last_error
            del self._used[loop]
            await used.connection.close()

    async def _login(self) -> Any:
        if self._auth is not None or not self.settings.url:
            return self._auth
        from pure_agent_loop.mcp.login import kept_login

        return await kept_login(self.settings)

    @property
    def _in_use(self) -> InUse:
        found = self._used.get(asyncio.get_running_loop())
        if found is None:
            raise ConfigError(f"The MCP server {self.name!r} is not in use here: async with server: ...")
        return found

    async def list(self, context: StepContext) -> Sequence[Tool]:
        """Its tools, or a search among them; if it cannot be used, one that says why and tries again."""
        return await self._shown.list(context)

    async def every(self, _: StepContext) -> Sequence[Tool]:
        """All its tools, without a search."""
        used = self._in_use
        async with used.listing:
            if used.tools is None or (used.is_stale and used.connection.is_ready):
                try:
                    await self._refresh(used)
                except ServerError as error:
                    tell_person(error.message)
                    used.tools = used.tools or [self._connect_tool(error.message)]
            return used.tools or ()

    async def look(self) -> None:
        """Start it if need be, also after it failed, and have it list its tools anew.

        Raises:
            ServerError: It cannot be used.
        """
        used = self._in_use
        async with used.listing:
            await self._refresh(used)

    async def _refresh(self, used: InUse) -> None:
        used.is_stale = False
        used.tools = await self._within(PATIENCE + 2 * self.settings.start_timeout, self._fetched(used))

    async def _ask(self, question: Callable[[Any], Awaitable[Any]]) -> Any:
        """Ask what is no call of a tool; those have deadlines of their own."""
        return await self._within(self.settings.timeout or ASK_SECONDS, self._in_use.connection.ask(question))

    async def _within(self, seconds: float, answer: Awaitable[T]) -> T:
        try:
            return await asyncio.wait_for(answer, seconds)
        except asyncio.TimeoutError:
            why = say("mcp_start_timeout", seconds=seconds)
            raise ServerError(say("mcp_failed", server=self.name, why=why)) from None

    async def _fetched(self, used: InUse) -> Tools:
        found = await used.connection.ask(partial(all_pages, "tools", MOST_TOOLS))
        raw = {each.name: each for each in found if is_wanted(self.settings, each.name)}
        digests = {name: digest_of(each) for name, each in raw.items()}
        changed = await self._changed(digests)
        taken = {self._search} if len(raw) > MOST_SHOWN // 2 else set[str]()
        tools: Tools = []
        used.news.clear()
        for name, each in raw.items():
            ours = as_ours(each, self.settings, self._call, taken)
            if isinstance(ours, str):
                tell_person(f"{self.name}: the tool {one_line(name)} is left out: {ours}")
            elif name in changed:
                used.news[name] = ours, digests[name]
                agree = partial(self._agree, {name: digests[name]})
                tools.append(changed_tool(ours, self.settings, agree, taken))
            else:
                tools.append(ours)
        client = await used.connection.client()
        used.has_prompts = client.server_capabilities.prompts is not None
        if self.settings.resources and client.server_capabilities.resources is not None:
            tools += self._resource_tools(taken)
        return tools

    async def _changed(self, digests: Mapping[str, str]) -> set[str]:
        if not self.settings.pinned:
            return set()
        try:
            return await in_thread(partial(Approvals(self.settings.identity).changed, digests))
        except Exception as error:  # whatever it is, nobody can say that they are the same
            raise ServerError(say("mcp_failed", server=self.name, why=safe_str(error))) from error

    async def _agree(self, digests: Mapping[str, str]) -> None:
        await in_thread(partial(Approvals(self.settings.identity).agree, digests, digests))
        self._in_use.is_stale = True

    @property
    def known_tools(self) -> Sequence[Tool]:
        """The tools it was found to have; none before it was asked."""
        return next((each.tools or () for each in self._used.values()), ())

    @property
    def news(self) -> Sequence[Tool]:
        """The tools that say something else than was agreed to, with what they say now."""
        return [tool for tool, _ in self._in_use.news.values()]

    async def agree(self) -> None:
        """Agree to what stands in `news`, as it was told; who calls it has shown that to a person."""
        await self._agree({name: digest for name, (_, digest) in self._in_use.news.items()})

    def _connect_tool(self, why: str) -> Tool:
        async def connect() -> str:
            await self.look()
            return say("mcp_connected", server=self.name, count=len(self._in_use.tools or ()))

        return Tool(
            connect,
            name=own_name(self.settings.tool_prefix, "connect", set()),
            description=say("mcp_connect", server=self.name, why=why),
            parameters={"type": "object", "properties": {}},
            read_only=True,
            polls=True,
        )

    def _resource_tools(self, taken: set[str]) -> Sequence[Tool]:
        none: dict[str, Any] = {"type": "object", "properties": {}}
        uri = {**none, "properties": {"uri": {"type": "string"}}, "required": ["uri"]}
        return [
            Tool(
                function,
                name=own_name(self.settings.tool_prefix, name, taken),
                description=description,
                parameters=parameters,
                read_only=self.settings.trusted,
                timeout=self.settings.timeout,
                untrusted=True,
            )
            for name, description, function, parameters in (
                ("list_resources", say("mcp_list_resources", server=self.name), self._resources_text, none),
                ("read_resource", say("mcp_read_resource", server=self.name), self.read, uri),
            )
        ]

    async def call(self, name: str, args: dict[str, Any]) -> Any:
        """Call one of its tools, by the name it has there."""
        return await self._call(name, **args)

    async def _call(self, tool: str, /, **arguments: Any) -> Any:
        used, run = self._in_use, run_here()
        with used.asking.during(run):
            result = await used.connection.ask(
                lambda client: client.call_tool(
                    tool, arguments, progress_callback=teller(run), meta=REQUEST_META.get()
                )
            )
        return value_of(result)

    async def resources(self) -> Sequence[tuple[str, str]]:
        """Addresses of what can be read, and templates of addresses, each with what it is."""
        ask = self._ask
        found = await ask(partial(all_pages, "resources", MOST_LISTED))
        templates = await ask(partial(all_pages, "resource_templates", MOST_LISTED))
        pairs = [(each.uri, each) for each in found] + [(each.uri_template, each) for each in templates]
        return [(one_line(uri), one_line(each.description or each.title or each.name)) for uri, each in pairs]

    async def _resources_text(self) -> str:
        rows = [f"- {uri}: {about}" for uri, about in await self.resources()]
        return "\n".join(rows) or say("mcp_no_resources")

    async def read(self, uri: str) -> Any:
        """What a resource holds: a text, or a list with images and files in it."""
        found = await self._ask(lambda client: client.read_resource(uri))
        return joined([resource_of(each) for each in found.contents])

    @property
    def known_prompts(self) -> Prompts:
        """The prompts that it was asked for last."""
        return next((each.prompts for each in self._used.values()), ())

    @property
    def has_prompts(self) -> bool:
        """Whether it says that it has prompts; False while it is not connected."""
        return self._in_use.has_prompts

    async def prompts(self) -> Prompts:
        """The prompts it has: name, what it is for, names of its arguments."""
        used = self._in_use
        found = await self._ask(partial(all_pages, "prompts", MOST_LISTED))
        used.prompts = [
            (each.name, one_line(each.description or ""), [arg.name for arg in each.arguments or ()])
            for each in found
        ]
        return used.prompts

    async def prompt(self, name: str, words: Sequence[str] = ()) -> str:
        """The text of a prompt.

        Args:
            words: Its arguments in order; what is left over belongs to the last one.
        """
        names = next((args for each, _, args in await self.prompts() if each == name), ())
        values = [*words[: len(names) - 1], " ".join(words[len(names) - 1 :])] if names else []
        args = dict(zip(names, filter(None, values), strict=False))
        try:
            found = await self._ask(lambda client: client.get_prompt(name, args))
        except ServerError as error:
            if len(args) == len(names):
                raise
            shown = one_line(" ".join(names).upper())
            raise ServerError(say("mcp_prompt_takes", error=error.message, names=shown)) from error
        items = [item for each in found.messages for item in items_of(each.content)]
        return "\n\n".join(each if isinstance(each, str) else repr(each) for each in items)

    async def complete(
        self, prompt: str, argument: str, begun: str, before: Mapping[str, str] | None = None
    ) -> Sequence[str]:
        """What an argument of a prompt may go on to, by what was typed of it and of those before it."""
        from mcp_types import PromptReference

        reference = PromptReference(type="ref/prompt", name=prompt)
        given = {"name": argument, "value": begun}
        found = await self._ask(lambda client: client.complete(reference, given, dict(before or {})))
        return [one_line(each) for each in found.completion.values[:MOST_LISTED]]

    async def ping(self) -> None:
        """Find out whether it answers.

        Raises:
            ServerError: It does not.
        """
        await self._ask(ping)
