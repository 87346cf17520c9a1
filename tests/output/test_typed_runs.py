"""A run with a typed answer: corrected, checked, kept in sessions, replayed, and never half an object."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, replace
from typing import Any

import pytest
from tests.helpers import NO_WAIT, add, check_result

from pure_agent_loop import (
    Agent,
    ConfigError,
    EventType,
    Hooks,
    LLMError,
    LoopLimits,
    Profile,
    PureAgentLoopError,
    QueryState,
    Retry,
    RunContext,
    tool,
)
from pure_agent_loop.prompts import prompts_for
from pure_agent_loop.sessions import JsonlStore
from pure_agent_loop.support.secrets.redaction import Redactor
from pure_agent_loop.testing import ScriptedLLM, ScriptedServer, answer, assert_replays, call, status
from pure_agent_loop.tool import ToolRegistry


@dataclass
class City:
    name: str
    people: int


OSLO = '{"name": "Oslo", "people": 7}'
WRONG = '{"name": "Oslo"}'


def agent(*script: Any, **options: Any) -> Agent[Any, Any]:
    return Agent(**{"llm": ScriptedLLM(list(script)), "output_type": City, "retry": NO_WAIT, **options})


def test_the_answer_is_an_object_of_the_type():
    result = check_result(agent(OSLO).run("Which city?"))
    assert result.output == City("Oslo", 7)
    assert (result.content, result.stop_reason) == (OSLO, "completed")


def test_run_with_deeply_nested_text_beside_its_answer_is_corrected():
    oslo = call("final_result", name="Oslo", people=7)
    result = check_result(agent(answer("[" * 100_000, oslo), oslo, tools=[add]).run("x"))
    assert result.output == City("Oslo", 7)


def test_without_a_type_the_output_is_the_text_of_a_whole_answer():
    assert Agent(llm=ScriptedLLM(["Hi."])).run("x").output == "Hi."
    assert Agent(llm=ScriptedLLM([RuntimeError("no")]), retry=NO_WAIT).run("x").output is None


@pytest.mark.parametrize("language", ["en", "zh"])
def test_invalid_answer_is_corrected_by_the_model(language):
    llm = ScriptedLLM(["Oslo!", WRONG, OSLO])
    result = check_result(agent(llm=llm, language=language).run("x"))
    assert result.output == City("Oslo", 7)
    first, second = (request.messages[-1]["content"] for request in llm.requests[1:])
    assert '"people"' in first  # it was no JSON, so it gets the schema
    words = ["people: field required", "Your answer"] if language == "en" else ["people: 必填", "你的回答"]
    assert [word for word in words if word not in second] == []
    assert [e.type for e in result.events].count(EventType.NOTICE) == 2


def test_the_words_of_a_correction_can_be_replaced():
    words = replace(prompts_for("en"), sentences={"correct_answer": "Again, for: {why}"})
    llm = ScriptedLLM([WRONG, OSLO])
    agent(llm=llm, prompts=words).run("x")
    assert llm.requests[1].messages[-1]["content"] == "Again, for: people: field required"


def test_corrections_come_to_an_end():
    result = check_result(agent(WRONG, WRONG, WRONG).run("x"))
    assert (result.stop_reason, result.output, result.state.corrections) == ("invalid_output", None, 3)
    assert (result.content, "people: field required" in result.error) == (WRONG, True)
    with pytest.raises(LLMError, match="after 2 corrections: people: field required") as raised:
        result.raise_for_error()
    with pytest.raises(LLMError, match="after 2 corrections: people: field required"):
        result.unwrap()
    assert (raised.value.kind, raised.value.is_transient) == ("invalid_output", False)
    assert [(e.kind, e.fatal) for e in result.events if e.type is EventType.ERROR] == [
        ("invalid_output", True)
    ]
    again = agent(WRONG, WRONG, OSLO).run(None, state=result.state)  # it may be corrected as often once more
    assert again.output == City("Oslo", 7)
    assert agent(WRONG, output_retries=0).run("x").output is None


def test_an_output_is_there_or_the_reason_is_raised():
    assert agent(OSLO).run("x").unwrap() == City("Oslo", 7)
    assert Agent(llm=ScriptedLLM(["null"])).run("x", output_type=City | None).unwrap() is None
    limited = Agent(llm=ScriptedLLM([call("add", a=1, b=2), OSLO]), tools=[add], output_type=City)
    with pytest.raises(PureAgentLoopError, match=r"'max_steps' and has no output\. The step"):
        limited.run("x", limits=LoopLimits(max_turns=1)).unwrap()
    plain = Agent(llm=ScriptedLLM(["Oslo"])).run("x")
    with pytest.raises(PureAgentLoopError, match="has no output"):  # nobody had asked for one
        agent().run(None, state=plain.state).unwrap()
    with pytest.raises(ConfigError, match="output_retries=-1"):
        agent(output_retries=-1)


def test_a_new_task_may_be_corrected_as_often():
    chat = agent(WRONG, WRONG, OSLO, WRONG, WRONG, OSLO)
    first = chat.run("x")
    assert chat.run("y", state=first.state).output == City("Oslo", 7)


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_output_check_requests_correction(kind):
    llm = ScriptedLLM([OSLO, '{"name": "Rome", "people": 3}'])
    mine = agent(llm=llm)

    def look(ctx: RunContext[Any], city: City) -> City:
        if city.name in ctx.deps:
            raise Retry(f"{city.name} was had already")
        return City(city.name.upper(), city.people)

    async def look_async(ctx: RunContext[Any], city: City) -> City:
        return look(ctx, city)

    mine.output_check(look if kind == "sync" else look_async)
    result = check_result(mine.run("x", deps={"Oslo"}))
    assert result.output == City("ROME", 3)
    assert "Oslo was had already" in llm.requests[1].messages[-1]["content"]


def test_a_check_that_returns_nothing_leaves_the_output():
    mine = agent(OSLO)
    seen = []

    @mine.output_check
    def note(city: City) -> None:
        seen.append(city.name)

    assert (mine.run("x").output, seen) == (City("Oslo", 7), ["Oslo"])


def test_text_can_be_checked_too():
    mine = Agent(llm=ScriptedLLM(["hello", "HELLO"]))

    @mine.output_check
    def loud(text: str) -> None:
        if not text.isupper():
            raise Retry("louder")

    assert check_result(mine.run("x")).output == "HELLO"


def test_a_check_that_fails_ends_the_run():
    mine = agent(OSLO)

    @mine.output_check
    def broken(city: City) -> None:
        raise ZeroDivisionError("of mine")

    result = check_result(mine.run("x"))
    assert (result.stop_reason, result.output) == ("error", None)
    assert result.error == "ZeroDivisionError: of mine"
    with pytest.raises(LLMError, match="The run failed: ZeroDivisionError: of mine"):
        result.raise_for_error()


def test_a_function_is_called_with_the_answer():
    calls = []

    async def book(ctx: RunContext[str], city: str, nights: int = 1) -> City:
        """Book a hotel."""
        if nights > 7:
            raise Retry("at most a week")
        calls.append((ctx.deps, city))
        return City(city, nights)

    llm = ScriptedLLM(['{"city": "Rome", "nights": 30}', '{"city": "Rome"}'])
    result = check_result(Agent(llm=llm, output_type=book).run("x", deps="me"))
    assert (result.output, calls) == (City("Rome", 1), [("me", "Rome")])
    assert "ctx" not in json.dumps(llm.requests[0].options)


def test_a_stop_hook_sends_only_a_right_answer_on_and_the_last_one_counts():
    said = iter(["More.", None])
    mine = agent(WRONG, OSLO, '{"name": "Rome", "people": 3}', hooks=Hooks(on_stop=lambda *_: next(said)))
    assert check_result(mine.run("x")).output == City("Rome", 3)


# -- ends that are none -----------------------------------------------------------------------------------


def test_a_limit_leaves_no_output():
    mine = agent(call("add", a=1, b=2), OSLO, tools=[add], limits=LoopLimits(max_turns=1))
    result = check_result(mine.run("x"))
    assert (result.stop_reason, result.output) == ("max_steps", None)
    assert mine.llm.requests[1].options.get("response_format") is None  # type: ignore[attr-defined]  # a scripted one


def test_truncated_answer_is_not_an_output():
    result = check_result(agent(answer('{"name": "Oslo", "people": 70', finish_reason="length")).run("x"))
    assert (result.stop_reason, result.output) == ("output_limit", None)


def test_a_cut_off_call_of_the_final_tool_is_asked_for_again():
    from pure_agent_loop.testing import raw_call

    cut = answer(raw_call("final_result", '{"name": "Os'), finish_reason="length")
    result = check_result(agent(cut, call("final_result", name="Oslo", people=7), tools=[add]).run("x"))
    assert result.output == City("Oslo", 7)


def test_a_tool_of_that_name_and_a_response_format_are_refused():
    def final_result(x: int) -> int:
        """Mine."""
        return x

    with pytest.raises(ConfigError, match="final_result"):
        agent(tools=[final_result])
    with pytest.raises(ConfigError, match="response_format"):
        agent(response_format={"type": "json_object"})


# -- partial objects --------------------------------------------------------------------------------------


def partials(events: Any) -> list[Any]:
    return [event.data["output"] for event in events if event.type is EventType.PARTIAL_OUTPUT]


@pytest.mark.parametrize("tools", [[], [add]])
def test_events_carry_the_partial_output(tools):
    said = call("final_result", name="Oslo", people=7) if tools else OSLO
    events = list(agent(said, tools=tools).run_stream("x"))
    found = partials(events)
    assert found[-1] == {"name": "Oslo", "people": 7}
    assert all(set(a) <= set(b) for a, b in itertools.pairwise(found))


def test_a_broken_stream_begins_anew():
    from pure_agent_loop.testing import deltas

    half = deltas('{"name": "Os', LLMError("gone", kind="connection"))
    result = check_result(agent(half, OSLO).run("x"))
    assert result.output == City("Oslo", 7)
    assert partials(result.events)[-1] == {"name": "Oslo", "people": 7}


# -- the three ways ---------------------------------------------------------------------------------------


class Known(ScriptedLLM):
    profile = Profile("known", output_mode="native")


def test_known_schema_server_gets_a_schema_with_tools():
    llm = Known([call("add", a=1, b=2), OSLO])
    mine = agent(llm=llm, tools=[add])
    assert mine.explain("x").output == "native"
    assert check_result(mine.run("x")).output == City("Oslo", 7)
    form = llm.requests[0].options["response_format"]
    assert (type(form), form["type"], form["json_schema"]["strict"]) == (dict, "json_schema", True)
    assert [each["function"]["name"] for each in llm.requests[0].tools or []] == ["add"]
    assert "JSON" not in llm.requests[0].messages[0]["content"]


def test_schema_less_server_with_tools_gets_a_final_tool():
    llm = ScriptedLLM([call("add", a=1, b=2), call("final_result", name="Oslo", people=7)])
    mine = agent(llm=llm, tools=[add])
    assert mine.explain("x").output == "tool"
    result = check_result(mine.run("x"))
    assert result.output == City("Oslo", 7)
    assert [each["function"]["name"] for each in llm.requests[0].tools or []] == ["add", "final_result"]
    assert result.messages[-1] == {"role": "assistant", "content": OSLO}
    assert "response_format" not in llm.requests[0].options


def test_final_result_with_other_calls_is_rejected():
    both = [call("add", a=1, b=2), call("final_result", name="Atlantis", people=0)]
    result = check_result(agent(both, call("final_result", name="Oslo", people=7), tools=[add]).run("x"))
    assert result.output == City("Oslo", 7)


def test_words_before_the_final_call_are_kept():
    llm = ScriptedLLM([["Let me see.", call("final_result", name="Oslo", people=7)]])
    result = check_result(agent(llm=llm, tools=[add]).run("x"))
    assert (result.output, result.content) == (City("Oslo", 7), f"Let me see.\n\n{OSLO}")


def test_without_tools_the_schema_is_put_into_words_and_asked_for():
    llm = ScriptedLLM([OSLO])
    mine = agent(llm=llm)
    explained = mine.explain("x")
    assert (explained.output, "typed answer: prompted" in str(explained)) == ("prompted", True)
    assert '"people"' in explained.request["messages"][0]["content"]
    mine.run("x")
    assert '"people"' in llm.requests[0].messages[0]["content"]
    assert llm.requests[0].options["response_format"]["type"] == "json_schema"


@pytest.mark.parametrize("mode", ["native", "json", "text"])
def test_each_tool_mode_gives_a_typed_answer(mode):
    first = {"json": '{"tool": "add", "arguments": {"a": 1, "b": 2}}'}.get(mode, call("add", a=1, b=2))
    last = {"json": f'{{"tool": "final_answer", "arguments": {OSLO}}}'}.get(mode, OSLO)
    if mode == "text":
        first, last = 'Thought: t\nAction: add\nAction Input: {"a": 1, "b": 2}', f"Final Answer: {OSLO}"
    llm = ScriptedLLM([first, last])
    result = check_result(agent(llm=llm, tools=[add], tool_mode=mode).run("x"))
    assert result.output == City("Oslo", 7)
    assert ("response_format" in llm.requests[0].options) == (mode == "json")


def test_a_field_called_like_the_only_one_survives_the_json_mode():
    @dataclass
    class One:
        name: str

    llm = ScriptedLLM(['{"tool": "final_answer", "arguments": {"name": "Oslo"}}'])
    assert agent(llm=llm, tools=[add], tool_mode="json", output_type=One).run("x").output == One("Oslo")


def test_a_server_that_refuses_the_schema_is_asked_for_less_and_that_is_remembered():
    script = [status(400, "response_format json_schema is not supported"), OSLO, OSLO]
    with ScriptedServer(script) as server:
        mine = agent(llm=None, model="m", base_url=server.base_url, api_key="k")
        assert check_result(mine.run("x")).output == City("Oslo", 7)
        assert check_result(mine.run("x")).output == City("Oslo", 7)
        formats = [request.body["response_format"]["type"] for request in server.requests]
    assert formats == ["json_schema", "json_object", "json_object"]


def test_a_single_round_ends_with_a_typed_answer():
    llm = ScriptedLLM([call("add", a=1, b=2), OSLO])
    assert check_result(agent(llm=llm, tools=[add], mode="single").run("x")).output == City("Oslo", 7)


def test_a_secret_in_a_final_call_is_taken_out():
    @tool
    def nothing() -> str:
        """Nothing."""
        return ""

    key = "correct-horse-battery-staple"
    llm = ScriptedLLM([call("final_result", name=key, people=7)])
    result = check_result(agent(llm=llm, tools=[nothing], redact=Redactor([key])).run("x"))
    assert result.output is not None
    assert key not in json.dumps([event.to_dict() for event in result.events])


# -- sessions ---------------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path):
    return JsonlStore(tmp_path / "s")


def test_an_output_is_recorded_and_its_check_not_asked_again(store):
    mine, asked = agent(WRONG, OSLO, sessions=store), []

    @mine.output_check
    def note(city: City) -> City:
        asked.append(city)
        return City("Rome", 1)

    assert mine.run("x", session_id="s").output == City("Rome", 1)
    again = agent(sessions=store).run(None, session_id="s")
    assert (again.output, len(asked)) == (City("Rome", 1), 1)
    assert_replays(store.read("s").records)


def test_a_run_cut_off_at_any_record_ends_with_the_same_output(store, tmp_path):
    from tests.sessions.cuts import copied

    agent(call("add", a=1, b=2), WRONG, OSLO, tools=[add], sessions=store).run("x", session_id="s")
    records = store.read("s").records
    for count in range(2, len(records)):
        part = copied(records[:count], JsonlStore(tmp_path / str(count)))
        script = ScriptedLLM(lambda messages, *_: OSLO)
        result = agent(llm=script, tools=[add], sessions=part).run(None, session_id="s")
        assert result.output == City("Oslo", 7), count
        assert_replays(part.read("s").records)


def test_another_type_shows_in_a_replay(store):
    agent(OSLO, sessions=store).run("x", session_id="s")
    with pytest.raises(AssertionError, match="output"):
        assert_replays(store.read("s").records, agent=agent(output_type=int))


def test_a_state_keeps_the_output_as_plain_data():
    result = agent(OSLO).run("x")
    plain = json.loads(json.dumps(result.state.to_dict()))
    assert plain["output"] == {"value": {"name": "Oslo", "people": 7}}
    assert QueryState.from_dict(plain) == result.state
    assert agent().run(None, state=plain).output == City("Oslo", 7)


def test_recorded_output_of_another_type_is_reported():
    state = agent(OSLO).run("x").state
    with pytest.raises(ConfigError, match="recorded output"):
        agent(output_type=int).run(None, state=state)


def test_a_durable_run_keeps_the_output_as_json():
    from pure_agent_loop.durable.attempt import outcome_of

    assert outcome_of(agent(OSLO).run("x"))["output"] == {"name": "Oslo", "people": 7}
    assert "output" not in outcome_of(agent(WRONG, output_retries=0).run("x"))


def test_a_conversation_gives_outputs():
    chat = agent(OSLO, WRONG, OSLO).conversation()
    assert chat.send_sync("1").output == chat.send_sync("2").output == City("Oslo", 7)


def task(prompt: str) -> Any:
    return call("task", agent="helper", prompt=prompt)


def test_a_subagent_has_the_output_type_of_its_definition_or_none():
    from tests.subagents.family import HELPER, family, parent

    parents = [task("words"), call("final_result", name="Oslo", people=7)]
    llm = family(parent=parents, helper=["Hm."])
    result = parent(llm, output_type=City).run("x")
    assert result.output == City("Oslo", 7)
    assert "Hm." in str(result.messages)
    typed = replace(HELPER, output_type=City)
    llm = family(parent=[task("typed"), "Done."], helper=["Hm.", OSLO])
    result = parent(llm, typed).run("x")
    assert result.output == "Done."
    assert '"people": 7' in str(result.messages)
    with pytest.raises(ConfigError, match="output_type"):
        replace(HELPER, output_type=object())


def test_any_registry_works():
    assert agent(OSLO, tools=ToolRegistry()).run("x").output == City("Oslo", 7)
