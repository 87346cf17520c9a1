"""How a command ended is shown to people everywhere: as a failure, with its duration and its last lines."""

from __future__ import annotations

import asyncio
import os
import re

import pytest
from tests.toolbox.sandbox_ground import require_tools

from pure_agent_loop import Agent
from pure_agent_loop.audit import AuditLog, history, verify
from pure_agent_loop.cli.chat.transcript import TranscriptView
from pure_agent_loop.events import EventType
from pure_agent_loop.renderer import Renderer
from pure_agent_loop.sessions import JsonlStore
from pure_agent_loop.sessions.export import to_markdown
from pure_agent_loop.testing import ScriptedLLM, call
from pure_agent_loop.toolbox import Shell
from pure_agent_loop.toolbox.sandbox.captured import Captured
from pure_agent_loop.toolbox.shell.live import LiveOutput

FAILS = "printf 'one\\ntwo\\nthree\\nfour\\n'; exit 3"


@pytest.fixture(autouse=True)
def _tools():
    require_tools()


def ended(tmp_path, command, **options):
    """Run a command that nobody approves: it is tried read-only before the call."""
    log, sessions = AuditLog(tmp_path / "audit"), JsonlStore(tmp_path / "sessions")
    (tmp_path / "work").mkdir()
    shell = Shell(tmp_path / "work", **options)
    script = ScriptedLLM([call("shell", command=command), "Done."])
    agent = Agent(llm=script, tools=[shell.tool()], permission_mode="ask", sessions=sessions, audit=log)
    events = list(agent.run_stream("Run it.", session_id="one"))
    data = next(event.data for event in events if event.type is EventType.OBSERVATION)
    return events, data, history(log)[0], to_markdown(sessions.read("one").records)


def test_a_failed_command_is_a_failure_for_people(tmp_path):
    events, data, entry, document = ended(tmp_path, FAILS)
    assert data["command"]["exit_code"] == 3
    assert data["command"]["lines"] == 4
    assert data["command"]["tail"] == "two\nthree\nfour"
    assert data["is_error"] is False  # the tool worked, and the model reads the code
    assert (entry.status, entry.exit_code) == ("error", 3)
    assert verify(tmp_path / "audit").ok
    assert "(exit code 3" in document.split("<summary>")[1].split("</summary>")[0]
    screen = TranscriptView(60, color=False, animation=False)
    shown = "".join(screen.feed(event) for event in events)
    assert f"✗ Ran {FAILS[:20]}" in shown
    assert "exit code 3, read-only\n  two\n  three\n  four\n" in shown
    assert "<- shell exit code 3" in "".join(map(Renderer().render, events))


@pytest.mark.parametrize("mode", ["bubblewrap", "landlock", "none"])
@pytest.mark.parametrize("command", ["cat pipe", "wc -l < pipe"])
def test_command_that_waits_for_a_pipe_ends_after_the_tool_timeout(tmp_path, mode, command):
    os.mkfifo(tmp_path / "pipe")
    shell = Shell(tmp_path, sandbox=mode)
    script = ScriptedLLM([call("shell", command=command), "done"])
    agent = Agent(llm=script, tools=[shell.tool()], tool_timeout=0.5, on_ask=lambda _: "allow")
    assert "[ended after 0.5 seconds: " in agent.run("go").messages[2]["content"]


def test_a_command_that_worked_shows_its_last_line(tmp_path):
    events, _, entry, document = ended(tmp_path, "echo a; echo 12 passed")
    assert (entry.status, entry.exit_code) == ("ok", 0)
    assert "failed" not in document
    screen = TranscriptView(80, color=False, animation=False)
    assert "✓ Ran echo a; echo 12 passed  read-only · 12 passed\n" in "".join(map(screen.feed, events))


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        (FAILS, "  one\n  two\n  three\n  four\n"),
        ("echo one; echo; echo; false", "  one\n"),
        (f"echo {'word ' * 100}; false", f"  {'word ' * 100}".rstrip() + "\n"),
        ("false", "  no output\n"),
    ],
)
def test_unfolded_output_ends_before_the_lines_for_the_model(tmp_path, command, printed):
    events, data, _, _ = ended(tmp_path, command)
    assert "exit code" in data["result"]
    screen = TranscriptView(80, color=False, animation=False)
    for event in events:
        screen.feed(event)
    assert screen.unfold().endswith(f"result:\n{printed}")


