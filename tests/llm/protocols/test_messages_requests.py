"""Requests of the Messages protocol: what is written for a history, its tools and options."""

import dataclasses
import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from llm_client_conformance.protocols import check_messages_request
from llm_client_conformance.protocols.messages import model_info
from llm_client_conformance.protocols.messages_answers import IssuedThinking
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.llm.anthropic.families import FAMILIES, OTHER, ClaudeFamily, family_for, refined
from pure_agent_loop.llm.anthropic.request import RequestWriter
from pure_agent_loop.llm.profiles import AnswerFormat, DefaultFloat, DefaultText
from tests.llm.protocols.histories import histories
from tests.llm.protocols.typed import HAS_TYPES, assert_typed

if HAS_TYPES:
    from anthropic.types import ModelInfo

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
        typed = {name: field for name, field in request.body.items() if name not in SAMPLING}
        assert_typed(typed, is_beta=bool(request.betas))
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


def test_a_failed_result_is_an_error():
    failed = {**result(1, "no such file"), "meta": {"failed": True}}
    written = unmarked(body([user("q"), calls("add", "add"), result(0), failed], [ADD])["messages"])
    good, bad = written[2]["content"]
    assert good == {"type": "tool_result", "tool_use_id": "c0", "content": "3"}
    assert (bad["content"], bad["is_error"]) == ("no such file", True)


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


def test_images_and_files_of_a_result_are_inside():
    parts = [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": PNG}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": PDF}},
    ]
    written = unmarked(body([user("q"), calls("add"), result(0, parts)], [ADD])["messages"])
    assert [block["type"] for block in written[2]["content"][0]["content"]] == ["text", "image", "document"]


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


def test_long_ids_are_shortened_alike_in_call_and_result():
    history = [user("q")]
    for number in ("x" * 65 + "a", "x" * 65 + "b", "y" * 64):
        call = {"id": number, "type": "function", "function": {"name": "add", "arguments": "{}"}}
        history += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": number, "content": "1"},
        ]
    written = body(history, [ADD])["messages"]
    blocks = [b for m in written for b in m["content"]]
    ids = [b["id"] for b in blocks if b["type"] == "tool_use"]
    assert len(set(ids)) == 3
    assert ids == [b["tool_use_id"] for b in blocks if b["type"] == "tool_result"]
    assert ids[2] == "y" * 64
    assert ids == [b["id"] for m in body(history, [ADD])["messages"] for b in m["content"] if "id" in b]


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
        ("claude-haiku-4-5", "high", {"tool_choice": "required"}, "thinking_level='none'"),
        ("claude-haiku-4-5", "high", {"max_tokens": 2000}, "max_tokens=2000 must exceed"),
        ("claude-opus-5-5", "none", {}, "always thinks"),
        ("claude-3-haiku-20240307", "low", {}, "cannot think"),
        (
            "claude-3-7-sonnet",
            None,
            {"response_format": {"type": "json_schema"}},
            "response_format: Claude 3.7",
        ),
        ("claude-haiku-4-5", None, {"reasoning_effort": "low"}, "effort 'low' is not supported"),
        ("claude-haiku-4-5", "low", {"temperature": 0.5}, "temperature=0.5: Claude Sonnet 4.5 and Haiku 4.5"),
        ("claude-opus-4-6", "low", {"temperature": 0}, "while it thinks"),
        ("claude-opus-4-6", "low", {"top_k": 5}, "top_k=5"),
        ("claude-opus-4-6", None, {"top_p": 0.9, "thinking": {"type": "adaptive"}}, "top_p=0.9"),
    ],
)
def test_rejected_option_of_a_model_fails_before_a_request(model, level, options, words):
    with pytest.raises(ConfigError, match=words):
        write([user("q")], [ADD], options, model=model, level=level)


def test_sampling_with_thinking_is_sent_where_accepted():
    written = body([user("q")], None, {"temperature": 1, "top_p": 0.95}, level="low")
    assert (written["temperature"], written["top_p"]) == (1, 0.95)
    assert body([user("q")], None, {"temperature": 0.5}, level="none")["temperature"] == 0.5


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
    "claude-opus-4-7",
    "claude-opus-4-8",
    "claude-sonnet-5",
    "claude-opus-5",
    "claude-fable-5",
    "claude-haiku-5-5",
    "claude-sonnet-5-5",
    "claude-opus-5-5",
    "claude-mythos-5-1",
    "claude-fable-5-2",
    "deepseek-chat",
)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("level", [None, "none", "low", "medium", "high"])
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


@pytest.mark.parametrize("model", MODELS)
def test_server_list_agrees_with_the_table(model):
    """Any family may be refined by what is listed of any model; nothing but the name decides the rest."""
    if family_for(model) is OTHER:
        return
    info = model_info(model)
    if HAS_TYPES:
        TypeAdapter(ModelInfo).validate_python(info)
    listed = family_for(model)
    assert refined(listed, info) == listed
    strange = refined(ClaudeFamily("strange", "", "none", off=None, efforts=(), takes_format=False), info)
    for name in ("thinking", "off", "efforts", "takes_format", "max_output"):
        assert getattr(strange, name) == getattr(listed, name), name


