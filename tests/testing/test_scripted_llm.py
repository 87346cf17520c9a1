from __future__ import annotations

import asyncio
import threading

import pytest

from pure_agent_loop.errors import ConfigError, LLMError
from pure_agent_loop.llm.base import stream_of
from pure_agent_loop.llm.response import Assembler, LLMResponse
from pure_agent_loop.llm.values import Delta, TokenUsage, ToolCall, ToolCallDelta
from pure_agent_loop.testing import Gate, Reset, ScriptedLLM, ScriptError, answer, call, deltas, raw_call

HELLO = [{"role": "user", "content": "hello"}]


async def collect(llm, messages=HELLO):
    return [delta async for delta in stream_of(llm, messages, None, {})]


def both(item, **options):
    """The same item through both doors of a client."""

    async def ask():
        whole = await ScriptedLLM([item], **options).chat(HELLO)
        assembler = Assembler()
        for delta in await collect(ScriptedLLM([item], **options)):
            assembler.feed(delta)
        return whole, assembler.finish()

    return asyncio.run(ask())


USAGE = TokenUsage(10, 5, 15)
ITEMS = {
    "text": ("It is 3.", LLMResponse("It is 3.", [], USAGE, finish_reason="stop")),
    "call": (
        call("add", a=1),
        LLMResponse(None, [ToolCall("call_1", "add", {"a": 1})], USAGE, finish_reason="tool_calls"),
    ),
    "call without arguments": (
        call("now"),
        LLMResponse(None, [ToolCall("call_1", "now", {})], USAGE, finish_reason="tool_calls"),
    ),
    "ready call": (
        ToolCall("mine", "add", {"a": 1}),
        LLMResponse(None, [ToolCall("mine", "add", {"a": 1})], USAGE, finish_reason="tool_calls"),
    ),
    "text and calls": (
        ["I add. ", call("add", a=1), call("add", a=2)],
        LLMResponse(
            "I add. ",
            [ToolCall("call_1", "add", {"a": 1}), ToolCall("call_2", "add", {"a": 2})],
            USAGE,
            finish_reason="tool_calls",
        ),
    ),
    "everything": (
        answer("part", reasoning="hm", finish_reason="length", usage=TokenUsage(1, 2, 3)),
        LLMResponse("part", [], TokenUsage(1, 2, 3), None, "hm", "length"),
    ),
    "nothing": (answer(None, usage=None), LLMResponse(None, [], None, finish_reason="stop")),
    "deltas": (
        [Delta("a"), Delta("b", finish_reason="stop")],
        LLMResponse("ab", [], None, finish_reason="stop"),
    ),
    "one delta": (Delta("a", finish_reason="stop"), LLMResponse("a", [], None, finish_reason="stop")),
    "mixed pieces": (
        deltas("a", Delta(reasoning="hm"), call("f")),
        LLMResponse("a", [ToolCall("call_1", "f", {})], USAGE, None, "hm", "tool_calls"),
    ),
    "call deltas": (
        deltas(Delta(tool_calls=(ToolCallDelta(0, "x", "f", "{}"),)), call("g")),
        LLMResponse(
            None, [ToolCall("x", "f", {}), ToolCall("call_1", "g", {})], USAGE, finish_reason="tool_calls"
        ),
    ),
    "callable": (lambda messages, tools, options: messages[0]["content"], None),
}


@pytest.mark.parametrize("name", ITEMS)
def test_an_item_means_the_same_streamed_and_whole(name):
    item, expected = ITEMS[name]
    whole, streamed = both(item)
    assert whole == streamed
    assert whole == (expected or LLMResponse("hello", [], USAGE, finish_reason="stop"))


def test_a_ready_response_comes_back_as_it_is():
    response = LLMResponse("x", [], None, raw={"kept": True})
    whole, streamed = both(response)
    assert whole is response
    assert (streamed.content, streamed.usage, streamed.finish_reason) == ("x", None, "stop")


