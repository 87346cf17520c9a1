"""With ``language="zh"`` a model reads no English sentence of ours, whatever it does and whatever goes wrong.

An English sentence is found by its form: three words of ASCII letters in a row with nothing but spaces
between them. What the tests themselves say to the model, in files, pages, tasks and errors, has none.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from tests.toolbox.web import WebServer, moved, page

from pure_agent_loop import (
    Agent,
    AgentLoop,
    BeforeTool,
    Budget,
    CancelToken,
    ContextBuilder,
    Handoff,
    Hooks,
    LoopLimits,
    Permission,
    PermissionRules,
    PersonaConfig,
    ToolExecutionError,
    prompts_for,
    tool,
)
from pure_agent_loop.assistant import MemoryStore, Situation, SkillsLoader
from pure_agent_loop.permissions import PERMISSION_MODES
from pure_agent_loop.subagents import EXPLORE, VERIFY, AgentDefinition, SubagentManager
from pure_agent_loop.testing import ScriptedLLM, answer, call, raw_call
from pure_agent_loop.testing.script import Call
from pure_agent_loop.toolbox import (
    Fetch,
    PictureTools,
    ShellPolicy,
    TodoList,
    Workspace,
    ask_user_tool,
    calculator,
    workspace_tools,
)
from pure_agent_loop.toolsets import searchable

MODES = ["native", "json", "text"]
ENGLISH = re.compile(r"(?<![A-Za-z])[A-Za-z]{2,}(?:[ \t\n]+[A-Za-z]{1,}){1,}[ \t\n]+[A-Za-z]{2,}")


def english_in(value: Any) -> Iterator[str]:
    """The English sentences in a message or a schema; what the model itself has said is not ours."""
    if isinstance(value, str):
        yield from (found[0] for found in ENGLISH.finditer(value))
    elif isinstance(value, dict):
        if value.get("role") != "assistant":
            for each in value.values():
                yield from english_in(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from english_in(each)


def check(llm: ScriptedLLM) -> str:
    """Everything that was asked of the model, as one text, once no English was found in it."""
    asked = [[request.messages, request.tools] for request in llm.requests]
    assert asked
    found = sorted(set(english_in(asked)))
    assert not found, found
    return json.dumps(asked, ensure_ascii=False)


def written(item: Any, mode: str) -> Any:
    """A call as a model writes it in a mode."""
    if mode == "native" or not isinstance(item, (Call, str)):
        return item
    if mode == "text":
        if isinstance(item, str):
            return f"Thought: 好\nFinal Answer: {item}"
        return f"Thought: 好\nAction: {item.name}\nAction Input: {item.arguments}"
    if isinstance(item, str):
        return json.dumps({"tool": "final_answer", "arguments": {"answer": item}}, ensure_ascii=False)
    return json.dumps({"tool": item.name, "arguments": json.loads(item.arguments)})


@tool
async def slow() -> None:
    """等待。"""
    await asyncio.Event().wait()


def png(width: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + width.to_bytes(4, "big") + b"\0\0\0\1" + b"\0" * 9


@tool
def fails(how: str) -> str:
    """失败。"""
    if how == "execution":
        raise ToolExecutionError("fails", "坏了")
    raise {"value": ValueError("坏了"), "stop": KeyboardInterrupt(), "exit": SystemExit(1)}[how]


@pytest.fixture
def room(tmp_path, monkeypatch):
    """A workspace with something of everything."""
    monkeypatch.setenv("PAL_HOME", str(tmp_path / "home"))
    root = tmp_path / "room"
    (root / "docs").mkdir(parents=True)
    (root / "empty").mkdir()
    (root / "docs" / "guide.md").write_text("一\n二\n\t三  \n一\n", encoding="utf-8")
    (root / "docs" / "nothing.md").write_text("", encoding="utf-8")
    (root / "docs" / "data.bin").write_bytes(b"\x89PNG\0\0")
    (root / "docs" / "long.txt").write_text("长" * 300 + "\n" + "行\n" * 9_000, encoding="utf-8")
    (root / "docs" / "wide.png").write_bytes(png(99_999))
    (root / "away").symlink_to(tmp_path)
    (root / "dead").symlink_to(root / "nowhere")
    (root / "twin").write_text("一")
    (root / "other").hardlink_to(root / "twin")
    skill = root / "skills" / "brew"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: brew\ndescription: 泡茶。\n---\n烧水。\n", encoding="utf-8")
    (skill / "more.txt").write_text("茶", encoding="utf-8")
    (skill / "raw.bin").write_bytes(b"\0\1")
    return root


def nowhere(host: str, port: int) -> list[str]:
    raise OSError(host, port)


def all_tools(room: Any, fetch: Fetch, *, ask: Any = None) -> list[Any]:
    memory, skills = MemoryStore(room), SkillsLoader([room / "skills"], user=False)
    return [
        *workspace_tools(room, unsandboxed=True, policy=ShellPolicy(deny=["printf *"])),
        *PictureTools(Workspace(room)).tools(),
        *TodoList().tools(),
        *memory.tools(),
        *skills.tools(),
        ask_user_tool(ask),
        calculator,
        fetch.tool(),
        fails,
        slow,
    ]


FILES = [
    call("list_dir"),
    call("list_dir", path="empty"),
    call("list_dir", path="docs/guide.md"),
    call("list_dir", path="nope"),
    call("list_dir", path="../.."),
    call("list_dir", path="away"),
    call("read_file", path="docs/guide.md"),
    call("read_file", path="docs/guide.md", offset=2, limit=1),
    call("read_file", path="docs/guide.md", offset=99),
    call("read_file", path="docs/gide.md"),
    call("read_file", path="empty/x"),
    call("read_file", path="dead"),
    call("read_file", path="docs"),
    call("read_file", path="docs/nothing.md"),
    call("read_file", path="docs/data.bin"),
    call("read_file", path="docs/long.txt"),
    call("read_file", path="twin"),
    call("read_file", path="a\0b"),
    call("read_file", path="x" * 1_000),
    call("read_image", path="docs/data.bin"),
    call("read_image", path="docs/guide.md"),
    call("read_image", path="docs/wide.png"),
    call("write_file", path="new/a.txt", content="一\n二\n"),
    call("write_file", path="new/a.txt", content="一"),
    call("write_file", path=".git/config", content=""),
    call("write_file", path=".", content=""),
    call("write_file", path="docs", content=""),
    call("write_file", path="away/x", content=""),
    call("write_file", path="twin", content="二"),
    call("edit_file", path="docs/guide.md", old_text="二", new_text="二二"),
    call("edit_file", path="docs/guide.md", old_text="一", new_text="三"),
    call("edit_file", path="docs/guide.md", old_text="一", new_text="四", replace_all=True),
    call("edit_file", path="docs/guide.md", old_text="四", new_text="四", replace_all=True),
    call("edit_file", path="docs/guide.md", old_text="", new_text="三"),
    call("edit_file", path="docs/guide.md", old_text="    三", new_text="三"),
    call("edit_file", path="docs/guide.md", old_text="二二 ", new_text="三"),
    call("edit_file", path="docs/guide.md", old_text="没有", new_text="三"),
    call("edit_file", path="docs/guide.md", old_text="四\\n二二", new_text="三"),
    call("edit_file", path="docs/data.bin", old_text="x", new_text="y"),
    call("glob", pattern="*.md"),
    call("glob", pattern="/etc/*"),
    call("glob", pattern=""),
    call("glob", pattern="{a,b}" * 9),
    call("glob", pattern="x" * 2_000),
    call("grep", pattern="二", limit=1),
    call("grep", pattern="行", limit=2, files_only=True),
    call("grep", pattern="行", limit=2),
    call("grep", pattern="("),
    call("grep", pattern=""),
    call("grep", pattern="没有这样的"),
]
OTHERS = [
    call("shell", command="echo"),
    call("shell", command="exit 3"),
    call("shell", command="kill -9 $$"),
    call("shell", command="sleep 60", timeout=0.2),
    call("shell", command="ls", timeout=-1),
    call("shell", command="printf x"),
    call("shell", command="true\0"),
    call("shell", command="seq 100000"),
    call("shell", command=7),
    call("fetch", url="ftp://x"),
    call("fetch", url="http://127.0.0.1:22/"),
    call("fetch", url="http://10.0.0.1/"),
    call("fetch", url="http://169.254.169.254/"),
    call("fetch", url="http://a b/"),
    call("fetch", url="http://u:p@x/"),
    call("fetch", url="http://2130706433/"),
    call("fetch", url="http://x.invalid/"),
    call("calculator", expression="1/0"),
    call("calculator", expression="9**9**9"),
    call("calculator", expression="x + 1"),
    call("calculator", expression="foo(1)"),
    call("calculator", expression="sqrt(-1)"),
    call("calculator", expression="sqrt(1, 2)"),
    call("calculator", expression="(-1)**0.5"),
    call("calculator", expression="1 +"),
    call("calculator", expression="'a'"),
    call("calculator", expression="1 if 2 else 3"),
    call("calculator", expression="1" * 2_000),
    call("todo_write", items=[]),
    call("todo_write", items=[{"task": "茶", "status": "done"}]),
    call("todo_write", items=[{"task": ""}]),
    call("todo_write", items=[{"task": "茶"}] * 101),
    call("todo_write", items=[{"task": "茶", "status": "maybe", "more": 1}]),
    call("ask_user", question="茶？"),
    call("memory_write", text="茶"),
    call("memory_write", text="茶"),
    call("memory_write", text=""),
    call("memory_write", text="茶" * 5_000),
    call("memory_search", query="没有"),
    call("memory_read"),
    call("load_skill", name="brew"),
    call("load_skill", name="brew", file="raw.bin"),
    call("load_skill", name="brew", file="nope"),
    call("load_skill", name="nope"),
    call("fails", how="execution"),
    call("fails", how="value"),
    call("fails", how="exit"),
    call("nowhere"),
    call("task", agent="explore", prompt=""),
    call("task", agent="nobody", prompt="找"),
    call("task", agent="explore", prompt="找", resume="explore-1"),
    call("task_output", task_id="explore-1"),
    call("task_kill", task_id="explore-1"),
    call("task_list"),
    call("task", agent="explore", prompt="找", extra=1),
    call("task"),
]
ARGUMENTS = [
    call("read_file"),
    call("read_file", path=[1], offset="x", limit=1.5, pth="y"),
    call("read_file", path="docs/guide.md", offset=None, limit={}),
    call("grep", pattern="x", hidden="maybe", context=[]),
    call("list_dir", paht="x"),
    call("task_list", x=1),
]
BROKEN = [
    raw_call("read_file", '{"path": '),
    raw_call("read_file", "[1]"),
    raw_call("read_file", '{"path": NaN}'),
    raw_call("read_file", '{"path": 1e999}'),
    raw_call("read_file", '{"path": "a", "path": "b"}'),
    raw_call("read_file", "[" * 500 + "]" * 500),
    answer(raw_call("read_file", '{"path": "do'), finish_reason="length"),
]
LIMITS = LoopLimits(max_steps=3, max_tokens=None, timeout=None, doom_loop_threshold=None)


def drive(script: list[Any], mode: str, tools: list[Any], **options: Any) -> str:
    with ScriptedLLM([written(each, mode) for each in script], tools_may_fail=True) as llm:
        options.setdefault("limits", LIMITS)
        Agent(llm=llm, tools=tools, language="zh", tool_mode=mode, **options).run("去")
    return check(llm)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("calls", [FILES, OTHERS, ARGUMENTS], ids=["files", "others", "arguments"])
def test_no_call_is_answered_in_english(room, calls, mode):
    asked = drive([*calls, "好"], mode, all_tools(room, Fetch(resolver=nowhere)), subagents=SubagentManager())
    assert "执行失败" in asked
    assert "不是指令" in asked or "错误类型" in asked


def test_arguments_that_cannot_be_read(room):
    drive([*BROKEN, "好"], "native", all_tools(room, Fetch(resolver=nowhere)))


def answers(request: bytes) -> bytes:
    """A small web site."""
    path = request.split()[1].decode()
    return {
        "/long": page("长" * 50_000, "text/plain; charset=utf-8"),
        "/large": page("大" * 50_000, "text/plain; charset=utf-8"),
        "/gone": page("", status="404 Gone"),
        "/bytes": page(b"\0\1", "application/zip"),
        "/on": moved("http://10.0.0.1/"),
        "/round": moved("/round"),
        "/broken": b"x\r\n\r\n",
        "/zip": page(b"x", Content_Encoding="br"),
    }[path]


def test_pages(room):
    with WebServer(answers) as web:
        fetch = Fetch(allow_addresses=[web.address], max_bytes=100_000)
        paths = ["/long", "/large", "/gone", "/bytes", "/on", "/round", "/broken", "/zip"]
        calls = [call("fetch", url=web.url(path)) for path in paths]
        calls += [call("fetch", url=web.url("/long"), offset=start) for start in (20_000, 90_000)]
        drive([*calls, "好"], "native", all_tools(room, fetch))


def test_a_long_result_is_cut_and_read_on(room, tmp_path):
    calls = [call("read_file", path="docs/long.txt"), call("read_result", id="0" * 16)]

    def reads_on(messages: Any, *_: Any) -> Any:
        found = re.search(r'id="([0-9a-f]{16})"', json.dumps(messages, ensure_ascii=False).replace("\\", ""))
        assert found is not None
        return call("read_result", id=found[1], offset=100, limit=100)

    tools, more = (
        all_tools(room, Fetch()),
        {"max_result_chars": 2_000, "results_folder": tmp_path / "results"},
    )
    assert "read_result" in drive([calls[0], reads_on, calls[1], "好"], "native", tools, **more)


ENDINGS = {
    "turns": (LoopLimits(max_turns=2), {}),
    "calls": (LoopLimits(max_tool_calls=2), {}),
    "tokens": (LoopLimits(max_tokens=40), {}),
    "seconds": (LoopLimits(timeout=1e-9, max_steps=None), {}),
    "budget": (LoopLimits(), {"budget": Budget(max_tool_calls=2)}),
    "single": (LoopLimits(), {"mode": "single"}),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("ending", ENDINGS)
def test_limits(room, ending, mode):
    limits, options = ENDINGS[ending]

    def goes_on(messages: Any, tools: Any, _: Any) -> Any:
        asked = tools or any("Action Input" in str(m) or "Observation" in str(m) for m in messages[:1])
        count = len(messages)
        return written(call("calculator", expression=f"{count}+1") if asked and count < 12 else "好", mode)

    with ScriptedLLM(goes_on, strict=False) as llm:
        Agent(llm=llm, tools=[calculator], language="zh", tool_mode=mode, limits=limits, **options).run("去")
    check(llm)


@pytest.mark.parametrize("mode", MODES)
def test_going_round_in_circles(mode):
    same = [call("calculator", expression="1/0")] * 6
    with ScriptedLLM([*(written(each, mode) for each in same), "好"], strict=False) as llm:
        Agent(llm=llm, tools=[calculator], language="zh", tool_mode=mode).run("去")
    assert "原地打转" in check(llm)


def test_errors_that_repeat():
    drive(
        [*(call("calculator", expression=f"{n}/0") for n in range(6)), "好"],
        "native",
        [calculator],
        limits=None,
    )


def refuses(*_: Any) -> Permission:
    return Permission("deny", "不行。")


def breaks(*_: Any) -> Any:
    raise ValueError("坏了")


def blocks(*_: Any) -> BeforeTool:
    return BeforeTool(block="不行", context="请注意")


PERMISSIONS: dict[str, dict[str, Any]] = {
    "rule": {"permission_rules": PermissionRules(deny=["write_file"])},
    "plan": {"permission_mode": "plan"},
    "function": {"can_use_tool": refuses},
    "function fails": {"can_use_tool": breaks},
    "function is wrong": {"can_use_tool": lambda *_: Permission("allow", updated_args=7)},
    "person": {"permission_mode": "ask", "on_ask": refuses},
    "person fails": {"permission_mode": "ask", "on_ask": breaks},
    "hook": {"hooks": Hooks(before_tool=[blocks], on_stop=[lambda *_: "还有"])},
    "hook fails": {"hooks": Hooks(before_tool=[breaks])},
    "hook is wrong": {"hooks": Hooks(before_tool=[lambda *_: 7])},
    "no sandbox": {"permission_mode": "auto"},
}


@pytest.mark.parametrize("how", PERMISSIONS)
def test_refusals(room, how):
    write, other = (call("write_file", path=name, content="") for name in ("a", "b"))
    script = [write, write, other, call("shell", command="ls"), *["好"] * 4]
    with ScriptedLLM(script, strict=False) as llm:
        tools = workspace_tools(room, sandbox="none")
        Agent(llm=llm, tools=tools, language="zh", limits=LIMITS, **PERMISSIONS[how]).run("去")
    check(llm)


def test_stopped_work_is_reported_in_the_next_run():
    token = CancelToken()

    def cancels(*_: Any) -> Any:
        token.cancel()
        return [call("slow"), call("calculator", expression="1")]

    with ScriptedLLM([call("slow"), cancels, "好"]) as llm:
        agent = Agent(llm=llm, tools=[slow, calculator], language="zh", tool_timeout=0.05)
        ended = agent.run("去", cancel_token=token)
        agent.run("再去", messages=ended.messages)
    check(llm)


def test_pending_question_is_reported(room):
    with ScriptedLLM([call("write_file", path="a", content=""), "好"]) as llm:
        agent = Agent(llm=llm, tools=workspace_tools(room), language="zh", permission_mode="ask")
        suspended = agent.run("去")
        assert suspended.questions
        agent.run("别管它", state=suspended.state)
    check(llm)


def test_rejected_answers_get_chinese_corrections():
    script = ["", answer("一半", finish_reason="length"), "好"]
    with ScriptedLLM(script) as llm:
        Agent(llm=llm, tools=[calculator], language="zh").run("去")
    check(llm)


def test_a_long_history_is_made_shorter(room):
    script: list[Any] = [call("read_file", path="docs/long.txt", offset=n) for n in range(1, 40)]

    def model(messages: Any, tools: Any, _: Any) -> Any:
        return "摘要" if tools is None else (script.pop() if script else "好")

    with ScriptedLLM(model) as llm:
        tools = all_tools(room, Fetch())
        Agent(llm=llm, tools=tools, language="zh", limits=LIMITS, context_window=12_000).run("去")
    assert "摘要" in check(llm)


def test_subagents(room):
    subprocess.run(["git", "init", "-q", room], check=True)
    commit = ["commit", "-q", "--allow-empty", "-m", "x"]
    who = ["-c", "user.name=x", "-c", "user.email=x@x"]
    subprocess.run(["git", "-C", room, *who, *commit], check=True)
    lacks = AgentDefinition("lacks", {"zh": "缺"}, {"zh": "缺"}, tools=["nope"])
    copies = AgentDefinition("copies", {"zh": "抄"}, {"zh": "抄"}, workspace="scratch", background=True)
    trees = AgentDefinition("trees", {"zh": "树"}, {"zh": "树"}, workspace="worktree")
    manager = SubagentManager([EXPLORE, VERIFY, lacks, copies, trees], workspace=room)
    names = ["explore", "verify", "lacks", "copies", "trees"]
    script: list[Any] = [call("task", agent=name, prompt="找") for name in names]
    script += [
        call("task_list"),
        call("task_kill", task_id="copies-1"),
        call("task_output", task_id="copies-1"),
    ]

    def model(messages: Any, tools: Any, _: Any) -> Any:
        is_child = not any(each["function"]["name"] == "task" for each in tools or ())
        return "找到了" * 5_000 if is_child else (script.pop(0) if script else "好")

    with ScriptedLLM(model) as llm:
        agent = Agent(llm=llm, tools=workspace_tools(room), language="zh", limits=LIMITS, subagents=manager)
        agent.run("去")
    assert "子代理" in check(llm)


CHINESE_BY = {
    "loop": ({"language": "zh"}, {}, {}),
    "prompts": ({"prompts": prompts_for("zh")}, {}, {}),
    "builder": ({}, {"language": "zh"}, {}),
    "persona": ({}, {}, {"language": "zh"}),
}
# Names in what a Chinese assistant tells its model: of permission modes, tools, files, programs and units.
NAMES = {*PERMISSION_MODES, "UTC", "token", "bubblewrap", "Git", "Linux", "bash", "notes", "file"}


@pytest.mark.parametrize("by", CHINESE_BY)
@pytest.mark.parametrize("name", [None, "assistant", "coder"])
def test_first_request_of_an_assistant_has_only_names_in_english(room, by, name):
    of_loop, of_builder, of_persona = CHINESE_BY[by]
    (room / "AGENTS.md").write_text("先看。", encoding="utf-8")
    MemoryStore(room).write("茶")
    persona = PersonaConfig("小达", **of_persona) if name is None else PersonaConfig.named(name, **of_persona)
    skills = SkillsLoader(str(room / "skills"), user=False)
    builder = ContextBuilder(room, MemoryStore(room), skills, persona, trust_folder=True, **of_builder)
    inner = Agent(llm=ScriptedLLM(["好"]), name="other", description="查资料。", language="zh")
    with ScriptedLLM(["好"]) as llm:
        loop = AgentLoop(
            llm,
            room,
            [*all_tools(room, Fetch()), inner, searchable([slow])],
            builder,
            subagent_manager=SubagentManager(),
            limits=LoopLimits(max_turns=3),
            handoffs=[Handoff(inner.clone(name="next"))],
            **of_loop,
        )
        work = loop.process_direct("去", "one", channel="微信", chat_id="7", context={"题": "茶"})
        assert asyncio.run(work) == "好"
    check(llm)
    ((messages, tools),) = [(request.messages, request.tools) for request in llm.requests]
    said = "\n".join(message["content"] for message in messages)
    assert "茶" in said
    words = re.findall(r"[A-Za-z]{3,}", re.sub(r"[\w.<-]*[/_.=][\w./_>-]*", " ", said))
    assert set(words) - NAMES <= {each["function"]["name"] for each in tools} | {"brew"}


def test_facts_of_a_place(room):
    facts = Situation(room, None, "ask", True, {"max_turns": 3}, "茶").text
    with ScriptedLLM(["好"]) as llm:
        assert Agent(llm=llm, system_prompt="好", language="zh", facts=facts).run("去").content == "好"
    told = "\n".join(message["content"] for message in llm.requests[0].messages)
    assert "茶" in told
    words = re.findall(r"[A-Za-z]{3,}", re.sub(r"[\w.<-]*[/_.=][\w./_>-]*", " ", told))
    assert set(words) <= NAMES


def test_the_assistant(room):
    asyncio.run(_the_assistant(room))


async def _the_assistant(room):
    with ScriptedLLM([call("memory_write", text="茶"), call("nope"), "好"]) as llm:
        loop = AgentLoop(llm, room, language="zh")
        assert [event async for event in loop.process_message("去", "one")]
    assert "记忆" in check(llm)
