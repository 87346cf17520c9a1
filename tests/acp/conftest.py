"""A scripted model, and editors that drive the real command against it."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress

import pytest
from tests import forked
from tests.acp.editor import Editor

from pure_agent_loop.testing import Gate, ScriptedServer, answer, call, deltas, raw_call, status

FOREIGN = ("PAL_", "OPENAI_", "PURE_AGENT_LOOP", "PYTHON", "LANG", "LC_")
SCRIPT = {
    "look": lambda: ["Looking. ", call("list_dir", path=".")],
    "write": lambda: call("write_file", path="src/a.txt", content="new\n"),
    "edit": lambda: call("edit_file", path="notes.txt", old_text="unsaved", new_text="edited"),
    "read": lambda: call("read_file", path="notes.txt"),
    "replace": lambda: call("write_file", path="notes.txt", content="all\n"),
    "both": lambda: [call("read_file", path="notes.txt"), call("read_file", path="more.txt")],
    "find": lambda: call("mcp__places__find", what="the key"),
    "escape": lambda: call("write_file", path="../outside.txt", content="x"),
    "protected": lambda: call("write_file", path=".git/config", content="x"),
    "plan": lambda: call("todo_write", items=[{"task": "one", "status": "done"}, {"task": "two"}]),
    "think": lambda: answer("Here.", reasoning="Hm, well."),
    "command": lambda: call("shell", command="echo made here | tee made.txt; ! touch ../../out 2>&1"),
    "sleep": lambda: call("shell", command="sleep 100"),
    "wonder": lambda: call("wonder"),
    "refund": lambda: call("refund", order="A-1", amount=89.9),
    "stubborn": lambda: call("stubborn"),
    "half": lambda: raw_call("list_dir", '{"path": "\\ud800"}'),
    "print": lambda: call("shout", text="to standard output"),
    "delegate": lambda: call("task", agent="helper", prompt="look and then write"),
    "slow": lambda: deltas("Let me see. ", Gate(), "never"),
    "fail": lambda: status(400, "no such luck"),
}


def _script(request):
    """A task is answered by the call it names; a result by what it says."""
    last = request.messages[-1]
    if request.options.get("model") == "blind" and "image_url" in str(request.messages):
        return status(400, "this model takes no image input")
    if "list_dir" in str(request.messages[-2:-1]) and "and then write" in str(request.messages[1:3]):
        return SCRIPT["write"]()
    if last["role"] == "tool":
        return f"Result: {last['content']}"
    said = last["content"] if isinstance(last["content"], str) else last["content"][0]["text"]
    return SCRIPT[said.split()[0]]() if said.split()[0] in SCRIPT else f"You said: {said}"


@pytest.fixture(scope="module")
def server():
    with ScriptedServer(handler=_script, strict=False) as running:
        yield running


@pytest.fixture(scope="module")
def editors(server, tmp_path_factory):
    """Starts editors with a data folder in common."""
    home, started = tmp_path_factory.mktemp("home"), []
    env = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    env |= {"PAL_HOME": str(home), "PAL_BASE_URL": server.base_url, "PAL_MODEL": "scripted"}
    env |= {"LANG": "C.UTF-8", "HOME": str(home)}

    def start(*words, more=None, **options):
        argv = [*start.command, *words]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = forked.Popen(argv, env={**env, **(more or {})}, cwd=home, **pipes)
        editor = Editor(process, **options)
        started.append(editor)
        editor.env = env
        editor.about = editor.begin()
        return editor

    start.env, start.command = env, [sys.executable, "-m", "pure_agent_loop", "acp"]
    yield start
    for each in started:
        with suppress(BrokenPipeError):
            each.close()
        said = each.process.stderr.read().decode()
        each.process.stderr.close()
        each.check()
        assert "Traceback" not in said, said


@pytest.fixture(scope="module")
def editor(editors):
    """One that lends its files, and is asked about nothing."""
    return editors("--permission-mode", "auto", files={})


@pytest.fixture
def session(editor, tmp_path):
    """A session in a folder with two files that are open in the editor, and not saved."""
    editor.updates.clear()
    editor.files.clear()
    editor.replies.clear()
    for name in ("notes.txt", "more.txt"):
        (tmp_path / name).write_text("saved\n")
        editor.files[str(tmp_path / name)] = "unsaved\n"
    return editor.open(tmp_path)
