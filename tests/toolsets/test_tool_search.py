"""Many tools behind one that searches: what is found, what it costs, and what stays callable."""

from __future__ import annotations

import json

import pytest
from tests.helpers import check_result, tool_texts
from tests.toolsets.test_sets import Shelf, add, offered

from pure_agent_loop import Agent, ConfigError, QueryState, SessionManager, Tool
from pure_agent_loop.prompts import ToolWords
from pure_agent_loop.sessions.replay import replay_session
from pure_agent_loop.testing import ScriptedLLM, call
from pure_agent_loop.toolsets import prefixed, searchable
from pure_agent_loop.toolsets.search import Ranking

THINGS = {
    "create_invoice": "Create an invoice for a customer.",
    "sendEmail": "Send a message to an address.",
    "list_files": "List what a folder holds.",
    "get_weather": "The forecast for a city.",
    "book_flight": "Book a flight between two cities.",
    "refund_payment": "Give a customer the money back.",
    "translate": "Translate a text into another language.",
}
CHINESE = [
    "创建客户发票",
    "发送电子邮件",
    "列出文件夹内容",
    "查询城市天气预报",
    "预订航班",
    "退还客户付款",
    "翻译文本",
]


def many(**words):
    return [
        Tool(lambda: "done", name=name, description=text, parameters={}, words=words.get(name))
        for name, text in THINGS.items()
    ]


def run(tools, script, **options):
    llm = ScriptedLLM(script)
    return check_result(Agent(llm=llm, tools=tools, **options).run("go")), llm


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("invoices", "create_invoice"),
        ("send mail to somebody", "sendEmail"),
        ("folder", "list_files"),
        ("WEATHER forecast", "get_weather"),
        ("booking flights", "book_flight"),
        ("money back", "refund_payment"),
    ],
)
def test_english_words_find(query, first):
    ranking = Ranking([f"{name} {text}" for name, text in THINGS.items()])
    assert list(THINGS)[ranking.best(query, 3)[0]] == first


@pytest.mark.parametrize(
    ("query", "first"),
    [("发票", 0), ("发邮件", 1), ("文件", 2), ("天气", 3), ("我要订航班", 4), ("退款给客户", 5)],
)
def test_chinese_words_find(query, first):
    assert Ranking(CHINESE).best(query, 3)[0] == first


def test_tool_without_common_words_is_not_found():
    assert Ranking(["a b", "c"]).best("zebra", 5) == []
    assert Ranking([]).best("a", 5) == []
    assert Ranking(["same", "same"]).best("same", 5) == [0, 1]
    assert Ranking(["", "?!", "x"]).best("", 5) == []


def test_model_calls_a_found_tool():
    shelf = Shelf("dig", "fill")
    tools = searchable([*many(), shelf], about="files, mail, money", most=2)
    script = [call("search_tools", query="create invoice"), call("create_invoice"), "done"]
    result, llm = run([add, tools], script)
    assert offered(llm) == [
        ["add", "search_tools"],
        ["add", "search_tools", "create_invoice"],
        ["add", "search_tools", "create_invoice"],
    ]
    found, called = tool_texts(result.messages)
    assert (
        found == "You can call these tools from now on:\n- create_invoice: Create an invoice for a customer."
    )
    assert called == "done"
    assert shelf.told[0] == "enter"
    assert shelf.told[-1] == "exit"
    assert llm.requests[0].tools[1]["function"]["description"].endswith("files, mail, money")
    assert result.state.tools.found == ["create_invoice"]
    assert QueryState.from_dict(json.loads(json.dumps(result.state.to_dict()))) == result.state


def test_nothing_is_entered_before_the_first_search():
    shelf = Shelf("dig")
    run([searchable(shelf)], ["done"])
    assert shelf.told == []
    result, _ = run([searchable(shelf)], [call("search_tools", query="dig"), call("dig", n=3), "done"])
    assert shelf.told.count("enter") == shelf.told.count("exit") == 1
    assert tool_texts(result.messages)[1] == '{"did": "dig", "n": 3}'


def test_failed_entry_of_a_set_is_reported_to_the_model():
    shelf = Shelf("dig")
    shelf.failing["enter"] = OSError("no connection")
    result, _ = run([searchable(shelf)], [call("search_tools", query="dig"), "I cannot."])
    assert "Error: no connection" in tool_texts(result.messages)[0]
    assert result.content == "I cannot."


def test_a_search_without_a_result_says_so():
    result, _ = run([searchable(many())], [call("search_tools", query="zebra"), "no"])
    assert "None of the 7 tools matches 'zebra'" in tool_texts(result.messages)[0]


def test_tool_that_was_not_found_is_rejected():
    result, _ = run([searchable(many())], [call("translate"), "no"])
    assert "UnknownTool" in tool_texts(result.messages)[0]


def test_only_the_newest_matches_stay_callable():
    queries = ["invoice", "folder", "weather", "invoice"]
    script = [*(call("search_tools", query=each) for each in queries), "done"]
    result, llm = run([searchable(many(), most=1, keep=2)], script)
    assert offered(llm)[-2:] == [
        ["search_tools", "list_files", "get_weather"],
        ["search_tools", "get_weather", "create_invoice"],
    ]
    assert result.stop_reason == "completed"


def test_chinese_query_finds_chinese_descriptions():
    words = {"create_invoice": {"zh": ToolWords("创建客户发票。", {})}}
    script = [call("search_tools", query="发票"), call("search_tools", query="斑马"), "好"]
    result, llm = run([searchable(many(**words))], script, language="zh")
    assert tool_texts(result.messages)[0] == "从现在起可以调用这些工具：\n- create_invoice: 创建客户发票。"
    assert "没有与 '斑马' 相符" in tool_texts(result.messages)[1]
    described = llm.requests[0].tools[0]["function"]
    assert described["description"].startswith("搜索更多工具")
    assert described["parameters"]["properties"]["query"]["description"].startswith("用几个词")


def test_found_tools_survive_a_restart(tmp_path):
    sessions = SessionManager(tmp_path)

    def agent(script):
        return Agent(llm=ScriptedLLM(script), tools=[searchable(many())], sessions=sessions.store)

    agent([call("search_tools", query="invoice"), "found"]).run("go", session_id="s")
    second = agent([call("create_invoice"), "done"])
    assert tool_texts(second.run("use it", session_id="s").messages)[-1] == "done"
    assert offered(second.llm)[0] == ["search_tools", "create_invoice"]
    assert replay_session(sessions.load("s").records).difference is None


def test_its_name_can_be_another():
    _, llm = run([prefixed(searchable(many(), name="look"), "x_")], ["done"])
    assert offered(llm) == [["x_look"]]


@pytest.mark.parametrize("wrong", [{"most": 0}, {"most": 5, "keep": 4}, {"name": "a b"}])
def test_invalid_argument_is_rejected(wrong):
    with pytest.raises(ConfigError):
        searchable(many(), **wrong)
