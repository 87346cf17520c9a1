"""The command ``run``, end to end: a real process, a real server, and what comes out of it."""

from __future__ import annotations

import json
import re

import pytest

from llm_client_conformance import ScriptedServer, answer, call, status
from llm_client_conformance.faults import quota_exceeded, rate_limited

LOOK = answer("I will look.", call("list_dir", path="."))


@pytest.fixture
def two_files(pal):
    for name in ("a.txt", "b.txt"):
        (pal.workspace / name).write_text(f"text of {name}")


def run(pal, script, *words, text="", **env):
    with ScriptedServer(script) as server:
        pal.use(server)
        done = pal("run", *words, text=text, **env)
    return done, server


@pytest.mark.usefixtures("two_files")
class TestText:
    def test_the_answer_goes_to_standard_output_and_the_way_there_to_standard_error(self, pal):
        done, _ = run(pal, [LOOK, "There are two files.\n"], "what is here?")
        assert done.returncode == 0
        assert done.stdout == "There are two files.\n"
        lines = done.stderr.splitlines()
        assert lines[0].startswith("pal: using scripted at http://127.0.0.1:")
        assert lines[1] == "pal: shell: bubblewrap, no network"
        assert lines[2:4] == ["I will look.", '-> list_dir(path=".")']
        assert lines[4].startswith("<- list_dir")
        assert [line.split()[0] for line in lines[5:7]] == ["a.txt", "b.txt"]
        assert re.fullmatch(r"pal: completed, 2 steps, 30 tokens, \d+\.\d s", lines[7])
        assert lines[8:] == ['pal: to resume: pal -c "..."']

    @pytest.mark.parametrize("option", ["-q", "-p", "--quiet", "--print"])
    def test_quiet_shows_the_model_and_the_answer_only(self, pal, option):
        done, _ = run(pal, [LOOK, "Two."], option, "what is here?")
        assert done.stdout == "Two.\n"
        assert len(done.stderr.splitlines()) == 1
        assert "using scripted" in done.stderr

    def test_a_retry_is_shown(self, pal):
        script = [rate_limited(retry_after=0), "Hello."]
        with ScriptedServer(script) as server:
            pal.use(server)
            done = pal("run", "hi")
        assert done.stdout == "Hello.\n"
        assert "-- try 2 in" in done.stderr

    def test_no_text_of_a_model_or_a_tool_controls_the_terminal(self, pal):
        attack = "\x1b]0;owned\x07\x1b[2J\x9b1m\r\u202e\u200b[/red]"
        (pal.workspace / "evil\x1b[2J").write_text("")
        script = [answer(attack, call("list_dir", path=".")), attack]
        for env in ({}, {"FORCE_COLOR": "1"}):
            done, _ = run(pal, script, "hi", **env)
            both = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
            assert done.returncode == 0
            assert not set(both) & set("\x1b\x07\x9b\r\u202e\u200b")
            assert "[/red]" in both

    def test_colours_only_where_they_are_wanted(self, pal):
        for env, words, coloured in (
            ({}, [], False),
            ({"FORCE_COLOR": "1"}, [], True),
            ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, [], False),
            ({"FORCE_COLOR": "1"}, ["--no-color"], False),
        ):
            done, _ = run(pal, [LOOK, "Two."], "hi", *words, **env)
            assert ("\x1b[" in done.stderr) is coloured
            assert "\x1b" not in done.stdout

    def test_a_terminal_that_cannot_show_a_character_does_not_stop_the_run(self, pal):
        done, _ = run(pal, ["caf\u00e9 \u4f60\u597d \U0001f600"], "hi", PYTHONIOENCODING="ascii")
        assert done.returncode == 0
        assert done.stdout == "caf\\xe9 \\u4f60\\u597d \\U0001f600\n"


