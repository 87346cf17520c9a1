"""Choosing an action: prompts, votes, schemas. No model here."""

import json
import math
import re

import pytest

from pure_agent_loop.local.action import arguments_for, choice_for, mean_votes, parse_answer
from pure_agent_loop.local.examples import BUILT_IN, TALK, read_tools
from pure_agent_loop.tool import tool
from pure_agent_loop.toolbox import starter_tools


def starters(folder):
    return read_tools([tool(t).to_openai_schema() for t in starter_tools(folder)])


def schema(name, description="", **properties):
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters},
    }


def answer_with(**logprobs):
    tokens = [{"token": token, "logprob": value} for token, value in logprobs.items()]
    return {"choices": [{"logprobs": {"content": [{"top_logprobs": tokens}]}}]}


def test_every_option_has_a_label_of_its_own(tmp_path):
    labels = [o.label for o in choice_for(starters(tmp_path)).options]
    assert labels == ["list", "read", "calculator", "talk"]


def test_labels_of_tools_with_like_names_differ_in_their_first_letters():
    specs = read_tools(
        [schema(name) for name in ("read_file", "read_mail", "readPage", "read", "talk_to", "x")]
    )
    labels = [o.label for o in choice_for(specs).options]
    assert len({label[:3] for label in labels}) == 7


def test_forty_tools_of_one_word_still_get_labels():
    labels = [o.label for o in choice_for(read_tools([schema(f"get_{i}") for i in range(40)])).options]
    assert len(set(labels)) == 41


def test_the_examples_are_the_same_turns_for_every_question(tmp_path):
    choice = choice_for(starters(tmp_path))
    one, two = choice.messages("What is 2 + 2?"), choice.messages("Hello")
    assert one[:-1] == two[:-1]
    assert one[-1] == {"role": "user", "content": "What is 2 + 2?"}
    assert [m["content"] for m in one if m["role"] == "assistant"] == [
        "list",
        "read",
        "calculator",
        "talk",
    ] * 2


def test_probes_are_not_the_examples_that_are_shown(tmp_path):
    choice = choice_for(starters(tmp_path))
    assert len(choice.probes) == 8
    assert not set(choice.probes) & {text for text, _ in choice.shots}


def test_a_vote_is_the_share_of_the_labels_first_tokens(tmp_path):
    votes = choice_for(starters(tmp_path)).votes(
        answer_with(**{"read": math.log(0.6), " li": math.log(0.2), "The": math.log(0.1)})
    )
    assert votes[1] == pytest.approx(math.log(0.75), abs=0.01)
    assert votes[0] == pytest.approx(math.log(0.25), abs=0.01)


@pytest.mark.parametrize("raw", [None, {}, {"choices": []}, {"choices": [{"logprobs": None}]}])
def test_an_answer_without_votes_is_a_draw(tmp_path, raw):
    assert len(set(choice_for(starters(tmp_path)).votes(raw))) == 1


def decided(choice, question, votes):
    option = choice.decide(question, votes, [0.0] * len(votes))
    return option.tool.name if option.tool else None


@pytest.mark.parametrize(
    ("question", "tool_name"),
    [
        ("What does notes.txt say?", "read_file"),
        ("Which files are in the src folder?", "list_dir"),
        ("What is 5 * 5?", "calculator"),
        ("Tell me a poem.", None),
        ("docs 文件夹里有哪些文件？", "list_dir"),
        ("读取 notes.txt 文件。", "read_file"),
        ("你好！", None),
    ],
)
def test_without_a_vote_the_most_similar_example_decides(tmp_path, question, tool_name):
    assert decided(choice_for(starters(tmp_path)), question, [0.0] * 4) == tool_name


def test_a_clear_vote_beats_resemblance(tmp_path):
    assert (
        decided(choice_for(starters(tmp_path)), "What is 5 * 5?", [-12.0, 0.0, -12.0, -12.0]) == "read_file"
    )


def test_what_a_model_always_votes_for_does_not_count(tmp_path):
    choice = choice_for(starters(tmp_path))
    always = [0.0, -12.0, -12.0, -12.0]
    option = choice.decide("What is 5 * 5?", always, mean_votes([always, always]))
    assert option.tool
    assert option.tool.name == "calculator"


def arguments(folder, name, question):
    spec = next(s for s in starters(folder) if s.name == name)
    return arguments_for(spec, question, copy_only=True)


def test_one_possible_argument_needs_no_model(tmp_path):
    assert arguments(tmp_path, "read_file", "What does notes.txt say?").only_choice == {"path": "notes.txt"}
    assert arguments(tmp_path, "calculator", "What is 17 * 23?").only_choice == {"expression": "17 * 23"}
    assert arguments(tmp_path, "list_dir", "What files are here?").only_choice == {"path": "."}


def test_several_possible_arguments_become_an_enum(tmp_path):
    asked = arguments(tmp_path, "list_dir", "What does src hold?")
    assert asked.only_choice is None
    assert asked.response_format()["json_schema"]["schema"]["properties"]["path"]["enum"] == [
        "src",
        "hold",
        ".",
    ]


def test_the_examples_of_arguments_obey_their_own_rules(tmp_path):
    for spec in starters(tmp_path):
        for example in BUILT_IN[spec.name]:
            schema = arguments_for(spec, example.text, copy_only=True).schema["properties"]
            for name, value in example.arguments.items():
                allowed = schema[name].get("enum")
                assert value in allowed if allowed else re.match(schema[name]["pattern"], value), example.text


def test_a_model_that_can_copy_gets_the_tools_own_schema(tmp_path):
    spec = next(s for s in starters(tmp_path) if s.name == "read_file")
    asked = arguments_for(spec, "What does notes.txt say?", copy_only=False)
    assert "enum" not in asked.schema["properties"]["path"]
    assert list(asked.schema["properties"]) == ["path"]  # only what is required


def test_any_tool_gets_a_question_for_its_arguments():
    spec = read_tools(
        [
            schema(
                "book_table",
                "Book a table in a restaurant.",
                people={"type": "integer"},
                price={"type": "number"},
                where={"type": "string"},
                smoking={"type": "boolean"},
                kind={"enum": ["lunch", "dinner"]},
                extras={"type": "array", "items": {"type": "string"}},
            )
        ]
    )[0]
    asked = arguments_for(spec, "Book a table for 4 at Luigi's for 20.5", copy_only=True)
    properties = asked.schema["properties"]
    assert properties["people"] == {"enum": [4]}
    assert properties["price"] == {"enum": [20.5]}
    assert "Luigi's" in properties["where"]["enum"]
    assert properties["smoking"] == {"type": "boolean"}
    assert properties["kind"] == {"enum": ["lunch", "dinner"]}
    assert properties["extras"]["type"] == "array"
    assert json.dumps(asked.messages())


def test_tools_without_arguments_and_broken_schemas_are_no_problem():
    specs = read_tools(
        [schema("now"), {"function": {"name": "odd", "parameters": None}}, {}, {"function": {}}]
    )
    assert [s.name for s in specs] == ["now", "odd"]
    assert arguments_for(specs[0], "What time is it?", copy_only=True).only_choice == {}


def test_what_is_no_json_object_is_handed_on_as_it_is():
    assert parse_answer('{"path": "a"}') == {"path": "a"}
    assert parse_answer('{"path": "a') == '{"path": "a'
    assert parse_answer("[1]") == "[1]"
    assert parse_answer(None) == ""


def test_no_example_is_used_twice():
    texts = [e.text for examples in BUILT_IN.values() for e in examples] + [e.text for e in TALK]
    assert len(set(texts)) == len(texts)
