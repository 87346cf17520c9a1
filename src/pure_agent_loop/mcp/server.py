"""An MCP server as a toolset: ``Agent(tools=[MCPServer(command=["uvx", "mcp-server-time"])])``."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.llm.base import ChatModel
from pure_agent_loop.mcp.approvals import Approvals, digest_of
from pure_agent_loop.mcp.asking import ServerRequests
from pure_agent_loop.mcp.connection import PATIENCE, ServerError, ping
from pure_agent_loop.mcp.lenient import left_out
from pure_agent_loop.mcp.progress import run_here, tell_person, teller
from pure_agent_loop.mcp.results import items_of, joined, resource_of, value_of
from pure_agent_loop.mcp.search import MAX_SHOWN, ToolSearch
from pure_agent_loop.mcp.settings import OAuth, ServerSettings, default_name
from pure_agent_loop.mcp.tools import MAX_TOOLS, changed_tool, convert_tool, is_wanted, unique_name
from pure_agent_loop.mcp.use import Prompts, ServerUse, Tools, all_pages
from pure_agent_loop.support.clock import within
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.terminal import one_line
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.support.threads import in_thread
from pure_agent_loop.tool import StepContext, Tool

if TYPE_CHECKING:
    from typing_extensions import Self

# Additional ``_meta`` of a call. The SDK itself adds the trace context of OpenTelemetry.
REQUEST_META: ContextVar[Mapping[str, Any] | None] = ContextVar("pure_agent_loop_mcp_meta", default=None)
T = TypeVar("T")
ASK_SECONDS = 60.0  # timeout of a request about resources or prompts
MAX_LISTED = 200  # maximum resources listed to a model at once


@dataclass(frozen=True, slots=True)
class ServerState:
    """The state of a server, for people.

    Args:
        place: The server's command or address.
        state: ``idle`` before its first use, ``ready`` or ``failed``.
        error: The last error; empty for none.
    """

    name: str
    place: str
    state: str
    error: str = ""
    tools: int = 0


class MCPServer:
    """An MCP server as a toolset. The server starts when a run first needs its tools, and stops after the
    last run.

    Server errors are tool errors: the model reads a sentence about the error, and the run continues.
    To keep the server running between runs, enter it around them: ``async with server: ...``.

    Args:
        command: The program and its arguments; it communicates over standard input and output.
        url: The server's URL, instead of a command.
        name: The server's name; tool names begin with ``mcp__NAME__``. Derived from the program or host if
            empty.
        transport: For a `url`: ``http`` (streamable), or ``sse`` for older servers.
        env: Variables for the program. From the current environment the program gets only the variables that
            locate the user's folders, such as PATH and HOME.
        inherit: Names of further variables that the program gets from the current environment.
        cwd: The working directory; the current one if empty.
        headers: HTTP headers for each request to a `url`.
        prefix: Replaces ``mcp__NAME__`` in the names of the server's tools.
        allow: Patterns of the tool names to use (``read_*``); None for all.
        deny: Patterns of the tool names not to use.
        trusted: Trust the server's hints: a tool marked ``readOnlyHint`` needs no approval, and a call
            of one marked ``idempotentHint`` may be repeated. Before a tool marked ``destructiveHint`` is
            used, a person is asked, unless a trusted ``readOnlyHint`` contradicts that hint.
        pinned: Ask a person before using a tool whose description has changed since it was first seen.
        resources: Expose the server's resources as two tools.
        timeout: Seconds per call; None for the run's default.
        start_timeout: Seconds for the start and for listing the tools.
        roots: Folders that the server should stay within.
        log_level: Minimum level (``debug``, ``info``, ``notice``, ``warning``, ``error`` and so on) of the
            server's log messages that become events of a run and lines of the log file.
        oauth: Settings of the login at a `url`, if the default login in the browser does not fit.
        legacy: Use a protocol version from before 2026, even if the server supports a newer one. Many servers
            send requests to the client (roots, questions, sampling) only in those versions.
        sampling: A model that the server may query. A person approves each query. If None, the server
            cannot query a model.
        auth: An ``httpx2.Auth`` that adds a login to each request to a `url`; if None, `oauth` or the login
            that ``pal mcp login`` has stored is used.

    Raises:
        ConfigError: An argument is invalid.
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
        values = {key: value for key, value in locals().items() if key not in ("self", "sampling", "auth")}
        words = () if command is None else command
        values |= {"command": words, "env": env or {}, "headers": headers or {}}
        if not name and not isinstance(words, str):
            values["name"] = default_name(words, url)
        self._begin(ServerSettings(**values), sampling, auth)

    @classmethod
    def of(
        cls, settings: ServerSettings, *, sampling: ChatModel | None = None, auth: Any = None
    ) -> MCPServer:
        """Create a server from settings that were read from a file."""
        made = cls.__new__(cls)
        made._begin(settings, sampling, auth)
        return made

    def _begin(self, settings: ServerSettings, sampling: ChatModel | None, auth: Any) -> None:
        self.settings = settings
        self._sampling, self._auth = sampling, auth
        self._used: dict[asyncio.AbstractEventLoop, ServerUse] = {}
        self._last_error = ""
        self._search = unique_name(settings.tool_prefix, "search_tools", set())
        self._shown = ToolSearch(self.every, MAX_SHOWN, self._search, f"MCP: {settings.name}.")

    def __repr__(self) -> str:
        return f"MCPServer({self.settings.name!r}, {self.settings.shown!r})"

    @property
    def name(self) -> str:
        """The server's name."""
        return self.settings.name

    @property
    def state(self) -> ServerState:
        """The server's state."""
        name, place = self.name, self.settings.shown
        for used in self._used.values():
            if used.connection.is_ready:
                return ServerState(name, place, "ready", tools=len(used.tools or ()))
            self._last_error = used.connection.last_error or self._last_error
        return ServerState(name, place, "failed" if self._last_error else "idle", self._last_error)

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        if loop not in self._used:
            self._used[loop] = ServerUse(
                self.settings, ServerRequests(self.settings, self._sampling), self._login
            )
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
        from pure_agent_loop.mcp.login import stored_login

        return await stored_login(self.settings)

    @property
    def _current_use(self) -> ServerUse:
        used = self._used.get(asyncio.get_running_loop())
        if used is None:
            raise ConfigError(
                f"The MCP server {self.name!r} is not open. Enter it first: async with server: ..."
            )
        return used

    async def list(self, context: StepContext) -> Sequence[Tool]:
        """Return the tools or a search tool; after a failure, a tool that gives the reason and retries."""
        return await self._shown.list(context)

    async def every(self, context: StepContext) -> Sequence[Tool]:
        """Return all tools of the server, without a search tool."""
        used = self._current_use
        async with used.listing:
            if used.tools is None or (used.is_stale and used.connection.is_ready):
                try:
                    await self._refresh(used)
                    for text in used.left_out:
                        context.tell(f"{self.name}: {text}")
                except ServerError as error:
                    used.tools = used.tools or [self._connect_tool(error.message)]
            if used.connection.failure:
                context.tell(used.connection.failure)
            return used.tools or ()

    async def look(self) -> None:
        """Start the server if needed, even after a failure, and list its tools again.

        Raises:
            ServerError: The server cannot be used.
        """
        used = self._current_use
        async with used.listing:
            await self._refresh(used)

    async def _refresh(self, used: ServerUse) -> None:
        used.is_stale = False
        used.tools = await self._within(PATIENCE + 2 * self.settings.start_timeout, self._fetched(used))

    async def _ask(self, question: Callable[[Any], Awaitable[Any]]) -> Any:
        """Send a request that is not a tool call; tool calls have their own deadlines."""
        return await self._within(
            self.settings.timeout or ASK_SECONDS, self._current_use.connection.ask(question)
        )

    async def _within(self, seconds: float, answer: Awaitable[T]) -> T:
        try:
            return await within(seconds, answer)
        except TimeoutError:
            why = model_text("mcp_start_timeout", seconds=seconds)
            raise ServerError(model_text("mcp_failed", server=self.name, why=why)) from None

    async def _fetched(self, used: ServerUse) -> Tools:
        used.left_out = notes = list[str]()
        entries = await used.connection.ask(partial(all_pages, "tools", MAX_TOOLS, notes))
        selected = (tool for tool in entries if is_wanted(self.settings, tool.name))
        raw, digests = _with_digests(selected, notes)
        changed = await self._changed(digests)
        taken = {self._search} if len(raw) > MAX_SHOWN // 2 else set[str]()
        tools: Tools = []
        used.changed_tools.clear()
        for name, entry in raw.items():
            try:
                ours = convert_tool(entry, self.settings, self._call, taken)
            except ConfigError as error:
                ours = safe_str(error)
            if isinstance(ours, str):
                notes.append(_left_out(name, ours))
            elif name in changed:
                used.changed_tools[name] = ours, digests[name]
                agree = partial(self._agree, {name: digests[name]})
                tools.append(changed_tool(ours, self.settings, agree, taken))
            else:
                tools.append(ours)
        client = await used.connection.client()
        used.has_prompts = client.server_capabilities.prompts is not None
        if self.settings.resources and client.server_capabilities.resources is not None:
            tools += self._resource_tools(taken)
        return tools

    def _tell(self, notes: Sequence[str]) -> None:
        for text in notes:
            tell_person(f"{self.name}: {text}")

    async def _changed(self, digests: Mapping[str, str]) -> set[str]:
        if not self.settings.pinned:
            return set()
        try:
            return await in_thread(partial(Approvals(self.settings.identity).changed, digests))
        except Exception as error:  # after any failure the digests cannot be compared
            raise ServerError(model_text("mcp_failed", server=self.name, why=safe_str(error))) from error

    async def _agree(self, digests: Mapping[str, str]) -> None:
        await in_thread(partial(Approvals(self.settings.identity).agree, digests, digests))
        self._current_use.is_stale = True

    @property
    def left_out(self) -> Sequence[str]:
        """The tools that cannot be used, with the reasons, as of the last listing."""
        return next((used.left_out for used in self._used.values()), ())

    @property
    def known_tools(self) -> Sequence[Tool]:
        """The tools as of the last listing; empty before the first listing."""
        return next((used.tools or () for used in self._used.values()), ())

    @property
    def changed_tools(self) -> Sequence[Tool]:
        """The tools whose descriptions differ from the approved ones, with the new descriptions."""
        return [tool for tool, _ in self._current_use.changed_tools.values()]

    @property
    def news(self) -> Sequence[Tool]:
        """The former name of `changed_tools`."""
        return self.changed_tools

    async def agree(self) -> None:
        """Approve the new descriptions in `changed_tools`. Call this only after a person has seen them."""
        await self._agree({name: digest for name, (_, digest) in self._current_use.changed_tools.items()})

    def _connect_tool(self, why: str) -> Tool:
        async def connect() -> str:
            await self.look()
            return model_text("mcp_connected", server=self.name, count=len(self._current_use.tools or ()))

        return Tool(
            connect,
            name=unique_name(self.settings.tool_prefix, "connect", set()),
            description=model_text("mcp_connect", server=self.name, why=why),
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
                name=unique_name(self.settings.tool_prefix, name, taken),
                description=description,
                parameters=parameters,
                read_only=self.settings.trusted,
                timeout=self.settings.timeout,
                untrusted=True,
            )
            for name, description, function, parameters in (
                (
                    "list_resources",
                    model_text("mcp_list_resources", server=self.name),
                    self._resources_text,
                    none,
                ),
                ("read_resource", model_text("mcp_read_resource", server=self.name), self.read, uri),
            )
        ]

    async def call(self, name: str, args: dict[str, Any]) -> Any:
        """Call a tool by its name on the server."""
        return await self._call(name, False, **args)

    async def _call(self, tool: str, is_repeatable: bool, /, **arguments: Any) -> Any:
        used, run = self._current_use, run_here()
        with used.requests.during(run):
            result = await used.connection.ask(
                lambda client: client.call_tool(
                    tool, arguments, progress_callback=teller(run), meta=REQUEST_META.get()
                ),
                is_repeatable,
            )
        return value_of(result)

    async def resources(self) -> Sequence[tuple[str, str]]:
        """Return the URIs of the server's resources and templates, each with a description."""
        ask, notes = self._ask, list[str]()
        entries = await ask(partial(all_pages, "resources", MAX_LISTED, notes))
        templates = await ask(partial(all_pages, "resource_templates", MAX_LISTED, notes))
        self._tell(notes)
        pairs = [(entry.uri, entry) for entry in entries] + [
            (entry.uri_template, entry) for entry in templates
        ]
        return [
            (one_line(uri), one_line(entry.description or entry.title or entry.name)) for uri, entry in pairs
        ]

    async def _resources_text(self) -> str:
        rows = [f"- {uri}: {description}" for uri, description in await self.resources()]
        return "\n".join(rows) or model_text("mcp_no_resources")

    async def read(self, uri: str) -> Any:
        """Return the content of a resource: a string, or a list with images and files."""
        result = await self._ask(lambda client: client.read_resource(uri))
        return joined([*map(resource_of, result.contents), *left_out(result)])

    @property
    def known_prompts(self) -> Prompts:
        """The prompts as of the last listing."""
        return next((used.prompts for used in self._used.values()), ())

    @property
    def has_prompts(self) -> bool:
        """True if the server offers prompts; False while it is not connected."""
        return self._current_use.has_prompts

    async def prompts(self) -> Prompts:
        """Return the server's prompts: name, description, argument names."""
        used = self._current_use
        notes = list[str]()
        entries = await self._ask(partial(all_pages, "prompts", MAX_LISTED, notes))
        self._tell(notes)
        used.prompts = [
            (entry.name, one_line(entry.description or ""), [arg.name for arg in entry.arguments or ()])
            for entry in entries
        ]
        return used.prompts

    async def prompt(self, name: str, words: Sequence[str] = ()) -> str:
        """Return the text of a prompt.

        Args:
            words: The prompt's arguments in order; extra words are added to the last argument.
        """
        names = next((args for known, _, args in await self.prompts() if known == name), ())
        values = [*words[: len(names) - 1], " ".join(words[len(names) - 1 :])] if names else []
        args = dict(zip(names, filter(None, values), strict=False))
        try:
            result = await self._ask(lambda client: client.get_prompt(name, args))
        except ServerError as error:
            if len(args) == len(names):
                raise
            shown = one_line(" ".join(names).upper())
            raise ServerError(model_text("mcp_prompt_takes", error=error.message, names=shown)) from error
        self._tell(left_out(result))
        items = [item for entry in result.messages for item in items_of(entry.content)]
        return "\n\n".join(item if isinstance(item, str) else repr(item) for item in items)

    async def complete(
        self, prompt: str, argument: str, begun: str, before: Mapping[str, str] | None = None
    ) -> Sequence[str]:
        """Return completions for a prompt's argument, given its typed text and the arguments before it."""
        from mcp_types import PromptReference

        reference = PromptReference(type="ref/prompt", name=prompt)
        typed = {"name": argument, "value": begun}
        result = await self._ask(lambda client: client.complete(reference, typed, dict(before or {})))
        return [one_line(value) for value in result.completion.values[:MAX_LISTED]]

    async def ping(self) -> None:
        """Check that the server answers.

        Raises:
            ServerError: The server does not answer.
        """
        await self._ask(ping)


def _with_digests(tools: Iterable[Any], notes: list[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return tools and their digests, by name. Append the reasons for left-out tools to `notes`."""
    raw, digests = dict[str, Any](), dict[str, str]()
    for tool in tools:
        try:
            digest = digest_of(tool)
        except ValueError as error:
            notes.append(_left_out(tool.name, safe_str(error)))
            continue
        if raw.setdefault(tool.name, tool) is tool:
            digests[tool.name] = digest
        else:
            notes.append(_left_out(tool.name, model_text("mcp_same_name")))
    return raw, digests


def _left_out(tool: str, why: str) -> str:
    return model_text("mcp_left_out", what="tools", name=one_line(tool), why=one_line(why))
