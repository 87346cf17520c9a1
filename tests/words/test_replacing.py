"""Users replace messages for the model by their own."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.helpers import tool_texts

from pure_agent_loop import Agent, ConfigError, Tool, ToolRegistry, prompts_for, tool
from pure_agent_loop.prompts import ToolWords, current_prompts
from pure_agent_loop.support.language import default_language, in_language, use_messages
from pure_agent_loop.testing import ScriptedLLM, call
from pure_agent_loop.toolbox import (
    Fetch,
    PictureTools,
    TodoList,
    Workspace,
    ask_user_tool,
    calculator,
    workspace_tools,
)

ZH = prompts_for("zh")


def all_tools(folder: Path) -> list[Tool]:
    pictures = PictureTools(Workspace(folder)).tools()
    own = [ask_user_tool(), calculator, Fetch().tool(), *TodoList().tools()]
    return [*workspace_tools(folder), *pictures, *own]


def test_every_tool_is_described_in_chinese(tmp_path):
    for each in all_tools(tmp_path):
        function = each.to_openai_schema(ZH)["function"]
        described = function["parameters"]["properties"]
        assert described.keys() == each.parameters["properties"].keys()
        for text in (function["description"], *(part["description"] for part in described.values())):
            assert not text.isascii(), each.name
        assert each.to_openai_schema(prompts_for("en")) == each.to_openai_schema()


def test_a_sentence_in_other_words(tmp_path):
    mine = replace(ZH, sentences={"missing": "{path}?"})
    with ScriptedLLM([call("read_file", path="a"), "好"]) as llm:
        result = Agent(llm=llm, tools=workspace_tools(tmp_path), prompts=mine).run("去")
    assert "错误信息：'a'?" in tool_texts(result.messages)[0]


def test_a_tool_in_other_words():
    mine = replace(ZH, tools={"calculator": ToolWords("算。", {"expression": "式。"})})
    with ScriptedLLM(["好"]) as llm:
        Agent(llm=llm, tools=[calculator], prompts=mine).run("去")
    (offered,) = llm.requests[0].tools
    assert offered["function"]["description"] == "算。"
    assert offered["function"]["parameters"]["properties"]["expression"]["description"] == "式。"


def test_a_tool_of_your_own_in_two_languages():
    @tool(words={"zh": ToolWords("加。", {"a": "一个数。"})})
    def add(a: int, b: int) -> int:
        """Add.

        Args:
            a: One.
            b: Other.
        """
        return a + b

    english, chinese = (add.to_openai_schema(prompts_for(each))["function"] for each in ("en", "zh"))
    assert english == add.to_openai_schema()["function"]
    assert chinese["description"] == "加。"
    described = chinese["parameters"]["properties"]
    assert [described[name]["description"] for name in "ab"] == ["一个数。", "Other."]


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ({"sentences": {"mising": "x"}}, "unknown name 'mising'"),
        ({"sentences": {"missing": "{pth}"}}, "unknown placeholder pth. Known: instead, path"),
        ({"sentences": {"missing": "{path"}}, "invalid placeholder"),
        ({"language": "fr"}, "language='fr' is unknown"),
    ],
)
def test_unusable_replacement_text_is_rejected(field, message):
    with pytest.raises(ConfigError, match=message):
        replace(ZH, **field)


def test_words_for_a_parameter_that_is_not_there_are_refused():
    mine = replace(ZH, tools={"calculator": ToolWords("算。", {"expresion": "式。"})})
    with pytest.raises(ConfigError, match="'calculator': unknown parameter 'expresion'"):
        Agent(llm=ScriptedLLM([]), tools=[calculator], prompts=mine)


def test_the_schemas_are_made_once_for_a_language():
    registry = ToolRegistry([calculator])
    assert registry.to_openai_schema(ZH) is registry.to_openai_schema(ZH)
    assert registry.to_openai_schema() == [calculator.to_openai_schema()]
    assert json.dumps(registry.to_openai_schema(ZH)) != json.dumps(registry.to_openai_schema())


def test_the_language_of_a_run_holds_inside_it_only(monkeypatch):
    monkeypatch.setenv("PAL_LANG", "en")
    heard = []

    @tool
    def listen() -> str:
        """听。"""
        heard.append((default_language(), current_prompts()))
        return ""

    with ScriptedLLM([call("listen"), "好"]) as llm:
        Agent(llm=llm, tools=[listen], language="zh").run("去")
    assert heard == [("zh", ZH)]
    assert default_language() == "en"
    with use_messages(ZH):
        assert in_language({"en": 1, "zh": 2}) == 2