def test_a_marked_call_stays_unusable_in_a_stream():
    response = LLMResponse(None, [ToolCall("1", "f", {}, "the arguments are not valid JSON")])
    _, streamed = both(response)
    assert streamed.tool_calls[0].invalid


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        ("x", "stop"),
        (call("f"), "tool_calls"),
        (deltas(Delta(tool_calls=(ToolCallDelta(0, "x", "f", "{}"),))), "tool_calls"),
        (deltas("x", finish_reason="length"), "length"),
        (deltas(Delta("x", finish_reason="odd")), "odd"),
    ],
)
def test_the_finish_reason_fits_and_comes_once(item, reason):
    pieces = asyncio.run(collect(ScriptedLLM([item])))
    assert [d.finish_reason for d in pieces if d.finish_reason] == [reason]


def test_text_is_streamed_in_words_and_long_words_in_pieces():
    text = "Hello  wide world 这是一个没有空格的很长的中文句子。"
    pieces = [d.text for d in asyncio.run(collect(ScriptedLLM([text]))) if d.text]
    assert "".join(pieces) == text
    assert pieces[:3] == ["Hello  ", "wide ", "world "]
    assert len(pieces) > 4


def test_usage_can_be_set_and_left_out():
    assert both("x", usage=TokenUsage(1, 1, 2))[1].usage == TokenUsage(1, 1, 2)
    assert both("x", usage=None)[1].usage is None


def test_raw_calls_carry_their_text_unchanged():
    found = both(raw_call("f", '{"a": NaN}', "id7"))[0].tool_calls[0]
    assert found.id == "id7"
    assert "NaN" in found.invalid


def test_new_ids_go_on_from_the_ids_of_the_history():
    history = [
        {"role": "assistant", "content": None, "tool_calls": [{"id": "call_7"}, {"id": "other"}, None]},
        {"role": "assistant", "content": "x", "tool_calls": None},
    ]
    response = asyncio.run(ScriptedLLM([[call("f"), call("g")]]).chat(history))
    assert [one.id for one in response.tool_calls] == ["call_8", "call_9"]


def test_exceptions_are_raised_also_between_pieces():
    seen = []

    async def read(llm):
        async for delta in llm.chat_stream(HELLO):
            seen.append(delta.text)  # noqa: PERF401 - kept when it breaks

    llm = ScriptedLLM([ConnectionError("gone"), deltas("a", LLMError("cut", kind="connection"), "b")])
    with pytest.raises(ConnectionError, match="gone"):
        asyncio.run(llm.chat(HELLO))
    with pytest.raises(LLMError, match="cut"):
        asyncio.run(read(llm))
    assert seen == ["a"]
    llm.assert_done()


def test_answer_without_finish_reason_is_rejected():
    with pytest.raises(LLMError) as caught:
        asyncio.run(ScriptedLLM([deltas("a", finish_reason=None)]).chat(HELLO))
    assert caught.value.kind == "incomplete"


def test_requests_are_copied_when_they_come():
    messages = [{"role": "user", "content": [{"type": "text", "text": "old"}]}]
    llm = ScriptedLLM(["a", "b"])
    asyncio.run(llm.chat(messages, [{"type": "function"}], temperature=0.5))
    messages[0]["content"][0]["text"] = "new"
    asyncio.run(collect(llm, messages))
    first, second = llm.requests
    assert first.messages[0]["content"][0]["text"] == "old"
    assert (first.tools, first.options, first.streamed) == (
        [{"type": "function"}],
        {"temperature": 0.5},
        False,
    )
    assert second.messages[0]["content"][0]["text"] == "new"
    assert second.streamed


def test_callables_may_be_async_and_return_any_item():
    async def item(messages, tools, options):
        return lambda *_: [call("f", seen=len(messages), t=options["temperature"])]

    response = asyncio.run(ScriptedLLM([item]).chat(HELLO, temperature=0))
    assert response.tool_calls[0].arguments == {"seen": 1, "t": 0}


def test_one_callable_answers_everything():
    with ScriptedLLM(lambda messages, tools, options: f"{len(messages)}") as llm:
        assert asyncio.run(llm.chat(HELLO)).content == "1"
        assert asyncio.run(llm.chat(HELLO * 2)).content == "2"