@pytest.mark.parametrize("info", [{}, {"capabilities": ["completion"], "max_tokens": "many"}, {"id": "x"}])
def test_price_unlisted_by_a_server_is_kept(info):
    assert refined(family_for("claude-opus-4-6"), info) == family_for("claude-opus-4-6")


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
    after = write(history, tools, model="claude-fable-5-2").kept["blocks_after"]
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


def test_later_thinking_is_dropped_with_its_prefix():
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
    after = write(before, [ADD], model="claude-fable-5-2").kept["blocks_after"]
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


# -- tools that change, summaries -------------------------------------------------------------------------


TOOL = {"name": "old", "input_schema": {"type": "object"}}
ADDED = {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": {**TOOL, "name": "new"}}}


def changing(history, *tools):
    """A history of `claude-fable-5-2`, each response after one of these lists of tools."""
    for listed in tools:
        history = [*history, user("q")]
        history.append({**thoughtful(), **write(history, listed, model="claude-fable-5-2").kept})
    return history


LOOK = {**ADD, "function": {**ADD["function"], "name": "look"}}
SEARCH = {"type": "web_search_20250305", "name": "add"}


def roles(request):
    return [message["role"] for message in request.body["messages"]]


@pytest.mark.parametrize(
    ("now", "entries", "left_out"),
    [
        ([ADD], [], 0),
        ([LOOK, ADD], ["tool_addition"], 0),  # the order says nothing
        ([{**ADD, "function": {**ADD["function"], "description": "Sum."}}], ["tool_addition"], 0),
        ([LOOK], ["tool_removal", "tool_addition"], 0),
        (None, [], 0),  # no call is allowed
        ([ADD, {"type": "computer_toolset_20260801", "name": "computer"}], [], 1),
        ([SEARCH], [], 1),  # another type of tool with the same name
        ([ADD, {"type": "mcp_toolset", "mcp_server_name": "x"}], [], 1),
    ],
)
def test_tools_are_changed_by_an_entry(now, entries, left_out):
    writer = RequestWriter("claude-fable-5-2", family_for("claude-fable-5-2"), None, ORIGIN, caches=False)
    request = writer.write([*changing([], [ADD]), user("r")], now, {}, stream=False)
    last = request.body["messages"][-1]
    assert [block["type"] for block in last["content"] if last["role"] == "system"] == entries
    assert len(request.left_out) == left_out
    assert request.body["tools"][0]["name"] == "add"
    assert request.betas == (("inline-tools-2026-09-15",) if entries else ())


def test_tools_of_a_model_that_takes_no_changes_are_those_of_now():
    history = changing([], [ADD])
    family = dataclasses.replace(family_for("claude-fable-5-2"), takes_tool_changes=False)
    request = RequestWriter("claude-fable-5-2", family, None, ORIGIN).write(
        [*history, user("r")], [ADD, LOOK], {}, stream=False
    )
    assert roles(request) == ["user", "assistant", "user"]
    assert len(request.body["tools"]) == 2
    assert len(request.left_out) == 1


def test_a_response_that_was_cut_away_takes_its_entry_with_it():
    history = changing([], [ADD], [ADD, LOOK], [ADD, LOOK])
    del history[3]
    request = write([*history, user("r")], [ADD, LOOK], model="claude-fable-5-2")
    assert roles(request) == ["user", "assistant", "user", "assistant", "user", "system"]
    assert len(request.left_out) == 1


@pytest.mark.parametrize(
    "damage",
    [{"tools_at_start": "add"}, {"tools_at_start": [1]}, {"tool_changes": "add"}, {"tool_changes": [{}]}],
)
def test_a_damaged_record_of_tools_changes_nothing(damage):
    first, second, third, fourth = changing([], [ADD], [ADD, LOOK])
    history = [first, second, third, {**fourth, **damage}, user("r")]
    request = write(history, [ADD], model="claude-fable-5-2")
    assert [tool["name"] for tool in request.body["tools"]] == ["add"]
    assert roles(request) == ["user", "assistant", "user", "assistant", "user"]


def test_changed_tools_in_a_summary_apply():
    summary = {"type": "compaction", "content": "s", "signature": "g", "tool_changes": [ADDED]}
    message = {"role": "assistant", "content": "s", "content_blocks": [summary], "meta": {"origin": ORIGIN}}
    message |= {"tools_at_start": [TOOL]}
    new = {"type": "function", "function": {"name": "new", "parameters": {"type": "object"}}}
    old = {"type": "function", "function": {"name": "old", "parameters": {"type": "object"}}}
    request = write([user("gone"), message, user("r")], [old, new], model="claude-fable-5-2")
    assert roles(request) == ["assistant", "user"]
    assert [tool["name"] for tool in request.body["tools"]] == ["old"]
    assert request.betas == ("inline-tools-2026-09-15", "compact-2026-09-04")
    assert roles(write([user("gone"), {**message, "content": "changed"}], [old])) == [
        "user",
        "assistant",
        "user",
    ]


def test_two_ways_to_sum_up_exclude_each_other():
    options = {"compaction": {"type": "summarize"}, "extra_body": {"context_management": {"edits": []}}}
    with pytest.raises(ConfigError, match="compaction and context_management"):
        write([user("q")], None, options)


def entry(*blocks):
    return {"role": "system", "content": list(blocks)}


GONE = {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "gone"}}
ANSWER = {"role": "assistant", "content": [{"type": "text", "text": "a"}]}
PLAIN_SUMMARY = {"role": "assistant", "content": [{"type": "compaction", "content": "s"}]}
SIGNED = {"role": "assistant", "content": [{"type": "compaction", "content": "s", "signature": "g"}]}


