"""The client's order of requests, with a scripted server client instead of a model."""

import asyncio
import json

import pytest

from pure_agent_loop.errors import LLMError
from pure_agent_loop.llm.base import BaseLLMClient
from pure_agent_loop.llm.response import Assembler, LLMResponse
from pure_agent_loop.llm.values import Delta, TokenUsage
from pure_agent_loop.local import LocalClient
from pure_agent_loop.tool import tool
from pure_agent_loop.toolbox import starter_tools

USAGE = TokenUsage(10, 1, 11)


class Inner(BaseLLMClient):
    """Votes for one label on every question but the probes, and answers from a list."""

    def __init__(self, label="talk", answers=(), refuse_schema=False):
        self.label, self.answers, self.refuse_schema = label, list(answers), refuse_schema
        self.requests = []
        self.closed = False

    async def chat(self, messages, tools=None, **kwargs):
        self.requests.append((messages, tools, kwargs))
        if kwargs.get("logprobs"):
            return LLMResponse(None, usage=USAGE, raw=self._vote(messages), finish_reason="length")
        if self.refuse_schema and kwargs.get("response_format", {}).get("type") == "json_schema":
            raise LLMError("no grammar for this", kind="bad_request")
        return LLMResponse(self.answers.pop(0), usage=USAGE, finish_reason="stop")

    def _vote(self, messages):
        label = self.label if "?!" in messages[-1]["content"] else "nothing"
        tokens = [{"token": label, "logprob": -0.01}]
        return {"choices": [{"logprobs": {"content": [{"top_logprobs": tokens}]}}]}

    async def chat_stream(self, messages, tools=None, **kwargs):
        self.requests.append((messages, tools, kwargs))
        for piece in self.answers:
            yield Delta(text=piece)
        yield Delta(finish_reason="stop", usage=USAGE)

    async def aclose(self):
        self.closed = True


@pytest.fixture
def schemas(tmp_path):
    return [tool(t).to_openai_schema() for t in starter_tools(tmp_path)]


def ask(client, messages, tools=None, **kwargs):
    async def collect():
        return [delta async for delta in client.chat_stream(messages, tools, **kwargs)]

    deltas = asyncio.run(collect())
    assembler = Assembler()
    for delta in deltas:
        assembler.feed(delta)
    return deltas, assembler.finish()


def user(text):
    return [{"role": "user", "content": text}]


def after_result(question, result):
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "calculator", "arguments": '{"expression": "6*7"}'},
    }
    return [
        *user(question),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": result},
    ]


def test_a_call_comes_out_as_any_other_clients(schemas):
    inner = Inner("read", answers=[json.dumps({"path": "b.txt"})])
    _, response = ask(LocalClient(inner), user("a.txt b.txt?!"), schemas)
    assert [(c.name, c.arguments, c.invalid) for c in response.tool_calls] == [
        ("read_file", {"path": "b.txt"}, None)
    ]
    assert response.finish_reason == "tool_calls"
    assert all(tools is None for _, tools, _ in inner.requests)


def test_the_usage_is_that_of_all_requests_together(schemas):
    inner = Inner("read", answers=[json.dumps({"path": "b.txt"})])
    _, response = ask(LocalClient(inner), user("a.txt b.txt?!"), schemas)
    assert response.usage == TokenUsage(
        10 * len(inner.requests), len(inner.requests), 11 * len(inner.requests)
    )


def test_the_zero_of_the_votes_is_measured_once(schemas):
    inner = Inner("calc")
    client = LocalClient(inner)
    ask(client, user("2 + 2?!"), schemas)
    first = len(inner.requests)
    ask(client, user("2 + 3?!"), schemas)
    assert (first, len(inner.requests) - first) == (9, 1)


def test_an_answer_in_words_is_streamed_with_the_callers_options(schemas):
    inner = Inner("talk", answers=["Good ", "day"])
    deltas, response = ask(
        LocalClient(inner), user("Hi there?!"), schemas, temperature=0.3, tool_choice="auto"
    )
    assert [d.text for d in deltas if d.text] == ["Good ", "day"]
    assert response.content == "Good day"
    messages, _, options = inner.requests[-1]
    assert messages == user("Hi there?!")
    assert options["temperature"] == 0.3
    assert "tool_choice" not in options


def test_without_tools_or_with_tool_choice_none_nothing_is_chosen(schemas):
    for tools, options in ((None, {}), (schemas, {"tool_choice": "none"})):
        inner = Inner("read", answers=["ok"])
        _, response = ask(LocalClient(inner), user("a.txt?!"), tools, **options)
        assert (response.content, len(inner.requests)) == ("ok", 1)


