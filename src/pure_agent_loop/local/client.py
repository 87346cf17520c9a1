"""The client for the embedded model: it makes a small model act, and looks like any other client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from pure_agent_loop.errors import LLMError
from pure_agent_loop.llm.base import BaseLLMClient
from pure_agent_loop.llm.openai_client import OpenAIClient
from pure_agent_loop.llm.response import LLMResponse, assembled
from pure_agent_loop.llm.values import Delta, TokenUsage, ToolCallDelta
from pure_agent_loop.local.action import (
    CLEAR_RESEMBLANCE,
    VOTES,
    Choice,
    Message,
    Option,
    choice_for,
    mean_votes,
)
from pure_agent_loop.local.answer import (
    answer_messages,
    has_failed,
    is_true_to,
    plain_answer,
    worth_a_sentence,
)
from pure_agent_loop.local.arguments import Arguments, arguments_for, from_elsewhere, parse_answer, parse_text
from pure_agent_loop.local.engine import models
from pure_agent_loop.local.engine.fetch import Progress, quiet
from pure_agent_loop.local.engine.lease import Lease
from pure_agent_loop.local.engine.shared import ServerSettings, join_server
from pure_agent_loop.local.examples import ToolSpec, has_written_examples, read_tools
from pure_agent_loop.local.plan import Step, file_before, names_files, plan_for, without_orders
from pure_agent_loop.local.relevance import best_tool
from pure_agent_loop.local.several import Request, requests_in
from pure_agent_loop.local.turns import Turn, flatten, read_turn

Call = tuple[str, dict[str, Any] | str]

TINY_PARAMETERS = 300_000_000
# The engine closes a connection after a streamed answer without saying so; the next request on it would fail.
ONE_REQUEST_A_CONNECTION = {"Connection": "close"}
_ARGUMENT_TOKENS = 200
_PLACE_TOKENS = 24
_SENTENCE_TOKENS = 80
_TALK_TOKENS = 512
# Fields of the caller that speak of tools; the server never sees the tools.
_ABOUT_TOOLS = ("tools", "tool_choice", "parallel_tool_calls")
# Templates with a thinking mode must not think where the next token is the vote; others ignore it.
_NO_THINKING = {"chat_template_kwargs": {"enable_thinking": False}}


class LocalClient(BaseLLMClient):
    """A model whose template may know no tools, made to use them. See `action` for how.

    What a question orders by its build is done step by step. Else it takes one tool step for each question:
    after a tool's result it always answers.

    Args:
        inner: The client of a server that returns log-probabilities and obeys JSON schemas (llama.cpp does).
        name: What the model is called.
        tiny: The model is too small to be trusted with copying: arguments are pieces of the question and
            answers are checked against the result.
        on_close: Called once by `aclose`.
        context_window: Tokens of the window the server was started with.
    """

    def __init__(
        self,
        inner: BaseLLMClient,
        *,
        name: str = "local",
        tiny: bool = True,
        on_close: Callable[[], None] | None = None,
        context_window: int | None = None,
    ) -> None:
        self.name = name
        self.context_window = context_window
        self._inner = inner
        self._tiny = tiny
        self._on_close = on_close
        self._bias: dict[str, list[float]] = {}

    @property
    def is_tiny(self) -> bool:
        """True if the model is too small for real work."""
        return self._tiny

    async def chat(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, **kwargs: Any
    ) -> LLMResponse:
        """Answer in one piece. See `BaseLLMClient.chat`."""
        return await assembled(self.chat_stream(messages, tools, **kwargs))

    async def chat_stream(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, **kwargs: Any
    ) -> AsyncIterator[Delta]:
        """Answer piece by piece: words, or tool calls. See `BaseLLMClient.chat_stream`."""
        turn = read_turn(messages)
        specs = [] if kwargs.get("tool_choice") == "none" else read_tools(tools or ())
        several = kwargs.get("parallel_tool_calls") is not False
        step = _Step(self._inner, {k: v for k, v in kwargs.items() if k not in _ABOUT_TOOLS})
        following = _next_step(turn, specs)
        if following is not None:
            deltas = _call_one(messages, following)
        elif turn.results and not turn.answered:
            deltas = self._answer(step, turn)
        elif specs and turn.question and not turn.answered:
            deltas = self._act(step, messages, turn.question, specs, several)
        else:
            deltas = step.talk(flatten(messages))
        async for delta in deltas:
            yield delta

    async def aclose(self) -> None:
        """Close the connections and let go of the server."""
        await self._inner.aclose()
        if self._on_close is not None:
            self._on_close()

    async def _act(
        self, step: _Step, messages: list[Message], question: str, tools: list[ToolSpec], several: bool
    ) -> AsyncIterator[Delta]:
        """Choose; then call tools, or talk."""
        tool = await self._pick(step, question, tools)
        if tool is None:
            async for delta in step.talk(flatten(messages)):
                yield delta
            return
        unknown = [] if not several or has_written_examples(tool) else _unknown(tools)
        requests = requests_in(question, unknown, tool) if unknown else [Request(tool, question)]
        for i, (name, arguments) in enumerate(await self._calls(step, requests, question)):
            yield Delta(tool_calls=(ToolCallDelta(i, _call_id(messages, i), name, arguments),))
        yield Delta(finish_reason="tool_calls", usage=step.usage, raw={"requests": step.requests})

    async def _calls(self, step: _Step, requests: list[Request], question: str) -> list[Call]:
        """The calls one after another, each once; later ones may mean the values of earlier ones."""
        calls: list[Call] = []
        for request in requests:
            before = [arguments for _, arguments in calls if isinstance(arguments, dict)]
            elsewhere = from_elsewhere(request.tool, request.lacking, question, self._tiny, before)
            call = (request.tool.name, await self._arguments(step, request.tool, request.text, elsewhere))
            if call not in calls:
                calls.append(call)
        return calls

    async def _pick(self, step: _Step, question: str, tools: list[ToolSpec]) -> ToolSpec | None:
        """By words among tools never seen before, by votes among those with written examples."""
        known = [tool for tool in tools if has_written_examples(tool)]
        # "Read a.txt" is no matter for a tool that reads something else.
        others = [] if known and names_files(question) else _unknown(tools)
        found = best_tool(question, others)
        if not known:
            return found
        choice = choice_for(known)
        if found is not None and max(choice.resemblance(question)[:-1]) < CLEAR_RESEMBLANCE:
            return found
        return (await self._choose(step, question, choice)).tool

    async def _choose(self, step: _Step, question: str, choice: Choice) -> Option:
        votes = await step.vote(choice, question)
        bias = self._bias.get(choice.key)
        if bias is None:
            probes = [await step.vote(choice, probe) for probe in choice.probes]
            bias = self._bias[choice.key] = mean_votes(probes) if probes else [0.0] * len(votes)
        return choice.decide(question, votes, bias)

    async def _arguments(
        self, step: _Step, tool: ToolSpec, question: str, elsewhere: Mapping[str, Any]
    ) -> dict[str, Any] | str:
        arguments = arguments_for(tool, question, self._tiny, elsewhere)
        given = arguments.only_choice
        said: dict[str, Any] | str = {}
        if given is None:
            said = await step.fill(arguments)
            again = arguments.corrected(said)
            said = said if again is None else await step.fill(again)
        return arguments.finished(await step.complete(arguments, said if given is None else given))

    async def _answer(self, step: _Step, turn: Turn) -> AsyncIterator[Delta]:
        """Answer from the results: in the model's words if they can be trusted, else in ours."""
        request = answer_messages(turn.question, turn.results)
        if not self._tiny:
            async for delta in step.talk(request):
                yield delta
            return
        text = plain_answer(turn.question, turn.results)
        if worth_a_sentence(turn.results):
            said = await step.ask(request, max_tokens=_SENTENCE_TOKENS)
            if is_true_to(said.content or "", turn.question, turn.results):
                text = (said.content or "").strip()
        yield Delta(text=text)
        yield Delta(finish_reason="stop", usage=step.usage)