@pytest.mark.parametrize(
    ("messages", "fields", "words"),
    [
        ([entry(ADDED), user("q")], {}, "must follow a user"),
        ([user("q"), entry(ADDED), user("q")], {}, "must follow a user"),
        ([user("q"), ANSWER, entry(ADDED)], {}, "must follow a user"),
        ([user("q"), entry(ADDED)], {"model": "claude-sonnet-5"}, "not supported by this model"),
        ([user("q"), entry(ADDED)], {"betas": ""}, "needs the beta inline-tools"),
        ([user("q"), entry(GONE)], {}, "tool_reference_unresolved"),
        ([user("q"), SIGNED, user("q")], {}, "compaction_block_misplaced"),
        ([SIGNED, user("q")], {"betas": ""}, "needs the beta compact-2026-09-04"),
        ([SIGNED, user("q")], {}, "compaction_content_mismatch"),
        ([user("q"), PLAIN_SUMMARY, user("q")], {}, "require a compact_20260112"),
        ([user("q")], {"compaction": {}, "context_management": {}}, "cannot be combined"),
        ([user("q")], {"tools": [{**TOOL, "defer_loading": True, "cache_control": {}}]}, "deferred tool"),
    ],
)
def test_the_strict_server_refuses(messages, fields, words):
    betas = fields.pop("betas", "inline-tools-2026-09-15,compact-2026-09-04")
    sent = {"model": "claude-fable-5-2", "max_tokens": 9, "tools": [TOOL], "messages": messages, **fields}
    headers = {"anthropic-version": "x", "anthropic-beta": betas}
    problems = check_messages_request(sent, headers, issued=IssuedThinking())
    assert words in "\n".join(problems)


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


def test_a_deferred_tool_has_no_mark():
    tools = [{**TOOL, "name": str(number), "defer_loading": number > 0} for number in range(3)]
    written = body([user("q")], tools)
    assert ["cache_control" in tool for tool in written["tools"]] == [True, False, False]


def test_marks_can_be_switched_off():
    assert marks(body([{"role": "system", "content": "s"}, user("q")], caches=False)) == []


# -- any history --------------------------------------------------------------------------------------------

TEXTS = st.sampled_from(["", " ", "a", "b c", "\ud800"])


def thought(draw, content):
    changed = draw(st.sampled_from([{}, {"tools_at_start": [TOOL]}, {"tool_changes": [ADDED]}]))
    return thoughtful(content=content, after=draw(st.sampled_from(["", "x"])), **changed)


@given(
    histories(thought, TEXTS),
    st.booleans(),
    st.sampled_from(["claude-opus-4-6", "claude-fable-5-2", "claude-haiku-4-5"]),
)
def test_any_history_is_accepted(history, has_tools, model):
    writer = RequestWriter(model, family_for(model), None, ORIGIN)
    request = writer.write(history, [ADD] if has_tools else None, {}, stream=True)
    headers = {"anthropic-version": "x", "anthropic-beta": ",".join(request.betas)}
    assert check_messages_request(request.body, headers) == []
    assert_typed(json.loads(json.dumps(request.body)), is_beta=bool(request.betas))


def row_of(family):
    """The row of a family in the table of `docs/anthropic.md`."""
    effort = ", ".join(family.efforts) or "no"
    off = "always thinks" if family.off is None else "yes"
    choice = {"yes": "yes", "no": "no", "without_thinking": "without thinking"}[family.takes_forced_choice]
    words = [
        family.name,
        {"none": "none", "budget": "a budget", "adaptive": "adaptive", "enabled": "on or off"}[
            family.thinking
        ],
        "" if family.thinking == "none" else off,
        effort,
        *("yes" if flag else "no" for flag in (family.takes_sampling, family.takes_format)),
        choice,
        *("yes" if flag else "no" for flag in (family.binds_thinking, family.takes_tool_changes)),
        f"{family.max_output:,}",
    ]
    return f"| {' | '.join(words)} |"


def test_the_table_of_families_is_in_the_documentation():
    page = (Path(__file__).parents[3] / "docs" / "anthropic.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith(("| Claude", "| another"))]
    assert rows == [row_of(family) for family in (*FAMILIES, OTHER)]


def test_a_family_of_your_own_comes_first():
    mine = ClaudeFamily("mine", "^my-model$", "none")
    FAMILIES.insert(0, mine)
    try:
        assert family_for("my-model") is mine
    finally:
        FAMILIES.remove(mine)
