"""Requests of the Messages protocol: what is written for a history, its tools and options."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.llm.anthropic.families import FAMILIES, OTHER, ClaudeFamily, family_for
from pure_agent_loop.llm.anthropic.request import RequestWriter
from pure_agent_loop.llm.profiles import AnswerFormat, DefaultFloat, DefaultText
from pure_agent_loop.testing.protocols import check_messages_request
from tests.llm.protocols.typed import assert_typed

ORIGIN = "https://api.anthropic.com m"
SAMPLING = ("temperature", "top_p", "top_k")
PNG = "data:image/png;base64,iVBORw0KGgo="
PDF = "data:application/pdf;base64,JVBERi0="
ADD = {
    "type": "function",
    "function": {"name": "add", "description": "Add.", "parameters": {"type": "object"}},
}


def write(messages, tools=None, options=None, *, model="claude-opus-4-6", level=None, **settings):
    writer = RequestWriter(model, family_for(model), level, ORIGIN, **settings)
    request = writer.write(messages, tools, options or {}, stream=False)
    headers = {"anthropic-version": family_for(model).version, "anthropic-beta": ",".join(request.betas)}
    assert check_messages_request(request.body, headers) == []
    if family_for(model) is not OTHER:  # other vendors' thinking has no budget
        # The types are those of the newest API version, which has no sampling fields.
        assert_typed({name: field for name, field in request.body.items() if name not in SAMPLING})
    return request


def body(*arguments, **settings):
    return write(*arguments, **settings).body


def user(content):
    return {"role": "user", "content": content}


def calls(*names, content=None, **fields):
    made = [
        {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": '{"a": 1}'}}
        for number, name in enumerate(names)
    ]
    return {"role": "assistant", "content": content, "tool_calls": made, **fields}


def result(number, content="3"):
    return {"role": "tool", "tool_call_id": f"c{number}", "content": content}


def unmarked(messages):
    return [
        {**m, "content": [{k: v for k, v in block.items() if k != "cache_control"} for block in m["content"]]}
        for m in messages
    ]


def test_results_of_a_round_are_one_message_and_come_first():
    history = [user("q"), calls("add", "add"), result(0), result(1), user("and now?")]
    written = unmarked(body([{"role": "system", "content": "s"}, *history], [ADD])["messages"])
    assert [m["role"] for m in written] == ["user", "assistant", "user"]
    assert written[1]["content"] == [
        {"type": "tool_use", "id": f"c{number}", "name": "add", "input": {"a": 1}} for number in (0, 1)
    ]
    assert [block["type"] for block in written[2]["content"]] == ["tool_result", "tool_result", "text"]


def test_images_and_files_are_blocks():
    parts = [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": PNG}},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": PDF}},
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
    ]
    blocks = unmarked(body([user(parts)])["messages"])[0]["content"]
    assert [block["type"] for block in blocks] == ["text", "image", "image", "document", "text"]
    assert blocks[1]["source"] == {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    assert blocks[2]["source"] == {"type": "url", "url": "https://example.org/a.png"}
    assert blocks[3]["source"]["media_type"] == "application/pdf"
    assert blocks[3]["title"] == "a.pdf"


def test_blank_texts_and_empty_answers_are_left_out():
    history = [user("q"), {"role": "assistant", "content": ""}, user("   "), user("r")]
    assert unmarked(body(history)["messages"]) == [
        {"role": "user", "content": [{"type": "text", "text": "q"}, {"type": "text", "text": "r"}]}
    ]


def test_a_history_begins_and_ends_with_the_user():
    written = unmarked(body([{"role": "assistant", "content": "hello"}])["messages"])
    assert [m["role"] for m in written] == ["user", "assistant", "user"]


def test_ids_of_other_servers_are_cleaned_and_stay_different():
    history = [user("q")]
    for number in ("a.b", "a b"):
        call = {"id": number, "type": "function", "function": {"name": "add", "arguments": "{}"}}
        history += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": number, "content": "1"},
        ]
    written = body(history, [ADD])["messages"]
    ids = [b["id"] for m in written for b in m["content"] if b["type"] == "tool_use"]
    assert len(set(ids)) == 2


def test_calls_of_a_history_without_tools_are_declared_and_not_called():
    written = body([user("q"), calls("gone"), result(0)], caches=False)
    assert written["tools"] == [{"name": "gone", "input_schema": {"type": "object"}}]
    assert written["tool_choice"] == {"type": "none"}


def test_server_tools_pass_through():
    search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 2}
    assert body([user("q")], [ADD, search], caches=False)["tools"][1] == search


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", {"type": "auto"}),
        ("required", {"type": "any"}),
        ("none", {"type": "none"}),
        ({"type": "function", "function": {"name": "add"}}, {"type": "tool", "name": "add"}),
    ],
)
def test_tool_choice_is_translated(choice, expected):
    assert body([user("q")], [ADD], {"tool_choice": choice})["tool_choice"] == expected


def test_single_calls_are_asked_for():
    written = body([user("q")], [ADD], {"parallel_tool_calls": False})
    assert written["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}


def test_options_of_chat_completions_have_their_counterparts():
    options = {"max_completion_tokens": 99, "stop": "END", "user": "u1", "temperature": 0.2, "timeout": 3}
    written = body([user("q")], None, options)
    assert (written["max_tokens"], written["stop_sequences"]) == (99, ["END"])
    assert (written["metadata"], written["temperature"]) == ({"user_id": "u1"}, 0.2)
    assert "timeout" not in written


def test_defaults_are_dropped_where_the_protocol_has_none():
    options = {"temperature": DefaultFloat(0.7), "seed": DefaultFloat(1.0)}
    written = body([user("q")], None, options, model="claude-fable-5-2")
    assert not {"temperature", "seed"} & set(written)


@pytest.mark.parametrize(
    ("model", "level", "options", "words"),
    [
        ("claude-opus-4-6", None, {"seed": 3}, "seed has no counterpart"),
        ("claude-opus-4-7", None, {"temperature": 0.1}, "temperature=0.1: Claude Opus 4.7"),
        ("claude-sonnet-5-5", None, {"tool_choice": "required"}, "tool_choice='required': Claude Sonnet 5.5"),
        ("claude-haiku-4-5", "high", {"tool_choice": "required"}, "thinking_level='off'"),
        ("claude-haiku-4-5", "high", {"max_tokens": 2000}, "max_tokens=2000 must exceed"),
        ("claude-opus-5-5", "off", {}, "always thinks"),
        ("claude-3-haiku-20240307", "low", {}, "cannot think"),
        (
            "claude-3-7-sonnet",
            None,
            {"response_format": {"type": "json_schema"}},
            "response_format: Claude 3.7",
        ),
        ("claude-haiku-4-5", None, {"reasoning_effort": "low"}, "effort 'low' is not supported"),
    ],
)
def test_what_a_model_rejects_is_refused_before_a_request(model, level, options, words):
    with pytest.raises(ConfigError, match=words):
        write([user("q")], [ADD], options, model=model, level=level)


def test_a_forced_call_by_default_is_dropped_where_it_is_rejected():
    options = {"tool_choice": DefaultText("required")}
    assert "tool_choice" not in body([user("q")], [ADD], options, model="claude-sonnet-5-5")


MODELS = (
    "claude-3-haiku-20240307",
    "claude-3-7-sonnet-latest",
    "claude-opus-4-1",
    "claude-opus-4-5",
    "claude-haiku-4-5",
    "claude-sonnet-4-6",
    "claude-opus-4-8",
    "claude-sonnet-5",
    "claude-fable-5",
    "claude-haiku-5-5",
    "claude-sonnet-5-5",
    "claude-opus-5-5",
    "claude-mythos-5-1",
    "claude-fable-5-2",
    "deepseek-chat",
)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("level", [None, "off", "low", "medium", "high"])
def test_every_level_of_every_family_is_accepted_or_refused(model, level):
    family = family_for(model)
    try:
        family.thinking_fields(level)
    except ConfigError:
        assert family.off is None or family.thinking == "none"
        return
    body([user("q")], [ADD], model=model, level=level)


def test_each_family_is_met_by_a_model():
    assert {family_for(model).name for model in MODELS} >= {family.name for family in FAMILIES}


def test_a_typed_answer_is_a_closed_schema():
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 1}, "minimum": {"type": "string"}},
        "required": ["n"],
    }
    form = AnswerFormat({"type": "json_schema", "json_schema": {"name": "x", "schema": schema}})
    written = body([user("q")], None, {"response_format": form})["output_config"]["format"]["schema"]
    assert written["additionalProperties"] is False
    assert written["properties"] == {"n": {"type": "integer"}, "minimum": {"type": "string"}}


# -- blocks of earlier responses --------------------------------------------------------------------------

THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "sig"}


def thoughtful(*names, origin=ORIGIN, after="", content="ok", **fields):
    blocks = [THOUGHT, {"type": "text", "text": content}]
    blocks += [
        {"type": "tool_use", "id": f"c{n}", "name": name, "input": {"a": 1}} for n, name in enumerate(names)
    ]
    extra = {
        "content_blocks": blocks,
        "meta": {"origin": origin},
        **({"blocks_after": after} if after else {}),
    }
    message = {"role": "assistant", "content": content, **extra, **fields}
    return {**calls(*names, content=content), **message} if names else message


def kinds(request, number):
    return [block["type"] for block in request.body["messages"][number]["content"]]


def test_thinking_goes_back_to_its_own_model():
    assert kinds(write([user("q"), thoughtful("add"), result(0)], [ADD]), 1) == [
        "thinking",
        "text",
        "tool_use",
    ]


def test_thinking_of_another_model_is_left_out():
    history = [user("q"), thoughtful("add", origin="https://api.anthropic.com other"), result(0)]
    assert kinds(write(history, [ADD]), 1) == ["text", "tool_use"]


@pytest.mark.parametrize("changes", [{"content": "another text"}, {"tool_calls": []}])
def test_thinking_of_a_changed_message_is_left_out(changes):
    results = [] if changes.get("tool_calls") == [] else [result(0)]
    history = [user("q"), {**thoughtful("add"), **changes}, *results, user("r")]
    assert "thinking" not in kinds(write(history, [ADD]), 1)


def bound(history, tools):
    """The history with its last answer, bound to what came before it."""
    after = write(history, tools, model="claude-fable-5-2").prefix
    return [*history, thoughtful(after=after)]


def test_bound_thinking_stays_after_the_same_bytes():
    history = [*bound([{"role": "system", "content": "s"}, user("q")], [ADD]), user("r")]
    request = write(history, [ADD], model="claude-fable-5-2")
    assert kinds(request, 1) == ["thinking", "text"]
    assert request.left_out == ()


@pytest.mark.parametrize("change", ["system", "tools", "question"])
def test_bound_thinking_is_left_out_after_other_bytes(change):
    history = [*bound([{"role": "system", "content": "s"}, user("q")], [ADD]), user("r")]
    tools = [ADD]
    if change == "tools":
        tools = [{**ADD, "function": {**ADD["function"], "description": "Sum."}}]
    elif change == "system":
        history[0] = {"role": "system", "content": "other"}
    else:
        history[1] = user("another question")
    request = write(history, tools, model="claude-fable-5-2")
    assert kinds(request, 1) == ["text"]
    assert len(request.left_out) == 1


def test_later_thinking_falls_with_what_came_before_it():
    history = bound([{"role": "system", "content": "s"}, user("q")], [ADD])
    history = bound([*history, user("r")], [ADD])
    history[1] = user("changed")
    request = write([*history, user("t")], [ADD], model="claude-fable-5-2")
    assert [kinds(request, number) for number in (1, 3)] == [["text"], ["text"]]


def test_thinking_after_a_change_is_valid_again():
    history = bound([{"role": "system", "content": "s"}, user("q")], [ADD])
    history[1] = user("changed")
    history = bound([*history, user("r")], [ADD])
    request = write([*history, user("t")], [ADD], model="claude-fable-5-2")
    assert [kinds(request, number) for number in (1, 3)] == [["text"], ["thinking", "text"]]


def test_the_open_round_leaves_its_thinking_to_the_server():
    before = [{"role": "system", "content": "s"}, user("q")]
    after = write(before, [ADD], model="claude-fable-5-2").prefix
    history = [*before, thoughtful("add", after=after), result(0)]
    other = [{**ADD, "function": {**ADD["function"], "description": "Sum."}}]
    request = write(history, other, model="claude-fable-5-2")
    assert kinds(request, 1)[0] == "thinking"
    assert request.body["thinking"]["block_binding"] == {"prefix_mismatch_behavior": "drop_block"}
    assert request.betas == ("thinking-binding-controls-2026-08-01",)


@pytest.mark.parametrize(("before", "now"), [(True, None), (False, "low"), (True, "low"), (False, None)])
def test_an_open_round_fits_the_thinking_of_models_with_a_budget(before, now):
    call_of_round = thoughtful("add") if before else calls("add", content="ok")
    request = write([user("q"), call_of_round, result(0)], [ADD], model="claude-haiku-4-5", level=now)
    assert ("thinking" in request.body) == (before and now is not None)
    assert ("thinking" in kinds(request, 1)) == (before and now is not None)


def test_neighbours_begin_with_thinking_or_have_none():
    history = [user("q"), {"role": "assistant", "content": "a"}, user(" "), thoughtful(), user("r")]
    assert kinds(write(history), 1) == ["text", "text"]


def test_a_text_file_is_text():
    file = {"type": "file", "file": {"filename": "a.txt", "file_data": "data:text/plain;base64,aGk="}}
    block = body([user([file])], caches=False)["messages"][0]["content"][0]
    assert block["source"] == {"type": "text", "media_type": "text/plain", "data": "hi"}


# -- cache marks -------------------------------------------------------------------------------------------


def marks(request):
    blocks = [*request["system"], *(b for m in request["messages"] for b in m["content"])]
    return [number for number, block in enumerate(blocks) if "cache_control" in block]


def test_the_fixed_prefix_and_the_end_are_marked():
    written = body([{"role": "system", "content": "s"}, user("q"), calls("add"), result(0)], [ADD])
    assert marks(written) == [0, 3]


def test_long_histories_have_marks_within_the_servers_reach():
    history = [{"role": "system", "content": "s"}]
    for _ in range(40):
        history += [user("q"), {"role": "assistant", "content": "a"}]
    places = marks(body([*history, user("r")]))
    assert len(places) == 4
    assert places[-1] == 81
    assert all(b - a <= 15 for a, b in itertools.pairwise(places[1:]))


def test_marks_can_be_switched_off():
    assert marks(body([{"role": "system", "content": "s"}, user("q")], caches=False)) == []


# -- any history --------------------------------------------------------------------------------------------

TEXTS = st.sampled_from(["", " ", "a", "b c", "\ud800"])


@st.composite
def histories(draw):
    history = [{"role": "system", "content": "s"}] if draw(st.booleans()) else []
    count = 0
    for _ in range(draw(st.integers(1, 6))):
        role = draw(st.sampled_from(["user", "assistant", "round", "thought"]))
        content = draw(TEXTS)
        if role == "round":
            ids = [f"call.{count + n}" for n in range(draw(st.integers(1, 3)))]
            count += len(ids)
            made = [
                {"id": i, "type": "function", "function": {"name": "add", "arguments": "{}"}} for i in ids
            ]
            history.append({"role": "assistant", "content": content or None, "tool_calls": made})
            history += [{"role": "tool", "tool_call_id": i, "content": draw(TEXTS)} for i in ids]
        elif role == "thought":
            history.append(thoughtful(content=content, after=draw(st.sampled_from(["", "x"]))))
        else:
            history.append({"role": role, "content": content})
    return history


@given(
    histories(), st.booleans(), st.sampled_from(["claude-opus-4-6", "claude-fable-5-2", "claude-haiku-4-5"])
)
def test_any_history_is_accepted(history, has_tools, model):
    writer = RequestWriter(model, family_for(model), None, ORIGIN)
    request = writer.write(history, [ADD] if has_tools else None, {}, stream=True)
    headers = {"anthropic-version": "x", "anthropic-beta": ",".join(request.betas)}
    assert check_messages_request(request.body, headers) == []
    assert_typed(json.loads(json.dumps(request.body)))


def test_a_family_of_your_own_comes_first():
    mine = ClaudeFamily("mine", "^my-model$", "none")
    FAMILIES.insert(0, mine)
    try:
        assert family_for("my-model") is mine
    finally:
        FAMILIES.remove(mine)
