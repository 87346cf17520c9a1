"""Refusals that name a way out, in every protocol: learned once, announced once, remembered."""

from __future__ import annotations

import base64
import random
import re
import struct
import zlib
from typing import Any

import pytest
from pydantic import BaseModel, Field

from llm_client_conformance import answer, call
from pure_agent_loop import Agent, EventType, Image, LLMError, LoopLimits, RetryConfig, Tool
from pure_agent_loop.llm import lessons
from tests.llm.protocols.refusing import (
    MODELS,
    Refusing,
    call_ids,
    limit,
    pictures,
    property_names,
    signatures,
)

ODD = {
    "type": "object",
    "properties": {
        "$filter": {"type": "string", "description": "OData"},
        "filter": {"type": "string"},
        "@filter": {"type": "string"},
        "rows": {"type": "array", "items": {"type": "object", "properties": {"größe": {"type": "number"}}}},
    },
    "required": ["$filter"],
}
GIVEN = {"$filter": "a eq 1", "filter": "b", "@filter": "c", "rows": [{"größe": 1.5}, {"größe": 2}]}
ONCE = RetryConfig(max_retries=0)


def png(shade: int, width: int = 1) -> bytes:
    """Return a picture; a different one for each shade."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, 1, 8, 0, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" + bytes([shade]) * width))
    return b"\x89PNG\r\n\x1a\n" + body + chunk(b"IEND", b"")


def coded(shade: int) -> str:
    return base64.b64encode(png(shade)).decode()


# -- rules: functions of a body that return the words of a refusal ----------------------------------------


def names_rule(kind: str, draw: random.Random | None = None) -> Any:
    pattern = r"[a-zA-Z0-9_.-]{1,64}"
    words = {
        "messages": "tools.0.custom.input_schema.properties: Property keys should match pattern "
        "'^[a-zA-Z0-9_.-]{1,64}$'",
        "gemini": "* GenerateContentRequest.tools[0].function_declarations[0].parameters.properties[$filter]"
        ": Invalid property name. Must start with a letter or an underscore.",
    }
    said = words.get(
        kind, "Invalid schema for function 'odd': property name '$filter' does not match pattern."
    )
    return lambda body: None if all(re.fullmatch(pattern, n) for n in property_names(body)) else said


def ids_rule(kind: str) -> Any:
    words = {
        "messages": "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
        "gemini": "Invalid value at 'contents[1].parts[0].function_call.id': at most 64 characters",
        "chat": "Invalid 'messages[1].tool_calls[0].id': string too long. Expected a string with maximum "
        "length 64, but got a string with length 90 instead.",
        "responses": "Invalid 'input[1].call_id': string too long. Expected a string with maximum length 64, "
        "but got a string with length 90 instead.",
    }
    return lambda body: words[kind] if any(len(i) > 64 for i in call_ids(body)) else None


def limit_rule(kind: str, most: int = 8192) -> Any:
    words = (
        f"max_tokens: {{}} > {most}, which is the maximum allowed number of output tokens for claude-4-2025"
    )

    def rule(body: Any) -> str | None:
        return words.format(limit(body)) if (limit(body) or 0) > most else None

    return rule


def exact_ids_rule(kind: str) -> Any:
    words = "Tool call id was call_x but must be a-z, A-Z, 0-9, with a length of 9."
    own = r"|call_\d+" if kind == "gemini" else ""  # its signed parts go back unchanged
    form = re.compile("[a-zA-Z0-9]{9}" + own)
    return lambda body: None if all(map(form.fullmatch, call_ids(body))) else words


def window_rule(kind: str) -> Any:
    """Refuse what exceeds a window of 50,000 tokens, with a prompt of 1,200."""
    words = (
        "This model's maximum context length is 50000 tokens. However, you requested {} tokens (1200 in the "
        "messages, {} in the completion). Please reduce the length of the messages or completion."
    )

    def rule(body: Any) -> str | None:
        most = limit(body) or 0
        return words.format(1200 + most, most) if most > 48_800 else None

    return rule


def signed_rule(kind: str) -> Any:
    """Refuse the signatures of the first request that has any, as after a change of keys."""
    old: set[str] = set()
    words = {
        "messages": "messages.1.content.0: Invalid `signature` in `thinking` block",
        "gemini": "Unable to submit request because Thought signature is not valid.",
        "chat": "Corrupted thought signature.",
        "responses": "The encrypted content gAAA...Rg== could not be verified.",
    }

    def rule(body: Any) -> str | None:
        old.update(() if old else signatures(body))
        return words[kind] if old & signatures(body) else None

    return rule


def pictures_rule(kind: str, most: int = 3) -> Any:
    return lambda body: (
        f"too many images and documents: {len(pictures(body))} + 0 > {most}"
        if len(pictures(body)) > most
        else None
    )


RULES = {
    "names": names_rule,
    "ids": ids_rule,
    "exact ids": exact_ids_rule,
    "limit": limit_rule,
    "window": window_rule,
    "signed": signed_rule,
    "pictures": pictures_rule,
}


# -- conversations -----------------------------------------------------------------------------------------


def play(shots: int) -> Any:
    """Return the model's part: some pictures, then a call with odd arguments, then an answer."""

    def next_item(body: Any) -> Any:
        text = repr(body)
        taken = text.count("THE SHOT")
        if taken < shots:
            return answer("", call("shot", number=taken), reasoning=f"thought {taken}")
        if "SEEN" not in text and (sent := property_names(body)):
            own = {re.sub("_[0-9a-f]{8}$", "", name): name for name in sent}
            size = own.get("größe") or own["p_gr_e"]
            given = {name: GIVEN[key] for key, name in zip(GIVEN, sent, strict=False) if key != "rows"}
            return answer("", call("odd", **given, rows=[{size: 1.5}, {size: 2}]), reasoning="hm")
        return "done"

    return next_item


