"""Choose by likelihood, then fill in: what is asked of a server that says how likely its tokens are."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from pure_agent_loop import (
    Agent,
    BaseLLMClient,
    ConfigError,
    LLMResponse,
    LoopLimits,
    Profile,
    Tool,
    prompts_for,
    tool,
)
from pure_agent_loop.llm.tool_modes.examples import filled_examples
from pure_agent_loop.llm.tool_modes.fill import numbers_in, pieces_of
from pure_agent_loop.testing import ScriptedLLM, check_history

SMALL = Profile("small", likelihoods=True, able=False, tool_mode="json")
LIKELY, UNLIKELY = -1.0, -20.0


class Likely(BaseLLMClient):
    """A model that finds a name likely where the question holds its word in `likes`, and writes `values`."""

    def __init__(self, likes: dict[str, str], values: list[Any], profile: Profile = SMALL) -> None:
        self.likes, self.values, self.profile = likes, list(values), profile
        self.requests: list[tuple[list[dict[str, Any]], dict[str, Any]]] = []
        self.tells = True

    async def gives_likelihoods(self) -> bool:
        return bool(self.profile.likelihoods)

    async def chat(self, messages: Any, tools: Any = None, **options: Any) -> LLMResponse:
        self.requests.append((messages, options))
        asked = messages[-1]["content"]
        if not options.get("logprobs"):
            value = self.values.pop(0)
            reason = "length" if value == "cut" else "stop"
            text = (
                '{"city": "Os' if value == "cut" else value if isinstance(value, str) else json.dumps(value)
            )
            return LLMResponse(text, finish_reason=reason)
        [text] = options["response_format"]["json_schema"]["schema"]["enum"]
        # read both ways: a name behind the words, and the words behind a name
        pairs = ((asked, text), (text, asked))
        good = any(
            word in said and name.split(":")[0] == liked
            for word, liked in self.likes.items()
            for said, name in pairs
        )
        tokens = [('"', 0.0), (text, LIKELY if good else UNLIKELY), ('"', 0.0)]
        content = [{"token": token, "logprob": likely} for token, likely in tokens]
        raw = {"choices": [{"logprobs": {"content": content} if self.tells else None}]}
        return LLMResponse(json.dumps(text), finish_reason="stop", raw=raw)

    def filled(self) -> list[dict[str, Any]]:
        """The schemas that arguments were asked for with."""
        formats = [options["response_format"] for _, options in self.requests if "max_tokens" in options]
        return [
            each["json_schema"]["schema"] for each in formats if "properties" in each["json_schema"]["schema"]
        ]


@tool(examples=[("How warm is it in Rome?", {"city": "Rome"})])
def weather(city: str) -> str:
    """Say what the weather is like in a city."""
    return f"rain in {city}"


@tool
def clock() -> str:
    """Say what time it is."""
    return "noon"


def calls_of(result: Any) -> list[tuple[str, Any]]:
    return [(e.data["tool"], e.data["args"]) for e in result.events if e.type.value == "action"]


def test_the_likeliest_tool_is_called_and_its_result_is_followed_by_an_answer():
    model = Likely({"umbrella": "weather", "time": "clock"}, [{"city": "Oslo"}, "It rains in Oslo."])
    result = Agent(llm=model, tools=[weather, clock]).run("Do I need an umbrella in Oslo?")
    assert calls_of(result) == [("weather", {"city": "Oslo"})]
    assert (result.content, result.stop_reason) == ("It rains in Oslo.", "completed")
    assert check_history(result.messages) == []
    assert "rain in Oslo" in model.requests[-1][0][-1]["content"]


def test_a_tool_without_arguments_needs_no_request_for_them():
    model = Likely({"time": "clock"}, ["It is noon."])
    assert calls_of(Agent(llm=model, tools=[weather, clock]).run("What time is it?")) == [("clock", {})]


def test_where_nothing_gains_it_answers_and_the_likelihoods_without_content_are_asked_once():
    model = Likely({}, ["Hi.", "Hi again."])
    agent = Agent(llm=model, tools=[weather, clock])
    assert agent.run("Hello").content == "Hi."
    first = len(model.requests)
    assert agent.run("Hello").content == "Hi again."
    assert len(model.requests) - first < first


def test_prefix_before_a_name_is_the_same_for_all_tools():
    @tool
    def diary() -> str:
        """Show the diary."""
        return "empty"

    leads = []
    for offered in (clock, diary):
        model = Likely({}, ["Hi."])
        Agent(llm=model, tools=[offered]).run("What I say is only read")
        asked = [m for m, o in model.requests if offered.name in str(o.get("response_format"))]
        assert [m[-1]["content"] for m in asked] == ["N/A", "What I say is only read"]
        leads.append(asked[0][:-3])
    assert leads[0] == leads[1]


class TwoWays(Likely):
    """It finds names likely by `likes`, and the words behind a tool as `hears` says."""

    hears: dict[str, float]

    async def chat(self, messages: Any, tools: Any = None, **options: Any) -> LLMResponse:
        said = await super().chat(messages, tools, **options)
        asked = messages[-1]["content"].split(":")[0]
        if options.get("logprobs") and asked in ("answer", "weather", "clock"):
            said.raw["choices"][0]["logprobs"]["content"][1]["logprob"] = self.hears[asked]
        return said


@pytest.mark.parametrize(
    ("heard", "called"),
    [
        ({"answer": -20, "weather": -19, "clock": -5}, [("clock", {})]),
        ({"answer": -20, "weather": -5, "clock": -19}, [("weather", {"city": "Oslo"})]),
        ({"answer": -1, "weather": -19, "clock": -19}, []),
    ],
)
def test_name_and_words_decide_together_which_if_any(heard, called):
    model = TwoWays(
        {"time": "weather", "What": "clock"},
        [{"city": "Oslo"}, "So it is."] if "city" in str(called) else ["So it is."],
    )
    model.hears = heard
    assert calls_of(Agent(llm=model, tools=[weather, clock]).run("What time is it in Oslo?")) == called


class Cutting(Likely):
    """It reads as many tokens as it may, of `cuts` letters and `hears` likely, by what was asked."""

    cuts: dict[str, int]
    hears: dict[str, list[float]]

    async def chat(self, messages: Any, tools: Any = None, **options: Any) -> LLMResponse:
        said = await super().chat(messages, tools, **options)
        asked = messages[-1]["content"].split(":")[0]
        if not options.get("logprobs") or asked not in self.cuts:
            return said
        written, size = said.content or "", self.cuts[asked]
        inside = [written[1:-1][i : i + size] for i in range(0, len(written) - 2, size)]
        tokens = ['"', *inside, '"'][: options["max_tokens"]]
        likely = [0.0, *self.hears[asked], *[-1.0] * len(tokens)]
        content = [{"token": each, "logprob": how} for each, how in zip(tokens, likely, strict=False)]
        text = "".join(tokens)
        reason = "stop" if text == written else "length"
        return LLMResponse(text, finish_reason=reason, raw={"choices": [{"logprobs": {"content": content}}]})


@pytest.mark.parametrize(("first", "called"), [(-1.0, []), (-9.0, [("clock", {})])])
def test_likelihood_of_a_name_does_not_depend_on_its_token_count(first, called):
    model = Cutting({}, ["It is noon."])
    model.cuts = {"N/A": 1, "What time is it?": 5}
    model.hears = {"N/A": [first, -9.0, -9.0], "What time is it?": [-2.0]}
    assert calls_of(Agent(llm=model, tools=[clock]).run("What time is it?")) == called


@pytest.mark.parametrize(("named", "called"), [(-1.4, [("clock", {})]), (-1.6, [])])
def test_whether_a_tool_is_called_its_name_says_twice(named, called):
    model = Cutting({}, ["It is noon."])
    model.cuts = {"N/A": 5, "What time is it?": 5, "answer": 20, "clock": 20}
    model.hears = {"N/A": [-1.0], "What time is it?": [named], "answer": [-10.0], "clock": [-1.0]}
    assert calls_of(Agent(llm=model, tools=[clock]).run("What time is it?")) == called


@pytest.mark.parametrize(("heard", "called"), [(-1.0, [("clock", {})]), (-3.0, [])])
def test_of_long_words_the_beginning_is_heard_as_far_as_both_readings_came(heard, called):
    model = Cutting({}, ["It is noon."])
    model.cuts = {"answer": 1, "clock": 3}
    model.hears = {"answer": [-2.0] * 18, "clock": [heard * 3] * 6 + [-90.0 if called else 0.0] * 90}
    result = Agent(llm=model, tools=[clock]).run("I should really like to know what time it is in Oslo")
    assert calls_of(result) == called


def test_words_that_the_server_cannot_write_leave_the_names_to_decide():
    class Other(Likely):
        async def chat(self, messages: Any, tools: Any = None, **options: Any) -> LLMResponse:
            said = await super().chat(messages, tools, **options)
            return replace(said, content='"other"') if "time is" in (said.content or "") else said

    model = Other({"time": "clock"}, ["It is noon.", "It is noon."])
    agent = Agent(llm=model, tools=[weather, clock])
    assert [calls_of(agent.run("What time is it?")) for _ in range(2)] == [[("clock", {})]] * 2


def test_invented_value_is_chosen_among_the_stated_ones():
    model = Likely({"umbrella": "weather"}, [{"city": "Paris"}, {"city": "Oslo"}, "It rains."])
    result = Agent(llm=model, tools=[weather]).run("An umbrella in Oslo?")
    assert calls_of(result) == [("weather", {"city": "Oslo"})]
    again = model.filled()[1]["properties"]["city"]["enum"]
    assert "Oslo" in again
    assert "Paris" not in again


def test_stated_optional_argument_is_passed():
    @tool
    def forecast(city: str, unit: str = "", days: int = 1, hourly: bool = False) -> str:
        """Say what the weather will be like."""
        return "rain"

    written = {"city": "Oslo", "unit": "Kelvin", "days": 3, "hourly": True}
    model = Likely({"umbrella": "forecast"}, [written, "It rains."])
    result = Agent(llm=model, tools=[forecast]).run("An umbrella in Oslo, for the next 3 days?")
    # No text holds a truth, so nobody can say that it was made up.
    assert calls_of(result) == [("forecast", {"city": "Oslo", "days": 3, "hourly": True})]
    assert model.filled()[0]["required"] == ["city"]
    [asked] = [each for each, _ in model.requests if "- city (string):" in each[-1]["content"]]
    assert "- days (integer, optional):" in asked[-1]["content"]


def test_a_value_that_worked_examples_do_not_copy_either_is_kept():
    @tool(examples=[("How much is 6 times 7?", {"expression": "6 * 7", "unit": "times"})])
    def reckon(expression: str, unit: str) -> str:
        """Calculate."""
        return "391"

    model = Likely({"much": "reckon"}, [{"expression": "17 * 23", "unit": "x"}, {"unit": "17"}, "391."])
    Agent(llm=model, tools=[reckon]).run("How much is 17 times 23?")
    assert model.filled()[1]["properties"]["expression"] == {"const": "17 * 23"}
    assert "17" in model.filled()[1]["properties"]["unit"]["enum"]


def test_capable_model_keeps_its_value_writes_several_calls_and_continues():
    able = replace(SMALL, able=True)
    values = [
        [{"city": "Paris"}, {"city": "Rome"}],
        {"tool": "final_answer", "arguments": {"answer": "Both."}},
    ]
    model = Likely({"umbrella": "weather"}, values, able)
    result = Agent(llm=model, tools=[weather]).run("An umbrella there?")
    assert calls_of(result) == [("weather", {"city": "Paris"}), ("weather", {"city": "Rome"})]
    assert result.content == "Both."


@pytest.mark.parametrize("solves", [True, False])
def test_a_model_is_tried_on_worked_examples_once(solves):
    solutions = [shot.calls for shot in filled_examples(prompts_for("en"))]
    tried = solutions if solves else [[{"restaurant": "Oslo"}]]
    first = [{"city": "Oslo"}]
    after = {"tool": "final_answer", "arguments": {"answer": "Done."}} if solves else "Done."
    model = Likely(
        {"umbrella": "weather"}, [*tried, first if solves else first[0], after], replace(SMALL, able=None)
    )
    result = Agent(llm=model, tools=[weather]).run("An umbrella in Oslo?")
    assert (calls_of(result), result.content) == ([("weather", {"city": "Oslo"})], "Done.")


def test_a_server_that_does_not_tell_is_asked_for_one_action():
    model = Likely({"umbrella": "weather"}, [{"tool": "final_answer", "arguments": {"answer": "No."}}])
    model.tells = False
    assert Agent(llm=model, tools=[weather]).run("An umbrella?").content == "No."


def test_arguments_that_were_cut_off_are_told_to_the_model_and_never_run():
    model = Likely({"umbrella": "weather"}, ["cut", "Sorry."])
    result = Agent(llm=model, tools=[weather]).run("An umbrella in Oslo?")
    assert result.content == "Sorry."
    assert [e.data["is_error"] for e in result.events if e.type.value == "observation"] == [True]


def test_constrained_output_that_was_cut_off_is_never_continued():
    def cut(messages: Any, tools: Any, options: Any) -> LLMResponse:
        return LLMResponse('{"tool": "final_answer", "arguments": {"answer": "It is', finish_reason="length")

    class Cut(BaseLLMClient):
        async def chat(self, messages: Any, tools: Any = None, **options: Any) -> LLMResponse:
            return cut(messages, tools, options)

    result = Agent(llm=Cut(), tools=[weather], tool_mode="json").run("?")
    assert result.stop_reason == "output_limit"
    assert result.content.startswith("It is")
    assert result.steps == 1


@pytest.mark.parametrize(("mode", "shown"), [("json", True), ("text", True), ("native", False)])
def test_worked_examples_are_shown_where_tools_are_words(mode, shown):
    script = {"json": '{"tool": "final_answer", "arguments": {"answer": "No."}}', "text": "Final Answer: No."}
    with ScriptedLLM([script.get(mode, "No.")]) as llm:
        Agent(llm=llm, tools=[weather], tool_mode=mode).run("?")
    asked = llm.requests[0]
    assert ("in Rome" in json.dumps(asked.messages)) == shown
    assert "in Rome" not in json.dumps(asked.tools)


@pytest.mark.parametrize("examples", [["x"], [("x", "y")], [(1, {})], [("a", {}, 2)]])
def test_an_example_of_another_shape_is_refused(examples):
    with pytest.raises(ConfigError, match="an example must be"):
        Tool(weather.function, examples=examples)


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "clock"}}])
def test_a_call_that_has_to_be_made_is_made(choice):
    model = Likely({}, ["Noon."])
    agent = Agent(llm=model, tools=[clock, weather], limits=LoopLimits(max_turns=1), tool_choice=choice)
    assert calls_of(agent.run("Hello")) == [("clock", {})]


def test_constrained_output_leaves_no_answer_where_a_call_has_to_be_made():
    script = ['{"tool": "clock", "arguments": {}}', "Noon."]
    with ScriptedLLM(script) as llm:
        agent = Agent(
            llm=llm,
            tools=[weather, clock],
            tool_mode="json",
            limits=LoopLimits(max_turns=1),
            tool_choice="required",
        )
        result = agent.run("?")
    assert calls_of(result) == [("clock", {})]
    assert "final_answer" not in json.dumps(llm.requests[0].options["response_format"])


@pytest.mark.parametrize(
    ("mode", "choice", "why"),
    [
        ("text", "required", "cannot be enforced"),
        ("json", {"type": "function", "function": {"name": "rain"}}, "does not name a tool"),
        ("json", "always", "does not name a tool"),
    ],
)
def test_a_choice_that_cannot_be_held_is_refused(mode, choice, why):
    with ScriptedLLM([]) as llm:
        result = Agent(llm=llm, tools=[weather], tool_mode=mode, tool_choice=choice).run("?")
    assert result.stop_reason == "error"
    assert why in str(result.error)


def test_worked_examples_can_be_replaced_and_other_shapes_are_refused():
    shown = replace(prompts_for("en"), worked_examples={"chosen": [("Feed the cat.", "feed", "Feed a pet.")]})
    model = Likely({}, ["Hi."])
    Agent(llm=model, tools=[weather], prompts=shown).run("Hello")
    assert "Feed the cat." in json.dumps(model.requests[0][0])
    assert "Blue Garden" not in json.dumps(model.requests[0][0])
    for wrong in ({"choose": []}, {"chosen": ["Feed"]}):
        with pytest.raises(ConfigError, match="worked_examples"):
            Agent(llm=model, tools=[weather], prompts=replace(shown, worked_examples=wrong), tool_mode="json")


def test_pieces_and_numbers_of_a_text():
    assert {"Oslo", "in Oslo", "St. John's"} <= set(pieces_of("rain in Oslo, or St. John's?"))
    assert numbers_in("3 of 1,000 and -2.5, not a4") == [3, 1000, -2.5]