def _next_step(turn: Turn, tools: list[ToolSpec]) -> Step | None:
    """The next call that the question orders by its build; none once one of them has failed."""
    if turn.answered or not turn.question or not tools or any(has_failed(r) for r in turn.results):
        return None
    steps = plan_for(turn.question, tools, file_before(turn.before, tools))
    done = [result.tool for result in turn.results]
    # Results of other calls than the planned ones mean that something else was begun.
    as_planned = done == [step.tool.name for step in steps[: len(done)]]
    return steps[len(done)] if as_planned and len(done) < len(steps) else None


async def _call_one(messages: list[Message], step: Step) -> AsyncIterator[Delta]:
    yield Delta(tool_calls=(ToolCallDelta(0, _call_id(messages, 0), step.tool.name, step.arguments),))
    yield Delta(finish_reason="tool_calls", raw={"requests": 0})


def _call_id(messages: list[Message], number: int) -> str:
    """An id that no other step has: the history only grows, so its length tells the steps apart."""
    return f"call_local_{len(messages)}" + (f"_{number}" if number else "")


def _unknown(tools: list[ToolSpec]) -> list[ToolSpec]:
    """The tools that are chosen by their words: no examples were written for them.

    Among the starter tools, those that change files or run something are called by clear orders only.
    """
    others = [tool for tool in tools if not has_written_examples(tool)]
    return others if len(others) == len(tools) else without_orders(others)