def tools(got: list[Any]) -> list[Any]:
    def odd(**given: Any) -> str:
        got.append(given)
        return "SEEN"

    def shot(number: int) -> list[Any]:
        return ["THE SHOT", Image(data=png(number))]

    shape = {"type": "object", "properties": {"number": {"type": "integer"}}}
    return [
        Tool(odd, name="odd", description="d", parameters=ODD),
        Tool(shot, name="shot", description="Take a picture.", parameters=shape),
    ]


def history() -> list[dict[str, Any]]:
    """Return a history of another server, with ids that no strict server takes."""
    ids = ["x" * 89 + end for end in "ab"] + ["short"]
    calls = [{"id": i, "type": "function", "function": {"name": "odd", "arguments": "{}"}} for i in ids]
    results = [{"role": "tool", "tool_call_id": i, "content": f"result of {i[-1]}"} for i in ids]
    said = {"role": "assistant", "content": None, "tool_calls": calls}
    return [{"role": "user", "content": "q"}, said, *results, {"role": "assistant", "content": "ok"}]


def talk(client: Any, got: list[Any]) -> tuple[Agent, Any, list[str]]:
    """Run a conversation; return the agent, the last event, and the notices of refusals."""
    agent = Agent(llm=client, tools=tools(got), retry=ONCE, limits=LoopLimits(max_steps=60))
    events = list(agent.run_stream("go", messages=history()))
    said = [event.data["message"] for event in events if event.type is EventType.NOTICE]
    return agent, events[-1], [text for text in said if "rejected" in text]


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("rule", RULES)
def test_refusal_in_any_protocol_is_learned_and_remembered(kind, rule):
    got: list[Any] = []
    with Refusing(kind, [RULES[rule](kind)], play(4)) as server:
        client = server.client(thinking_level="low")
        seen = [talk(client, got), talk(client, got)]
    first, second = [len(notices) for _, _, notices in seen]
    assert [end.data["stop_reason"] for _, end, _ in seen] == ["completed"] * 2
    assert got == [GIVEN, GIVEN]
    # Strict servers have limits of their own; each is one lesson more.
    own = {"messages": 1, "responses": 1}.get(kind, 0)
    is_kept = (kind, rule) in [("messages", "names"), ("messages", "ids"), ("responses", "ids")]
    assert first == own + (0 if is_kept or (kind != "messages" and rule in ("limit", "window")) else 1)
    assert second == 0
    if rule == "pictures":
        assert coded(3) in pictures(server.bodies[-1])  # the newest is still there


