"""The assembler: text, reasoning, finish reasons, usage."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pure_agent_loop.errors import LLMError
from pure_agent_loop.llm.response import Assembler, LLMResponse
from pure_agent_loop.llm.values import CLOSED, Delta, TokenUsage, ToolCall

from .streams import assemble, part


def finished(*deltas: Delta, finish: str | None = "stop") -> LLMResponse:
    assembler = Assembler()
    for delta in deltas:
        assembler.feed(delta)
    assembler.feed(Delta(finish_reason=finish))
    return assembler.finish()


@pytest.mark.parametrize(
    ("given_reason", "expected"),
    [
        ("stop", "stop"),
        ("STOP", "stop"),
        ("end_turn", "stop"),
        ("eos", "stop"),
        (CLOSED, "stop"),
        ("length", "length"),
        ("max_tokens", "length"),
        ("MAX_TOKENS", "length"),
        ("model_length", "length"),
        ("content_filter", "content_filter"),
        ("sensitive", "content_filter"),
        ("SAFETY", "content_filter"),
        ("something_new", "something_new"),
    ],
)
def test_finish_reasons_of_text(given_reason: str, expected: str):
    assert finished(Delta("hello"), finish=given_reason).finish_reason == expected


@pytest.mark.parametrize(
    "given_reason", ["stop", "tool_calls", "function_call", "tool_use", "eos", "new", CLOSED]
)
def test_calls_make_the_finish_reason(given_reason: str):
    assert assemble(part("f", "{}", index=0), finish=given_reason).finish_reason == "tool_calls"


@pytest.mark.parametrize(
    "given_reason",
    [
        "error",
        "network_error",
        "abort",
        "aborted",
        "cancelled",
        "insufficient_system_resource",
        "ERROR",
        "malformed_function_call",
        "function_call_filter: MALFORMED_FUNCTION_CALL",
    ],
)
def test_a_server_that_gave_up_has_not_answered(given_reason: str):
    with pytest.raises(LLMError, match="aborted its response") as caught:
        finished(Delta("half an ans"), finish=given_reason)
    assert caught.value.kind == "incomplete"


def test_missing_finish_reason_is_rejected():
    with pytest.raises(LLMError, match="ended early") as caught:
        finished(Delta("the whole answer, or is it"), finish=None)
    assert caught.value.is_transient


@pytest.mark.parametrize("arguments", ["", None, '{"a": 1'])
def test_stream_closed_inside_a_call_is_rejected(arguments: str | None):
    with pytest.raises(LLMError, match="ended early"):
        assemble(part("f", arguments, index=0), finish=CLOSED)


def test_a_cut_is_not_hidden_by_a_later_reason():
    assert finished(Delta("a", finish_reason="length"), Delta(finish_reason="stop")).finish_reason == "length"


@pytest.mark.parametrize("text", ["", " ", "\n\n", "\t \r\n"])
def test_white_space_is_not_content(text: str):
    assert finished(Delta(text)).content is None
    response = finished(Delta(text), Delta(tool_calls=(part("f", "{}"),)))
    assert response.content is None
    assert response.has_tool_calls


def test_white_space_around_content_stays():
    assert finished(Delta(" \n"), Delta(" a "), Delta("\n")).content == " \n a \n"


def test_surrogate_pairs_cut_between_deltas():
    pieces = ["a\ud83d", "", "\ude00b", "\ud83d", "c", "\ude00", "\n\ud83d", "\ude00"]
    for build in (lambda t: Delta(text=t), lambda t: Delta(reasoning=t)):
        assembler = Assembler()
        shown = [assembler.feed(build(piece)) for piece in pieces]
        shown.append(assembler.flush())
        assembler.feed(Delta(finish_reason="stop"))
        response = assembler.finish()
        assert (response.content or response.reasoning_content) == "a😀b\ufffdc\ufffd\n😀"
        assert "".join(d.text + d.reasoning for d in shown) == "a😀b\ufffdc\ufffd\n😀"
        for delta in shown:
            (delta.text + delta.reasoning).encode()


@pytest.mark.parametrize("last", ["\ud83d", "a\ud83d"])
def test_half_a_character_at_the_end_is_replaced(last: str):
    assert finished(Delta(last)).content == last[:-1] + "\ufffd"
    assert finished(Delta(reasoning=last)).reasoning_content == last[:-1] + "\ufffd"


def test_usage_comes_last_or_never():
    usage = TokenUsage(3, 4, 7, reasoning_tokens=2)
    assert finished(Delta("a")).usage is None
    assert finished(Delta("a", finish_reason="stop"), Delta(usage=usage)).usage == usage
    assert finished(Delta("a", usage=TokenUsage(3, 1, 4)), Delta(usage=usage)).usage == usage
    assert finished(Delta("a", usage=usage), Delta(usage=TokenUsage.zero())).usage == usage


def test_partial_keeps_text_and_leaves_calls_out():
    assembler = Assembler()
    assembler.feed(Delta("half", "think", (part("f", '{"a":', index=0),), usage=TokenUsage(1, 2, 3)))
    partial = assembler.partial()
    assert (partial.content, partial.reasoning_content, partial.tool_calls) == ("half", "think", [])
    assert partial.usage == TokenUsage(1, 2, 3)
    assert partial.finish_reason is None
    assert Assembler().partial().content is None


def test_flush_may_be_called_before_finish():
    assembler = Assembler()
    assembler.feed(Delta("<thi\ud83d", finish_reason="stop"))
    assert assembler.flush().text + assembler.flush().text == "<thi\ufffd"
    assert assembler.finish().content == "<thi\ufffd"


def test_an_answer_of_a_minimal_client_as_a_delta():
    bare = LLMResponse("hello", None, None, None)  # type: ignore[arg-type]  # as minimal clients do
    assert finished(bare.to_delta(), finish=None).content == "hello"
    text = LLMResponse(None, [ToolCall("", "f", '{"a": 1}')], None, None)  # type: ignore[arg-type]  # as minimal clients do
    response = finished(text.to_delta(), finish=None)
    assert [(c.id, c.arguments) for c in response.tool_calls] == [("call_1", {"a": 1})]


def test_an_invalid_call_survives_as_a_delta():
    first = assemble(part("f", "nonsense", index=0))
    second = finished(first.to_delta(), finish=None)
    assert second.tool_calls == first.tool_calls
    assert second.tool_calls[0].invalid


def test_a_response_survives_its_plain_form():
    first = assemble(part("f", "nonsense", index=0), part("g", '{"a":[1]}', index=1))
    assert LLMResponse.from_dict(first.to_dict()) == first


DELTAS = st.tuples(
    st.text("ab \n😀\ud83d\ude00", max_size=3),
    st.text("cd\ud83d\ude00", max_size=2),
    st.none() | st.just(TokenUsage(1, 2, 3)),
).map(lambda fields: Delta(text=fields[0], reasoning=fields[1], usage=fields[2]))


@given(st.lists(DELTAS))
def test_previewed_reaction_equals_the_result(deltas: list[Delta]):
    assembler = Assembler()
    shown = [assembler.feed(delta) for delta in deltas]
    assembler.feed(Delta(finish_reason="stop"))
    shown.append(assembler.flush())
    response = assembler.finish()
    text, reasoning = "".join(d.text for d in shown), "".join(d.reasoning for d in shown)
    assert response.content == (text if text.strip() else None)
    assert (response.reasoning_content or "") == reasoning


@given(st.lists(DELTAS))
def test_text_and_reasoning_do_not_depend_on_each_other(deltas: list[Delta]):
    apart = [Delta(text=d.text) for d in deltas] + [Delta(reasoning=d.reasoning) for d in deltas]
    apart += [Delta(usage=d.usage) for d in deltas]
    assert finished(*apart) == finished(*deltas)