def test_unfolded_output_that_a_limit_cut_is_shown_whole(tmp_path):
    screen = TranscriptView(80, color=False, animation=False)
    events, _, _, _ = ended(tmp_path, FAILS)
    observation = next(event for event in events if event.type is EventType.OBSERVATION)
    observation.data["result"] = "changed by a hook\nsecond\nthird\nfifth\nsixth"
    screen.feed(observation)
    assert "sixth" in screen.unfold()


def test_the_duration_counts_the_try(tmp_path):
    _, data, entry, _ = ended(tmp_path, "sleep 0.4")
    assert data["duration"] >= 0.4
    assert entry.seconds >= 0.4


def test_a_command_that_took_too_long_has_failed(tmp_path):
    _, data, entry, _ = ended(tmp_path, "sleep 60", timeout=0.3)
    assert data["command"]["exit_code"] == 124
    assert entry.status == "error"


@pytest.mark.parametrize("mode", ["auto", "ask"])
def test_output_is_shown_while_a_command_runs(tmp_path, mode):
    """Also while it is tried: the command ends only after its first output was shown."""
    (tmp_path / "work").mkdir()
    shell = Shell(tmp_path / "work")
    command = "echo begun; until [ -e shown ]; do sleep 0.02; done; echo ended"
    script = ScriptedLLM([call("shell", command=command), "Done."])
    agent = Agent(llm=script, tools=[shell.tool()], permission_mode=mode)
    progress = []
    for event in agent.run_stream("Run it."):
        if event.type is EventType.PROGRESS:
            progress.append(event.data["text"])
            (tmp_path / "work" / "shown").touch()
        if event.type is EventType.OBSERVATION:
            assert event.data["command"]["tail"] == "begun\nended"
    assert progress[0] == "begun\n"


def test_progress_that_is_drawn_over_itself_is_its_last_state(tmp_path):
    frames = r"for i in $(seq 1 4000); do printf '\rReceiving: %d of 4000\033[K' $i; done"
    _, data, _, document = ended(tmp_path, f"echo first; {frames}; printf '\\n\\033[32mdone\\033[0m\\n'")
    assert data["result"].startswith("first\nReceiving: 4000 of 4000\ndone\n[exit code")
    assert data["command"]["lines"] == 3
    assert data["command"]["tail"] == "first\nReceiving: 4000 of 4000\ndone"
    assert "Receiving: 3999" not in document


def test_live_output_that_overwrites_a_line_begins_another():
    pieces = []

    async def run():
        sent = asyncio.Event()

        async def send(text):
            pieces.append(text)
            sent.set()

        live = LiveOutput(send)
        for data in (b"a\r\nwait 1\rwait 2", b"\rwait\x1b[K 3\x1b[0m", b" done\n"):
            sent.clear()
            live.add(data)
            await sent.wait()
        await live.close()

    asyncio.run(run())
    assert pieces == ["a\r\nwait 2", "\nwait 3", " done\n"]


@pytest.mark.parametrize(
    "text", ["ab\r\n" * 20, "é进\n" * 20, "one two", "x" * 31, "", "\r\n" * 3 + "y" * 400]
)
def test_captured_output_without_overwriting_is_whole_or_cut_in_the_middle(text):
    captured, data = Captured(30), text.encode()
    for start in range(0, len(data), 7):
        captured.add(data[start : start + 7])
    shown = captured.text()
    if len(data) <= 30:
        assert (shown, captured.cut) == (text, 0)
    else:
        head, cut, tail = re.split(r"(\n\[\.\.\. [\d,]+ bytes left out \.\.\.\]\n)", shown)
        assert text.startswith(head)
        assert text.endswith(tail)
        assert f"{captured.cut:,}" in cut
        assert len(data) - 30 <= captured.cut <= len(data) - 20


def test_captured_progress_keeps_the_lines_printed_between():
    captured = Captured(300)
    for number in range(2_000):
        captured.add(f"\rpart {number}".encode())
        if number == 1_000:
            captured.add(b"\nwarning: half\n")
    assert (captured.text(), captured.cut) == ("part 1000\nwarning: half\npart 1999", 0)