@pytest.mark.usefixtures("two_files")
class TestMachineFormats:
    def test_json_is_one_object(self, pal):
        done, _ = run(pal, [LOOK, "Two \u2028 files."], "--output-format", "json", "what is here?")
        assert done.stdout.count("\n") == 1
        assert done.stdout.isascii()
        result = json.loads(done.stdout)
        assert (result["content"], result["stop_reason"], result["steps"]) == (
            "Two \u2028 files.",
            "completed",
            2,
        )
        assert (result["model"], result["schema_version"]) == ("scripted", 1)
        assert result["usage"]["total_tokens"] == 30
        assert "error" not in result
        assert "-> list_dir" in done.stderr

    def test_stream_json_is_a_start_then_every_event_then_the_result(self, pal):
        done, _ = run(pal, [LOOK, "Two."], "--output-format", "stream-json", "what is here?")
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        assert lines[0] == {
            "type": "start",
            "schema_version": 1,
            "workspace": str(pal.workspace),
            "model": "scripted",
            "session_id": lines[-1]["session_id"],
        }
        kinds = [line["type"] for line in lines[1:-1]]
        assert kinds[0] == "loop_start"
        assert kinds[-1] == "loop_end"
        assert kinds.count("text_delta") > 1
        assert [k for k in kinds if k != "part" and not k.endswith("_delta")] == [
            "loop_start",
            *("thought", "action", "observation", "step_end"),
            *("thought", "step_end"),
            "loop_end",
        ]
        assert (lines[-1]["type"], lines[-1]["content"]) == ("result", "Two.")
        assert len(done.stderr.splitlines()) == 1

    def test_a_failed_run_is_an_object_too(self, pal):
        done, _ = run(pal, [quota_exceeded()], "--output-format", "json", "hi")
        result = json.loads(done.stdout)
        assert (result["stop_reason"], result["error"]["kind"]) == ("error", "quota")
        assert "pal: error: The account has no credit left (429).\n  Waiting does not help" in done.stderr
        assert "rejected the request" not in done.stderr
        assert done.returncode == 1


class TestExitCodes:
    def test_a_limit_gives_3_and_an_answer_all_the_same(self, pal):
        done, _ = run(pal, [call("list_dir", path="."), "So far: nothing."], "--max-steps", "1", "hi")
        assert done.returncode == 3
        assert "So far: nothing." in done.stdout
        assert "pal: max_steps, " in done.stderr

    def test_a_failure_that_may_pass_gives_75(self, pal):
        done, _ = run(pal, [rate_limited(retry_after=9999)], "hi")
        assert done.returncode == 75
        assert done.stdout == ""
        assert "pal: error: " in done.stderr

    def test_a_failure_that_stays_gives_1(self, pal):
        done, _ = run(pal, [status(404, "no such model")], "hi")
        assert done.returncode == 1
        assert "no such model" in done.stderr

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["run", ""], "No task given"),
            (["run", "--workspace", "nowhere", "hi"], "--workspace=nowhere is not a folder"),
            (["run", "--base-url", "nonsense", "hi"], "--base-url=nonsense is not a server URL"),
            (["run", "--base-url", "https://models.example/v1", "hi"], "PAL_API_KEY"),
            (["run", "--model", "missing.gguf", "hi"], "missing.gguf"),
        ],
    )
    def test_impossible_usage_exits_with_2_and_one_sentence(self, pal, words, said):
        done = pal(*words)
        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr
        assert done.stderr.count("pal: error:") == 1

    def test_internal_error_shows_a_traceback_only_on_request(self, pal):
        (pal.workspace / "bin").mkdir()
        module = pal.workspace / "bin" / "sitecustomize.py"
        module.write_text(
            "import pure_agent_loop.cli.task as t\n"
            "def bad(*_, **__): raise RuntimeError('x')\n"
            "t.read_task = bad\n"
        )
        path = f"{module.parent}:{pal.env.get('PYTHONPATH', '')}"
        done = pal("run", "hi", PYTHONPATH=path)
        assert done.returncode == 1
        assert "internal error: RuntimeError: x" in done.stderr
        with pytest.raises(AssertionError, match="in bad"):
            pal("run", "hi", PYTHONPATH=path, PAL_DEBUG="1")