@pytest.mark.parametrize("seed", range(24))
def test_random_refusals_end_no_run(seed):
    draw = random.Random(seed)
    kind = list(MODELS)[seed % 4]
    rules = [RULES[name](kind) for name in draw.sample(sorted(RULES), draw.randint(1, 5))]
    got: list[Any] = []
    with Refusing(kind, rules, play(draw.randint(1, 7))) as server:
        level = draw.choice([None, "low", "high"])
        level = level or ("none" if kind == "chat" else None)
        client = server.client(draw.choice(MODELS[kind]), thinking_level=level)
        agent, end, _ = talk(client, got)
        again = agent.run("again", messages=history())
    assert (end.data["stop_reason"], again.stop_reason) == ("completed", "completed")
    assert got == [GIVEN, GIVEN]


class Filter(BaseModel):
    """A typed answer with odd names."""

    query: str = Field(alias="$filter")
    rows: int = Field(alias="größe")


@pytest.mark.parametrize("kind", ["gemini", "responses", "messages"])
def test_typed_answer_with_refused_names_has_its_own_names(kind):
    def reply(body: Any) -> Any:
        query, rows = property_names(body)
        return f'{{"{query}": "a", "{rows}": 2}}'

    with Refusing(kind, [names_rule(kind)], reply) as server:
        model = "claude-opus-4-6" if kind == "messages" else MODELS[kind][0]
        result = Agent(llm=server.client(model), output_type=Filter, retry=ONCE).run("x")
    assert result.output == Filter(**{"$filter": "a", "größe": 2})
    assert len(server.refusals) == 1


def test_picture_that_was_left_out_is_sent_while_it_is_the_newest():
    with Refusing("messages", [pictures_rule("messages")], play(5)) as server:
        client = server.client()
        talk(client, [])
        before = len(server.bodies)
        talk(client, [])
    newest = [pictures(body)[-1:] for body in server.bodies[before:]]
    assert newest[1:6] == [[coded(shade)] for shade in range(5)]


@pytest.mark.parametrize("bad", [0, 3])
def test_picture_that_is_too_large_is_left_out_and_the_others_stay(bad):
    def rule(body: Any) -> str | None:
        words = (
            "messages.2.content.1.image.source.base64: image exceeds 5 MB maximum: 5327908 bytes > 5242880"
        )
        return words if coded(bad) in pictures(body) else None

    with Refusing("messages", [rule], play(4)) as server:
        _, end, _ = talk(server.client(), [])
    assert end.data["stop_reason"] == "completed"
    assert set(pictures(server.bodies[-1])) == {coded(shade) for shade in range(4) if shade != bad}


def test_signatures_made_after_a_refusal_go_back():
    with Refusing("messages", [signed_rule("messages")], play(4)) as server:
        talk(server.client("claude-haiku-4-5", thinking_level="low"), [])
    old, *_, new = filter(None, map(signatures, server.bodies))
    assert old.isdisjoint(new)


@pytest.mark.parametrize("kind", MODELS)
def test_limit_that_the_caller_set_is_named_in_the_error(kind):
    words = limit_rule(kind)
    with Refusing(kind, [words], lambda _: "done") as server:
        agent = Agent(
            llm=server.client("gemini-2.5-flash" if kind == "gemini" else ""), retry=ONCE, max_tokens=9000
        )
        result = agent.run("x")
    assert len(server.bodies) == 1
    assert "max_tokens, set by this program. Set it to at most 8192" in str(result.error)


