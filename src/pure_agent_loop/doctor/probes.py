"""The probes that `examine` runs, in order, each with its name, its request and its reading."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Literal, NamedTuple

from pure_agent_loop.doctor import answers, calls, formats, thinking
from pure_agent_loop.doctor.calls import CALL_TOKENS, NATIVE, QUESTION, TOOLS, TWO_CITIES, calls_and_results
from pure_agent_loop.doctor.session import Message, ProbeResponse, ProbeSession, user
from pure_agent_loop.doctor.values import Found, Target

Run = Callable[[ProbeSession], Awaitable[Found]]

PLAIN_ANSWER = "plain answer"
_FORCED = {"type": "function", "function": {"name": "get_weather"}}
_ONE_WORD = user("Say it in one word.")
_SCHEMA = {"type": "json_schema", "json_schema": {"name": "answer", "schema": formats.SCHEMA}}
_SKY = "What colour is the sky on a clear day?"


class Probe(NamedTuple):
    """One question about a server.

    Args:
        name: Name of the probe and of its finding.
        run: Sends a request and reads the response; some probes send several requests, or none.
        clients: The clients for which the probe is meant: all, only the client for chat completions, or only
            the others.
    """

    name: str
    run: Run
    clients: Literal["all", "chat", "others"] = "all"

    def suits(self, target: Target) -> bool:
        """Return True if the probe suits the target's protocol."""
        return self.clients in ("all", "others" if target.protocol else "chat")


def ask(
    messages: list[Message],
    reading: Callable[[ProbeSession, ProbeResponse], Found],
    tools: list[dict[str, Any]] | None = None,
    **options: Any,
) -> Run:
    """Return the `run` function of a probe with one request; `options` are those of `ProbeSession.ask`."""

    async def run(session: ProbeSession) -> Found:
        return reading(session, await session.ask(messages, tools, **options))

    return run


FIRST: tuple[Probe, ...] = (
    Probe("model listed", answers.models),
    Probe("context size", answers.context),
    Probe("chat template", answers.template, "chat"),
    Probe(PLAIN_ANSWER, ask(user("Say hello in one short sentence."), answers.plain_answer)),
    Probe("streaming", ask(user("Count from one to ten in words."), answers.streaming, stream=True)),
)
REST: tuple[Probe, ...] = (
    Probe("temperature", answers.temperature),
    Probe("usage", answers.usage),
    Probe("usage in streams", answers.stream_usage),
    Probe("system message", ask(answers.ordered("system", "What is 2 + 2?"), answers.system_message)),
    Probe("developer role", answers.developer_role, "chat"),
    Probe("max_tokens", answers.max_tokens),
    Probe("max_completion_tokens", answers.max_completion_tokens, "chat"),
    Probe(NATIVE, ask(user(QUESTION), calls.tool_call, TOOLS, max_tokens=CALL_TOKENS)),
    Probe("tools reach the model", calls.tools_reach),
    Probe(
        "forced call",
        ask(
            user("Say hello to Oslo."), calls.forced_call, TOOLS, tool_choice=_FORCED, max_tokens=CALL_TOKENS
        ),
    ),
    Probe("parallel calls", ask(user(TWO_CITIES), calls.parallel_calls, TOOLS, max_tokens=CALL_TOKENS)),
    Probe(
        "history of two calls",
        ask(calls_and_results(TWO_CITIES, "Oslo", "Lima"), calls.two_results, TOOLS),
    ),
    Probe(
        "user after a result",
        ask([*calls_and_results(QUESTION, "Oslo"), *_ONE_WORD], calls.user_after_tool, TOOLS),
    ),
    Probe("image", formats.image),
    Probe("JSON schema", ask(user(_SKY), formats.json_schema, response_format=_SCHEMA)),
    Probe(
        "JSON object",
        ask(
            user(f"{_SKY} Answer as a JSON object with the key colour."),
            formats.json_object,
            response_format={"type": "json_object"},
        ),
        "chat",
    ),
    Probe("thinking shown", ask(user(thinking.PUZZLE), thinking.thinking_shown), "chat"),
    Probe("thinking switch", thinking.thinking_switch, "chat"),
    Probe("thinking returned", thinking.thinking_returned),
    Probe("thinking sent back", thinking.thinking_back),
    Probe("prompt cache", answers.prompt_cache),
    Probe("token count", answers.token_count, "others"),
)
# Tried in order, each only if no earlier mode works.
MODES: dict[str, Probe] = {
    "json": Probe("tool_mode json", partial(calls.act, mode="json")),
    "text": Probe("tool_mode text", partial(calls.act, mode="text")),
}