def test_a_true_sentence_about_the_result_is_the_answer(schemas):
    inner = Inner(answers=["6*7 is 42"])
    _, response = ask(LocalClient(inner), after_result("What is 6*7?", "42"), schemas)
    assert response.content == "6*7 is 42"


def test_a_false_sentence_is_not(schemas):
    inner = Inner(answers=["6*7 is 42, and 3 more makes 46"])
    _, response = ask(LocalClient(inner), after_result("What is 6*7?", "42"), schemas)
    assert response.content == "6*7 = 42"
    assert response.finish_reason == "stop"


def test_a_long_result_costs_no_request(schemas):
    inner = Inner()
    _, response = ask(LocalClient(inner), after_result("What is 6*7?", "42\n" * 200), schemas)
    assert "42\n42" in response.content
    assert inner.requests == []


def test_a_larger_model_answers_in_its_own_words(schemas):
    inner = Inner(answers=["Forty-", "two"])
    deltas, response = ask(LocalClient(inner, tiny=False), after_result("What is 6*7?", "42"), schemas)
    assert response.content == "Forty-two"
    assert len([d for d in deltas if d.text]) == 2


def test_a_cut_off_argument_is_marked_and_never_guessed(schemas):
    inner = Inner("read", answers=['{"path": "b.'])
    _, response = ask(LocalClient(inner), user("a.txt b.txt?!"), schemas)
    assert response.tool_calls[0].invalid


def test_a_schema_the_server_refuses_is_replaced_by_any_object(schemas):
    inner = Inner("read", answers=['{"path": "b.txt"}'], refuse_schema=True)
    _, response = ask(LocalClient(inner), user("a.txt b.txt?!"), schemas)
    assert response.tool_calls[0].arguments == {"path": "b.txt"}
    assert inner.requests[-1][2]["response_format"] == {"type": "json_object"}


def test_call_ids_of_one_history_differ(schemas):
    history = after_result("What is 6*7?", "42")
    _, first = ask(LocalClient(Inner("calc")), user("2 + 2?!"), schemas)
    _, later = ask(LocalClient(Inner("calc")), [*history, *user("2 + 2?!")], schemas)
    assert len({first.tool_calls[0].id, later.tool_calls[0].id, "c1"}) == 3


def test_chat_gives_what_the_stream_gives(schemas):
    response = asyncio.run(LocalClient(Inner("calc")).chat(user("2 + 2?!"), schemas))
    assert response.tool_calls[0].arguments == {"expression": "2 + 2"}


@pytest.mark.parametrize("text", ["", "docs 文件夹里有哪些文件？", "?!", "\ud800 \x00", "a" * 5000])
def test_any_question_gets_some_answer(schemas, text):
    inner = Inner("list", answers=["x"])
    _, response = ask(LocalClient(inner), user(text), schemas)
    assert response.finish_reason


def test_closing_lets_go_of_the_server():
    inner, released = Inner(), []
    asyncio.run(LocalClient(inner, on_close=lambda: released.append(1)).aclose())
    assert inner.closed
    assert released == [1]


def other_tool(**extra):
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    function = {"name": "get_weather", "description": "Get the weather of a city.", "parameters": parameters}
    return {"type": "function", "function": {**function, **extra}}


def test_a_tool_never_seen_before_is_chosen_without_a_request():
    inner = Inner(answers=[json.dumps({"city": "Oslo"})])
    _, response = ask(LocalClient(inner), user("What is the weather in Oslo or Bergen?"), [other_tool()])
    assert [(c.name, c.arguments) for c in response.tool_calls] == [("get_weather", {"city": "Oslo"})]
    assert len(inner.requests) == 1
    assert response.raw == {"requests": 1}


def test_several_values_are_several_calls_with_ids_of_their_own():
    inner = Inner(answers=[json.dumps({"city": "Oslo"}), json.dumps({"city": "Rome"})])
    messages = user("What is the weather in Oslo and Rome?")
    _, response = ask(LocalClient(inner), messages, [other_tool()])
    assert [c.arguments for c in response.tool_calls] == [{"city": "Oslo"}, {"city": "Rome"}]
    asked = [request[0][-1]["content"].rsplit("\n", 1)[-1] for request in inner.requests]
    assert asked == ["Question: What is the weather in Oslo?", "Question: What is the weather in Rome?"]
    assert [c.id for c in response.tool_calls] == ["call_local_1", "call_local_1_1"]
    assert response.raw == {"requests": 2}