def test_a_script_that_runs_out_fails_at_once_and_again_at_the_end():
    llm = ScriptedLLM(["only"])
    asyncio.run(llm.chat(HELLO))
    with pytest.raises(ScriptError, match="ran out: it has 1 item"):
        asyncio.run(llm.chat(HELLO))
    with pytest.raises(ScriptError, match="ran out"):
        llm.assert_done()
    with pytest.raises(ScriptError, match="ran out"), llm:
        pass  # as if a loop had swallowed the first error


def test_a_script_that_is_not_used_up_fails():
    llm = ScriptedLLM(["a", "b", "c"])
    asyncio.run(llm.chat(HELLO))
    assert llm.remaining == 2
    with pytest.raises(ScriptError, match=r"2 of 3 item.*'b'"), llm:
        pass


def test_a_check_inside_a_script_fails_the_test_though_the_error_was_swallowed():
    def item(messages, tools, options):
        raise AssertionError("no tools were sent")

    llm = ScriptedLLM([item])
    with pytest.raises(AssertionError):
        asyncio.run(llm.chat(HELLO))
    with pytest.raises(ScriptError, match="no tools were sent"):
        llm.assert_done()


def test_the_error_of_the_block_is_never_hidden():
    llm = ScriptedLLM([])
    with pytest.raises(ScriptError):
        asyncio.run(llm.chat(HELLO))
    with pytest.raises(ZeroDivisionError) as caught, llm:
        _ = 1 / 0
    assert "ran out" in str(getattr(caught.value, "__notes__", "ran out"))


def test_a_script_that_is_not_strict_repeats_its_last_item():
    with ScriptedLLM(["a", "b", "c"], strict=False) as llm:
        assert asyncio.run(llm.chat(HELLO)).content == "a"
    with ScriptedLLM(["a", "b"], strict=False) as llm:
        assert [asyncio.run(llm.chat(HELLO)).content for _ in range(4)] == ["a", "b", "b", "b"]
    with pytest.raises(ScriptError):
        asyncio.run(ScriptedLLM([], strict=False).chat(HELLO))


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("hello", r"write \['hello'\]"),
        ([ConnectionError], "class ConnectionError"),
        ([3], "not a script item"),
        ([["a", 3]], "not a script item"),
        ([None], "not a script item"),
        ([Reset()], "only ScriptedServer"),
        ([deltas("a", Reset())], "only ScriptedServer"),
    ],
)
def test_invalid_script_item_is_rejected_at_once(script, words):
    with pytest.raises(ConfigError, match=words):
        ScriptedLLM(script)


def test_result_of_a_callable_item_is_checked():
    with pytest.raises(ConfigError, match="not a script item"):
        asyncio.run(ScriptedLLM(lambda *_: 3).chat(HELLO))
    with pytest.raises(ScriptError, match="needs a ScriptedServer"):
        asyncio.run(ScriptedLLM(lambda *_: Reset()).chat(HELLO))


def test_a_gate_holds_the_rest_back():
    gate = Gate()

    async def read():
        stream = ScriptedLLM([deltas("first", gate, "second")]).chat_stream(HELLO)
        seen = [(await stream.__anext__()).text]
        rest = asyncio.ensure_future(stream.__anext__())
        await gate.reached.wait_async()
        assert not rest.done()
        gate.open()
        return [*seen, (await rest).text]

    assert asyncio.run(read()) == ["first", "second"]
    assert gate.is_open


def test_parallel_threads_get_each_item_once():
    llm = ScriptedLLM([str(n) for n in range(200)])
    answers: list[str] = []

    def ask():
        for _ in range(20):
            answers.append(asyncio.run(llm.chat(HELLO)).content)  # noqa: PERF401 - shared while it grows

    threads = [threading.Thread(target=ask) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers, key=int) == [str(n) for n in range(200)]
    llm.assert_done()


def test_closing_is_remembered():
    llm = ScriptedLLM([])
    assert not llm.closed
    asyncio.run(llm.aclose())
    assert llm.closed
