"""Measure 500 tools, all in each request and behind a search: ``python -m benchmarks.tool_search``.

A scripted server on this machine plays the model: it calls one tool, after a search if there is one. Tokens
are the library's own estimate of the request's body. Milliseconds are those of the library and of the wire,
for a whole run; a model would need more of them for the longer request.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from typing import Any

from pure_agent_loop import Agent, OpenAIClient, Tool
from pure_agent_loop.llm.tokens import estimate_tokens
from pure_agent_loop.prompts import ToolWords
from pure_agent_loop.testing import ScriptedServer, call
from pure_agent_loop.toolsets import searchable
from pure_agent_loop.toolsets.search import Ranking

ACTIONS = {
    "create": "创建",
    "delete": "删除",
    "list": "列出",
    "update": "修改",
    "search": "搜索",
    "archive": "归档",
    "share": "共享",
    "copy": "复制",
    "export": "导出",
    "import": "导入",
    "approve": "批准",
    "reject": "拒绝",
    "assign": "分配",
    "rename": "重命名",
    "lock": "锁定",
    "restore": "恢复",
    "print": "打印",
    "count": "统计",
    "compare": "比较",
    "publish": "发布",
}
THINGS = {
    "invoice": "发票",
    "customer": "客户",
    "contract": "合同",
    "order": "订单",
    "payment": "付款",
    "email": "电子邮件",
    "calendar_event": "日程",
    "meeting_room": "会议室",
    "employee": "员工",
    "holiday": "假期",
    "document": "文档",
    "photo": "照片",
    "folder": "文件夹",
    "project": "项目",
    "task": "任务",
    "bug_report": "缺陷报告",
    "branch": "分支",
    "server": "服务器",
    "database": "数据库",
    "certificate": "证书",
    "flight": "航班",
    "hotel": "酒店",
    "recipe": "食谱",
    "song": "歌曲",
    "newsletter": "简报",
}
QUESTIONS = {
    "write an invoice, create it": "create_invoice",
    "exporting orders": "export_order",
    "who are our customers? list them": "list_customer",
    "lock the server": "lock_server",
    "approve holidays": "approve_holiday",
    "rename a photo": "rename_photo",
    "restoring the database": "restore_database",
    "assign a bug report to somebody": "assign_bug_report",
    "publish the newsletter": "publish_newsletter",
    "compare two contracts": "compare_contract",
    "创建一张发票": "create_invoice",
    "导出订单": "export_order",
    "列出所有客户": "list_customer",
    "把服务器锁定": "lock_server",
    "批准员工的假期": "approve_holiday",
    "给照片重命名": "rename_photo",
    "恢复数据库": "restore_database",
    "把缺陷报告分配给某人": "assign_bug_report",
    "发布简报": "publish_newsletter",
    "比较两份合同": "compare_contract",
}
PARAMETERS = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "description": "Which one, as a list shows it."},
        "note": {"type": "string", "description": "What to write beside it.", "default": ""},
        "notify": {"type": "array", "items": {"type": "string"}, "description": "Who is told, as addresses."},
    },
    "required": ["id"],
    "additionalProperties": False,
}


def tools() -> list[Tool]:
    """500 tools with three arguments each, described in both languages."""

    def done(**_: Any) -> str:
        return "done"

    return [
        Tool(
            done,
            name=f"{action}_{thing}",
            description=f"{action.capitalize()} one {thing.replace('_', ' ')} in the company's records.",
            parameters=PARAMETERS,
            words={"zh": ToolWords(f"{in_chinese}公司记录中的一个{things}。", {})},
        )
        for action, in_chinese in ACTIONS.items()
        for thing, things in THINGS.items()
    ]


def measure(given: Sequence[Any], script: Sequence[Any], runs: int) -> dict[str, float]:
    """The requests, tokens and milliseconds of a run."""
    seconds, bodies = [], []
    for _ in range(runs + 1):
        with ScriptedServer([*script, "done"]) as server:
            agent = Agent(llm=OpenAIClient("m", api_key="k", base_url=server.base_url), tools=given)
            begun = time.perf_counter()
            agent.run("Write an invoice for the order 17.").raise_for_error()
            seconds.append(time.perf_counter() - begun)
            bodies = [json.dumps(each.body, ensure_ascii=False) for each in server.requests]
    tokens = [estimate_tokens(body) for body in bodies]
    return {
        "requests": len(bodies),
        "first": tokens[0],
        "all": sum(tokens),
        "bytes": len(bodies[0].encode()),
        "ms": 1000 * statistics.median(seconds[1:]),  # the first run loads modules
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    runs = parser.parse_args().runs
    many, use = tools(), call("create_invoice", id="17")
    rows = {
        "500 tools": measure(many, [use], runs),
        "500 tools behind a search": measure(
            [searchable(many)], [call("search_tools", query="create invoice"), use], runs
        ),
        "one tool": measure(many[:1], [use], runs),
    }
    print("| | requests | tokens of the first | of all | bytes of the first | ms of the run |")
    print("|---|---|---|---|---|---|")
    for name, found in rows.items():
        numbers = [f"{found[key]:,.0f}" for key in ("requests", "first", "all", "bytes", "ms")]
        print(f"| {name} | {' | '.join(numbers)} |")
    begun = time.perf_counter()
    ranking = Ranking([f"{f'{tool.name} ' * 3}{tool.said}" for tool in many])
    built = time.perf_counter()
    found = {question: [many[n].name for n in ranking.best(question, 5)] for question in QUESTIONS}
    searched = time.perf_counter()
    first = sum(found[question][:1] == [name] for question, name in QUESTIONS.items())
    five = sum(name in found[question] for question, name in QUESTIONS.items())
    print(f"\n{len(QUESTIONS)} questions: the wanted tool is first {first} times, among five {five} times")
    print(
        f"index {1000 * (built - begun):.1f} ms, a search {1000 * (searched - built) / len(QUESTIONS):.2f} ms"
    )
    for question, name in QUESTIONS.items():
        if found[question][:1] != [name]:
            print(f"  {question!r}: {', '.join(found[question])}")


if __name__ == "__main__":
    main()