def test_the_same_call_is_made_once():
    inner = Inner(answers=[json.dumps({"city": "Oslo"})] * 2)
    _, response = ask(LocalClient(inner), user("What is the weather in Oslo and Rome?"), [other_tool()])
    assert [c.arguments for c in response.tool_calls] == [{"city": "Oslo"}]


def test_a_caller_who_wants_one_call_at_a_time_gets_one():
    inner = Inner(answers=[json.dumps({"city": "Oslo"})])
    question = user("What is the weather in Oslo and Rome?")
    _, response = ask(LocalClient(inner), question, [other_tool()], parallel_tool_calls=False)
    assert len(response.tool_calls) == 1


def test_a_later_call_takes_what_it_does_not_say_from_the_one_before():
    sights = other_tool(name="find_sights", description="Find the sights of a city.")
    inner = Inner(answers=[json.dumps({"city": "Oslo"})])
    question = user("Tell me the weather of the city Oslo. Then find the sights of the same city.")
    _, response = ask(LocalClient(inner), question, [other_tool(), sights])
    calls = [(c.name, c.arguments) for c in response.tool_calls]
    assert calls == [("get_weather", {"city": "Oslo"}), ("find_sights", {"city": "Oslo"})]
    assert len(inner.requests) <= 1


def test_all_results_of_several_calls_are_told():
    calls = [
        {
            "id": f"c{i}",
            "type": "function",
            "function": {"name": "get_weather", "arguments": json.dumps({"city": c})},
        }
        for i, c in enumerate(("Oslo", "Rome"))
    ]
    messages = [
        *user("What is the weather in Oslo and Rome?"),
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c0", "content": "rain"},
        {"role": "tool", "tool_call_id": "c1", "content": "sun"},
    ]
    _, response = ask(LocalClient(Inner(answers=["It rains."])), messages, [other_tool()])
    assert response.content == "Result of get_weather(Oslo):\nrain\n\nResult of get_weather(Rome):\nsun"


def test_a_question_that_no_such_tool_helps_with_is_answered_in_words():
    inner = Inner(answers=["Shakespeare"])
    _, response = ask(LocalClient(inner), user("Who wrote Hamlet?"), [other_tool()])
    assert (response.content, len(inner.requests)) == ("Shakespeare", 1)


def test_tools_with_and_without_written_examples_stand_side_by_side(schemas):
    tools = [*schemas, other_tool()]
    inner = Inner("calc", answers=[json.dumps({"city": "Oslo"})])
    _, response = ask(LocalClient(inner), user("What is the weather in Oslo?"), tools)
    assert response.tool_calls[0].name == "get_weather"
    _, response = ask(LocalClient(Inner("calc")), user("What is 2 + 2?!"), tools)
    assert response.tool_calls[0].name == "calculator"


def test_a_piece_taken_twice_is_asked_for_once_more():
    pair = {"from": {"type": "string"}, "to": {"type": "string"}}
    flight = other_tool(
        name="find_flight",
        description="Find a flight.",
        parameters={"type": "object", "properties": pair, "required": ["from", "to"]},
    )
    answers = [json.dumps({"from": "Oslo", "to": "Oslo"}), json.dumps({"from": "Oslo", "to": "Rome"})]
    inner = Inner(answers=answers)
    _, response = ask(LocalClient(inner), user("Find a flight from Oslo to Rome"), [flight])
    assert response.tool_calls[0].arguments == {"from": "Oslo", "to": "Rome"}
    assert len(inner.requests) == 2


def test_a_larger_model_writes_the_arguments_freely():
    inner = Inner(answers=[json.dumps({"city": "Oslo, Norway"})])
    client = LocalClient(inner, tiny=False)
    _, response = ask(client, user("What is the weather in Oslo?"), [other_tool()])
    assert response.tool_calls[0].arguments == {"city": "Oslo, Norway"}


def test_the_state_of_a_place_is_asked_for_where_the_tool_wants_it():
    city = {"type": "string", "description": "The city and state, e.g. Austin, TX"}
    parameters = {"type": "object", "properties": {"city": city}, "required": ["city"]}
    described = {"name": "get_weather", "description": "The weather in a city.", "parameters": parameters}
    schema = {"type": "function", "function": described}
    inner = Inner(answers=['{"city": "Boise"}', '"Boise, ID"'])
    response = ask(LocalClient(inner), user("The weather in Boise?"), [schema])[1]
    assert response.tool_calls[0].arguments == {"city": "Boise, ID"}
    held = inner.requests[-1][2]["response_format"]["json_schema"]["schema"]
    assert held == {"type": "string", "pattern": "^Boise, [A-Z]{2}$"}
    whole = Inner(answers=['"unused"'])
    response = ask(LocalClient(whole), user("The weather in Boise, ID?"), [schema])[1]
    assert response.tool_calls[0].arguments == {"city": "Boise, ID"}
    assert whole.requests == []


