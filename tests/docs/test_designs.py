"""What the five designs show, as their readers write it, runs.

Each row is a program of a reader: what a design writes, then what must be so. A model on this machine calls
each offered tool once, then answers.
"""

from __future__ import annotations

import pytest

from pure_agent_loop.testing import ScriptedServer, answer, call

HEAD = """
import asyncio
from pure_agent_loop import *

def search(query: str) -> str:
    "Search."
    return f"found {query}"

client = OpenAIClient("gpt-4o-mini")
"""
SHOWN = {
    "1: an agent, its events and its history": """
agent = Agent(model="gpt-4o-mini", tools=[search])
first = agent.run("Look for tea.")
again = agent.run("And now?", messages=first.messages)
assert first.content == again.content == "Done."
""",
    "1: print each rendered event": """
renderer = Renderer()
for event in Agent(tools=[search]).run_stream("Look for tea."):
    if text := renderer.render(event):
        print(text)
""",
    "1: a renderer of one tool": """
renderer, shown = Renderer(), []

@renderer.on_tool("search")
def show(event):
    shown.append(event.type)
    return f"looking for {event.data['args']['query']}"

texts = [renderer.render(event) for event in Agent(tools=[search]).run_stream("Look for tea.")]
assert texts.count("looking for tea") == len(shown) == 1
assert any("found tea" in text for text in texts)
""",
    "1: an event by position": """
event = Event(EventType.THOUGHT, 3, 1_700_000_000.0, {"content": "Hm."})
assert (event.step, event.timestamp, event.content) == (3, 1_700_000_000.0, "Hm.")
""",
    "1: a check of limits": """
checker = LimitChecker(LoopLimits(max_steps=2))
checker.current_step = 2
assert checker.check().action == "warn"
""",
    "1: a tool of a registry": """
tools = ToolRegistry([search])
assert asyncio.run(tools.execute("search", {"query": "tea"})) == "found tea"
""",
    "2: thinking levels": """
for level in ("off", "low", "medium", "high"):
    assert Agent(model="o3", thinking_level=level).run("Think.").content == "Done."
assert OpenAIClient("o3", thinking_level="high").chat
""",
    "3: a client": """
assert AIClient(model="gpt-4o-mini", tools=[search]).chat("Look for tea.") == "Done."
""",
    "3: a loop": """
loop = ReactLoop(client, ToolRegistry([search]), max_steps=15)
assert asyncio.run(loop.run("Look for tea.")) == "Done."
assert loop.client is client
assert (loop.max_steps, loop.enable_retry) == (15, True)
assert [part.type for part in loop.parts] == ["tool", "text"]
""",
    "3: a part": """
part = Part(type="tool", tool="search", state={"status": "running", "input": {"query": "tea"}})
assert (part.state, part.input) == ("running", {"query": "tea"})
assert Part(type="tool", tool="search", state="pending").to("running").state == "running"
""",
    "4: a state": """
state = Agent(tools=[search]).run("Look for tea.").state
assert QueryState.from_dict(state.to_dict()).to_dict() == state.to_dict()
for name in (
    "messages", "turn_count", "auto_compact_tracking", "pending_tool_summary", "stop_hook_active",
    "max_output_recovery_count", "has_attempted_reactive_compact", "transition_reason",
):
    assert getattr(state, name) == state.to_dict()[name]
""",
    "5: the definitions of tools": """
tools = ToolRegistry([search])
assert [each["function"]["name"] for each in tools.get_definitions()] == ["search"]
""",
    "5: skills of a folder": """
import pathlib
folder = pathlib.Path("skills/brew")
folder.mkdir(parents=True)
(folder / "SKILL.md").write_text("---\\nname: brew\\ndescription: Makes tea.\\n---\\nBoil it.")
assert [skill.name for skill in SkillsLoader("skills").skills] == ["brew"]
assert [skill.name for skill in SkillsLoader(pathlib.Path("skills")).skills] == ["brew"]
""",
    "5: an assistant": """
async def main():
    loop = AgentLoop(client, ".", tools=[search])
    pieces = [text async for text in loop.process_message("Look for tea.", "one")]
    assert "".join(pieces).endswith("Done.")
    assert await loop.process_direct("And now?", "one") == "Done."
    assert await loop.execute_tool(tool_name="search", arguments={"query": "tea"}) == "found tea"

asyncio.run(main())
""",
    "5: the number of a limit": """
def note(language, **limits):
    loop = AgentLoop(client, ".", tools=[search], language=language, **limits)
    return asyncio.run(loop.process_direct("Look for tea.", f"{language} {min(limits)}"))

assert "step limit is reached (1)" in note("en", max_iterations=1)
assert "步数上限 (1)" in note("zh", max_iterations=1)
assert "工具调用次数上限 (1)" in note("zh", max_tool_calls=1)
assert "token limit is reached (20)" in note("en", limits=LoopLimits(max_tokens=20))
""",
}


def reply(request):
    """Call the first tool once for each task, then answer."""
    body = request.body
    names = [each["function"]["name"] for each in body.get("tools") or ()]
    last = body["messages"][-1]["role"]
    if "search" in names and last == "user" and body.get("tool_choice") != "none":
        return call("search", query="tea")
    return answer("Done.")


@pytest.mark.parametrize("row", SHOWN)
def test_program_of_a_design_runs(row, tmp_path, monkeypatch, capsys):
    with ScriptedServer(handler=reply, models=["gpt-4o-mini"]) as server:
        for name, value in {
            "OPENAI_API_KEY": "k",
            "OPENAI_BASE_URL": server.base_url,
            "PAL_HOME": str(tmp_path / "home"),
        }.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(tmp_path)
        exec(compile(HEAD + SHOWN[row], row, "exec"), {"__name__": "reader"})
    assert all(line.strip() for line in capsys.readouterr().out.splitlines())