class _Step:
    """The requests of one answer to the loop, and what they cost together."""

    def __init__(self, inner: BaseLLMClient, options: dict[str, Any]) -> None:
        self._inner = inner
        self._options = options
        self.usage: TokenUsage | None = None
        self.requests = 0

    async def ask(self, messages: list[Message], **fields: Any) -> LLMResponse:
        """A request of our own, at temperature 0."""
        kept = {k: v for k, v in self._options.items() if k.startswith("extra_") and k != "extra_body"}
        self.requests += 1
        response = await self._inner.chat(
            messages, None, **kept, temperature=0, **fields, extra_body=_NO_THINKING
        )
        self._count(response.usage)
        return response

    async def vote(self, choice: Choice, question: str) -> list[float]:
        """What the model would say next, as votes for the options."""
        response = await self.ask(choice.messages(question), max_tokens=1, logprobs=True, top_logprobs=VOTES)
        return choice.votes(response.raw)

    async def fill(self, arguments: Arguments) -> dict[str, Any] | str:
        """The arguments as the model writes them."""
        messages = arguments.messages()
        limits = {"max_tokens": _ARGUMENT_TOKENS}
        try:
            said = await self.ask(messages, **limits, response_format=arguments.response_format())
        except LLMError as error:
            if error.kind != "bad_request":
                raise
            # The server cannot turn this schema into a grammar; any JSON object is better than no call.
            said = await self.ask(messages, **limits, response_format={"type": "json_object"})
        return parse_answer(said.content)

    async def complete(self, arguments: Arguments, values: dict[str, Any] | str) -> dict[str, Any] | str:
        """The same values, with the state or country behind places that a tool wants so."""
        completed: dict[str, Any] = {}
        for name in arguments.incomplete(values):
            messages, form = arguments.completion(name, values[name])  # type: ignore[index]
            said = await self.ask(messages, max_tokens=_PLACE_TOKENS, response_format=form)
            completed[name] = parse_text(said.content) or values[name]  # type: ignore[index]
        return {**values, **completed} if completed else values  # type: ignore[dict-item]

    async def talk(self, messages: list[Message]) -> AsyncIterator[Delta]:
        """An answer in words, as it is written, with the caller's own options."""
        options = {"max_tokens": _TALK_TOKENS, **self._options}
        options["extra_body"] = {**_NO_THINKING, **(options.get("extra_body") or {})}
        self.requests += 1
        async for delta in self._inner.chat_stream(messages, None, **options):
            self._count(delta.usage)
            yield delta._replace(usage=None)
        yield Delta(usage=self.usage, raw={"requests": self.requests})

    def _count(self, usage: TokenUsage | None) -> None:
        if usage is not None:
            self.usage = usage if self.usage is None else self.usage + usage


def open_local(
    model: str | None = None, on_progress: Progress = quiet, settings: ServerSettings | None = None
) -> LocalClient:
    """A client for a model on this machine: fetches the file if needed, starts or joins its server.

    Blocks until the model is loaded; call it outside the event loop, or in a thread.

    Args:
        model: A name of the table in `models`, the path of a ``.gguf`` file, or None for the default.
        on_progress: Called with short sentences meant for a person.
        settings: How to start the server.

    Returns:
        A client that is ready. `LocalClient.aclose` lets go of the server; so does the end of the process.

    Raises:
        ConfigError: No such model or file, or it is no GGUF file.
        MissingExtraError: The engine is not installed.
        LLMError: The download or the server failed.
    """
    wanted = model or models.default_model()
    path = models.resolve(wanted) if models.is_path(wanted) else models.pull(wanted, on_progress)
    lease = join_server(path, on_progress, settings)
    try:
        return _client_for(lease, path.stem, (settings or ServerSettings()).context)
    except BaseException:
        lease.release()
        raise


def _client_for(lease: Lease, name: str, context: int) -> LocalClient:
    state = lease.state
    inner = OpenAIClient(
        name, api_key=state.key, base_url=f"{state.url}/v1", default_headers=ONE_REQUEST_A_CONNECTION
    )
    tiny = state.parameters < TINY_PARAMETERS
    return LocalClient(inner, name=name, tiny=tiny, on_close=lease.release, context_window=context)