class TestRequest:
    def test_the_options_reach_the_model(self, pal):
        _, server = run(
            pal,
            ["Hi."],
            "--system",
            "Be brief.",
            "--temperature",
            "0.1",
            "--model",
            "other",
            "--no-tools",
            "say",
            "hi",
        )
        body = server.requests[0].body
        assert body["messages"] == [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "say hi"},
        ]
        assert (body["temperature"], body["model"]) == (0.1, "other")
        assert "tools" not in body

    @pytest.mark.parametrize(
        ("words", "tools"),
        [
            (("--tools", "read"), {"list_dir", "read_file", "calculator"}),
            (("--tools", "grep, edit_file"), {"grep", "edit_file"}),
            (("--tools", "none"), set()),
            (("--no-tools",), set()),
            (
                (),
                {"list_dir", "read_file", "write_file", "edit_file", "glob", "grep", "calculator"}
                | {"shell", "fetch", "todo_write"},
            ),
        ],
    )
    def test_the_tools_are_those_that_were_asked_for(self, pal, words, tools):
        _, server = run(pal, ["Hi."], *words, "hi")
        offered = server.requests[0].body.get("tools", ())
        assert {tool["function"]["name"] for tool in offered} == tools

    def test_the_tools_see_the_workspace_only(self, pal, tmp_path):
        (tmp_path / "secret.txt").write_text("canary")
        inner = pal.workspace / "inner"
        inner.mkdir()
        (inner / "note.txt").write_text("hello from the note")
        script = [call("read_file", path="note.txt"), call("read_file", path="../../secret.txt"), "Done."]
        done, server = run(pal, script, "--workspace", "inner", "hi")
        assert done.returncode == 0
        results = [m["content"] for m in server.requests[-1].messages if m["role"] == "tool"]
        assert "hello from the note" in results[0]
        assert "canary" not in results[1]

    def test_thinking_is_asked_for_and_shown_as_progress(self, pal):
        done, server = run(pal, [answer("Hi.", reasoning="Let me think.")], "--thinking", "low", "hi")
        assert done.stdout == "Hi.\n"
        assert "Let me think." in done.stderr
        assert any("think" in field or "reasoning" in field for field in server.requests[0].body)

    def test_piped_text_is_the_context_of_the_task(self, pal):
        _, server = run(pal, ["Hi."], "summarise this", text="some\r\ntext\n")
        assert (
            server.requests[0].messages[-1]["content"] == "summarise this\n\n<stdin>\nsome\r\ntext\n</stdin>"
        )

    @pytest.mark.parametrize("words", [[], ["-"]])
    def test_piped_text_is_the_task_without_another(self, pal, words):
        _, server = run(pal, ["Hi."], *words, text=b"\xef\xbb\xbfsay hi \xff\n")
        assert server.requests[0].messages[-1]["content"] == "say hi \ufffd"

    def test_too_much_piped_text_is_refused(self, pal):
        done = pal("run", "hi", text="x" * 4_000_001)
        assert done.returncode == 2
        assert "longer than 4000000 bytes" in done.stderr


def test_key_never_appears_in_output(pal):
    echo = status(401, "Incorrect API key provided: sk-canary-4711")
    for words in ([], ["--output-format", "json"], ["--output-format", "stream-json"]):
        done, server = run(pal, [echo], *words, "hi", PAL_API_KEY="sk-canary-4711")
        assert server.requests[0].headers["authorization"] == "Bearer sk-canary-4711"
        assert done.returncode == 1
        assert "Incorrect API key provided: [secret:api_key removed]" in done.stderr
        assert "canary" not in done.stdout + done.stderr