@pytest.mark.parametrize("broken", ['"Boise, I', "{}", ""])
def test_a_place_stays_as_it_was_if_the_model_fails(broken):
    city = {"type": "string", "description": "The city and state, e.g. Austin, TX"}
    parameters = {"type": "object", "properties": {"city": city}, "required": ["city"]}
    described = {"name": "get_weather", "description": "The weather in a city.", "parameters": parameters}
    inner = Inner(answers=['{"city": "Boise"}', broken])
    response = ask(LocalClient(inner), user("The weather in Boise?"), [{"function": described}])[1]
    assert response.tool_calls[0].arguments == {"city": "Boise"}


FILE_TOOLS = [
    other_tool(
        name=name,
        description="Works with files.",
        parameters={
            "type": "object",
            "properties": {each: {"type": "string"} for each in arguments},
            "required": list(arguments),
        },
    )
    for name, arguments in (
        ("read_file", ("path",)),
        ("edit_file", ("path", "old_text", "new_text")),
    )
]


def called(number, name, result, **arguments):
    """A call and its result, as they stand in a history."""
    call = {
        "id": f"c{number}",
        "type": "function",
        "function": {"name": name, "arguments": json.dumps(arguments)},
    }
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": result},
    ]


def test_what_is_ordered_is_done_step_by_step_without_a_request():
    inner = Inner(answers=["No."])
    client, history = LocalClient(inner), user("Read a.txt, then replace x with y in it")
    _, first = ask(client, history, FILE_TOOLS)
    assert [(c.name, c.arguments) for c in first.tool_calls] == [("read_file", {"path": "a.txt"})]
    history += called(1, "read_file", "x", path="a.txt")
    _, second = ask(client, history, FILE_TOOLS)
    edit = {"path": "a.txt", "old_text": "x", "new_text": "y"}
    assert [(c.name, c.arguments) for c in second.tool_calls] == [("edit_file", edit)]
    assert first.tool_calls[0].id != second.tool_calls[0].id
    assert not inner.requests
    history += called(2, "edit_file", "Edited a.txt.", **edit)
    _, last = ask(client, history, FILE_TOOLS)
    assert (
        last.content == "Result of read_file(a.txt):\nx\n\nResult of edit_file(a.txt, x, y):\nEdited a.txt."
    )


def test_nothing_more_is_done_once_a_step_has_failed():
    history = user("Read a.txt, then replace x with y in it")
    history += called(1, "read_file", "Tool 'read_file' failed.\nError: no such file", path="a.txt")
    _, response = ask(LocalClient(Inner()), history, FILE_TOOLS)
    assert response.content.startswith("read_file(a.txt) did not work.")
    assert not response.tool_calls


def test_it_is_the_file_of_the_call_before_the_question():
    history = [*user("Read a.txt"), *called(1, "read_file", "x", path="a.txt")]
    history += [{"role": "assistant", "content": "x"}, *user("Now replace x with y in it")]
    _, response = ask(LocalClient(Inner()), history, FILE_TOOLS)
    assert response.tool_calls[0].arguments == {"path": "a.txt", "old_text": "x", "new_text": "y"}


def test_a_file_is_not_changed_without_an_order(schemas):
    tools = [*schemas, FILE_TOOLS[1]]
    _, response = ask(
        LocalClient(Inner("talk", answers=["Well."])), user("Edit files, works with text?!"), tools
    )
    assert response.content == "Well."


def test_a_tool_that_reads_something_else_is_not_taken_for_a_named_file(schemas):
    note = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    tools = [*schemas, other_tool(name="memory_read", description="Read a note.", parameters=note)]
    _, response = ask(LocalClient(Inner("read")), user("Read notes.txt and tell me the port?!"), tools)
    assert [(c.name, c.arguments) for c in response.tool_calls] == [("read_file", {"path": "notes.txt"})]


def test_a_long_value_is_cut_where_the_call_is_told():
    written = "a" * 5000
    history = [*user("?!"), *called(1, "write_file", "b" * 2000, path="a.txt", content=written)]
    _, response = ask(LocalClient(Inner()), history)
    assert written[:200] in response.content
    assert written[:201] not in response.content