def test_output_limit_shrinks_to_the_room_in_the_window():
    def rule(body: Any) -> str | None:
        said = (
            "input length and `max_tokens` exceed context limit: 190000 + {0} > 200000, decrease input length"
        )
        return said.format(limit(body)) if 190_000 + (limit(body) or 0) > 200_000 else None

    with Refusing("messages", [rule], lambda _: "done") as server:
        agent = Agent(llm=server.client("claude-haiku-4-5", thinking_level="high"), retry=ONCE)
        assert agent.run("x").stop_reason == agent.run("x").stop_reason == "completed"
    limits = list(map(limit, server.bodies))
    assert limits[0] == 64_000
    assert all(9_000 < size <= 10_000 for size in limits[1:])
    assert len(limits) == 3


@pytest.mark.parametrize(
    ("kind", "field", "words"),
    [
        ("messages", "display", "thinking.adaptive.display: Extra inputs are not permitted"),
        ("messages", "cache_control", "system.0.cache_control: Extra inputs are not permitted"),
        (
            "gemini",
            "includeThoughts",
            'Unknown name "includeThoughts" at generation_config: Cannot find field.',
        ),
        (
            "responses",
            "summary",
            "Unsupported parameter: 'reasoning.summary' is not supported with this model.",
        ),
        ("responses", "store", "Unknown parameter: 'store'."),
    ],
)
def test_field_that_the_client_adds_is_left_out(kind, field, words):
    def rule(body: Any) -> str | None:
        return words if f"'{field}'" in repr(body) else None

    model = "claude-opus-4-6" if kind == "messages" else MODELS[kind][0]
    with Refusing(kind, [rule], lambda _: "done") as server:
        agent = Agent(llm=server.client(model, thinking_level="low"), retry=ONCE)
        assert agent.run("x").stop_reason == agent.run("x").stop_reason == "completed"
    assert len(server.bodies) == 3


def test_thinking_level_that_a_model_refuses_is_named():
    with Refusing("responses", [lambda _: "Unknown parameter: 'reasoning'."], lambda _: "done") as server:
        result = Agent(llm=server.client(thinking_level="low"), retry=ONCE).run("x")
    assert "thinking_level sets this field" in str(result.error)


LIMITS = {
    "max_tokens: 64000 > 8192, which is the maximum for claude-opus-4-20250514": 8192,
    "The maximum tokens you requested exceeds the model limit of 8192. Use a value lower than 8192.": 8192,
    "max_tokens is too large: 64000. This model supports at most 16384 completion tokens": 16384,
    "a maxOutputTokens value of 64000, but the supported range is from 1 (inclusive) to 9 (exclusive)": 0,
    "a maxOutputTokens value of 64000, but the range is from 1 (inclusive) to 32769 (exclusive)": 32768,
    "Invalid 'max_output_tokens': integer above maximum. Expected a value <= 32,000, but got 64000": 32000,
    "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]": 8192,
    "max_tokens must be less than 4097": 4096,
    "'max_tokens' is too large: 64000. This model's maximum context length is 8192 tokens and your request "
    "has 1000 input tokens (64000 > 8192 - 1000).": 7192,
    "max_tokens must be greater than thinking.budget_tokens 4096": 0,
    "You requested 66000 tokens (2000 in the messages, 64000 in the completion); the context is 64768": 62768,
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.": 0,
    "This model's maximum context length is 5000 tokens. However, you requested 65200 tokens (1200 in the "
    "messages, 64000 in the completion). Please reduce the length of the messages or completion.": 3800,
    "This endpoint's maximum context length is 8,192 tokens. However, you requested about 66500 tokens (2000 "
    "of text input, 500 of tool input, 64000 in the output). Reduce the output tokens.": 5692,
    "maximum context length is 8192 tokens, however you requested 66500 tokens with max_tokens": 5692,
}


@pytest.mark.parametrize("words", LIMITS)
def test_limit_in_the_words_of_a_refusal_is_read(words):
    error = LLMError("rejected", kind="bad_request", status=400, said=words)
    assert lessons.smaller_limit({"max_tokens": 64_000}, error, "")[0] == LIMITS[words]
