"""The command in scripts and shells: formats with a schema, pipes, completion, the manual."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from contextlib import closing
from importlib.resources import files

import pytest

from llm_client_conformance import ScriptedServer, answer, call
from llm_client_conformance.faults import quota_exceeded
from pure_agent_loop.cli.parser import COMMANDS, make_parser
from pure_agent_loop.cli.shell_integration.completion import SHELLS, completion
from pure_agent_loop.cli.shell_integration.outline import outline
from pure_agent_loop.events import EventType
from pure_agent_loop.llm.tool_modes.recover import could_fit

if sys.platform != "win32":
    from terminal import CTRL_D, Terminal

SCHEMA = json.loads(files("pure_agent_loop.cli").joinpath("output.schema.json").read_text("utf-8"))
LOOK = answer("I will look.", call("list_dir", path="."))
CONVERSATION = ("--tools", "read", "--input-format", "stream-json", "--output-format", "stream-json")


def fits(value, name):
    return could_fit(value, {"$ref": f"#/$defs/{name}"}, SCHEMA)


def lines_of(*contents):
    return "".join(json.dumps({"type": "user", "content": each}) + "\n" for each in contents)


class TestSchema:
    def test_every_kind_of_event_is_in_it(self):
        kinds = {each["properties"]["type"]["const"] for each in SCHEMA["$defs"]["event"]["oneOf"]}
        assert kinds == {each.value for each in EventType}

    @pytest.mark.parametrize(
        "script",
        [[LOOK, "Two."], [quota_exceeded()], [answer("", call("write_file", path="a", content="b"))]],
    )
    def test_written_output_fits_the_schema(self, pal, script):
        for form in ("stream-json", "json"):
            with ScriptedServer(script) as server:
                pal.use(server)
                done = pal("run", "--output-format", form, "go")
            lines = [json.loads(line) for line in done.stdout.splitlines()]
            names = ["start", *["event"] * (len(lines) - 2), "last"] if form == "stream-json" else ["result"]
            assert all(fits(line, name) for line, name in zip(lines, names, strict=True))
            assert form == "json" or all(fits(line, "line") for line in lines)

    def test_other_values_do_not_fit(self):
        assert not fits({"type": "action", "step": 1, "timestamp": 1.0, "data": {"tool": "x"}}, "line")
        assert not fits({"type": "dance", "step": 1, "timestamp": 1.0, "data": {}}, "line")
        assert not fits({"type": "user", "content": "x", "more": 1}, "input")
        assert fits({"type": "user", "content": "x"}, "input")


class TestConversation:
    @pytest.mark.parametrize("session", [(), ("--no-session",)])
    def test_each_line_continues_the_previous_one(self, pal, session):
        with ScriptedServer(["Hello Ada.", LOOK, "Ada."]) as server:
            pal.use(server)
            done = pal(*CONVERSATION, *session, text=lines_of("I am Ada.", "Who am I?") + "\n")
        assert done.returncode == 0, done.stderr
        found = [json.loads(line) for line in done.stdout.splitlines()]
        assert [each["content"] for each in found if each["type"] == "result"] == ["Hello Ada.", "Ada."]
        assert [each["type"] for each in found].count("start") == 1
        spoken = [
            each["content"] for each in server.requests[-1].messages if each["role"] in ("user", "assistant")
        ]
        assert spoken.pop(0).startswith("[Context")  # the facts
        assert spoken == ["I am Ada.", "Hello Ada.", "Who am I?", "I will look."]

    def test_an_answer_comes_before_the_next_question_is_asked(self, pal):
        with ScriptedServer(["One.", "Two."]) as server:
            pal.use(server)
            process = pal.start(*CONVERSATION, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
            with process:
                for expected in ("One.", "Two."):
                    process.stdin.write(lines_of("go").encode())
                    process.stdin.flush()
                    while json.loads(line := process.stdout.readline())["type"] != "result":
                        pass
                    assert json.loads(line)["content"] == expected
                process.stdin.close()
                assert process.wait(60) == 0

    @pytest.mark.parametrize(
        "text",
        [
            "hello\n",
            "{}\n",
            '{"type": "user"}\n',
            '{"type": "user", "content": 3}\n',
            '{"type": "dance", "content": "x"}\n',
            '{"type": "user", "content": " "}\n',
            "[" * 100_000 + "\n",
            "",
        ],
    )
    def test_a_line_that_is_none_is_said_with_its_number(self, pal, text):
        with ScriptedServer(["Hi."] if text else []) as server:
            pal.use(server)
            done = pal(*CONVERSATION, text=(lines_of("hi") if text else "") + text)
        assert done.returncode == 2
        assert ("Line 2 of standard input" if text else "No task given") in done.stderr

    def test_it_needs_its_output_format_and_no_task(self, pal):
        for words in (
            ["--input-format", "stream-json"],
            [*CONVERSATION, "task"],
            [*CONVERSATION, "--explain"],
        ):
            done = pal(*words)
            assert (done.returncode, "--input-format stream-json" in done.stderr) == (2, True)


class TestOneAnswer:
    def test_a_question_a_piped_one_and_context(self, pal):
        for words, text, asked in (
            (["why is it so?"], "", "why is it so?"),
            (["-p", "why?"], "", "why?"),
            ([], "piped", "piped"),
            (["-p"], "piped", "piped"),
            (["chat"], "piped", "piped"),
            (["why?"], "context", "why?\n\n<stdin>\ncontext\n</stdin>"),
        ):
            with ScriptedServer(["So."]) as server:
                pal.use(server)
                done = pal(*words, text=text)
            assert (done.returncode, done.stdout) == (0, "So.\n")
            assert server.requests[0].messages[-1]["content"] == asked


class TestTerminal:
    @pytest.mark.parametrize("words", [("-q", "go"), ("--output-format", "stream-json", "go")])
    def test_a_long_wait_is_said_although_nothing_else_is(self, pal, words):
        shown = threading.Event()

        async def handler(request):
            await asyncio.get_running_loop().run_in_executor(None, shown.wait, 60)
            return "Done."

        with ScriptedServer(handler=handler) as server:
            pal.use(server)
            streams = {} if words[0] == "-q" else {"stdout": subprocess.DEVNULL}
            with closing(Terminal(pal, *words, **streams)) as terminal:
                terminal.until("still waiting for the model (")
                shown.set()
                assert terminal.end() == 0
        assert words[0] != "-q" or terminal.shown.endswith("\r\x1b[2KDone.\n")

    def test_pipe_gets_no_notice(self, pal):
        shown = threading.Event()

        async def handler(request):
            if len(seen) < 2:
                seen.append(request)
                return answer("", call("calculator", expression="1+1"))
            return "Done."

        seen = []
        with ScriptedServer(handler=handler) as server:
            pal.use(server)
            assert "waiting" not in pal("-q", "go").stderr
        assert not shown.is_set()

    @pytest.mark.parametrize(
        ("env", "may", "after"),
        [
            ({}, "Ask before changes", "/ commands"),
            ({"LANG": "zh_CN.UTF-8"}, "可能改动内容的操作都先询问", "/ 命令"),
            ({"LANG": "zh_CN.UTF-8", "PAL_LANG": "en"}, "Ask before changes", "/ commands"),
        ],
    )
    @pytest.mark.parametrize("words", [(), ("chat",), ("--sandbox", "none")])
    def test_bare_command_prints_model_rights_and_usage_in_three_lines(self, pal, env, may, after, words):
        for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
            pal.env.pop(name, None)
        pal.env.update({"NO_COLOR": "1", "OPENAI_API_KEY": "secret-of-mine", **env})
        with closing(Terminal(pal, *words)) as terminal:
            terminal.until(after)
            terminal.type(CTRL_D)
            assert terminal.end() == 0
        assert "pal 0." in terminal.shown
        card = "".join("".join(terminal.shown.splitlines()[:10]).split())  # which is wrapped
        assert "gpt-4o-mini·" in card
        assert pal.workspace.name in card
        assert may.replace(" ", "") in card
        assert after in terminal.shown
        assert "secret-of-mine" not in terminal.shown

    def test_bare_command_without_a_model_prints_the_next_step(self, pal):
        pal.env.update({"PAL_BASE_URL": "http://127.0.0.1:9/v1", "NO_COLOR": "1", "LANG": "C"})
        with closing(Terminal(pal)) as terminal:
            assert terminal.end() == 2
        shown = " ".join(terminal.shown.split())
        assert shown == (
            "pal: error: No model selected at http://127.0.0.1:9/v1. Use --model NAME (or PAL_MODEL)."
        )


class TestPaper:
    def complete(self, *words):
        """What bash offers for the last word."""
        script = completion(outline(make_parser()), "bash")
        quoted = " ".join(f"'{each}'" for each in words)
        words_are = f"COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}"
        code = f"{script}\n{words_are}; _pal; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True)
        return done.stdout.split()

    def test_bash_completes_commands_options_and_values(self):
        assert self.complete("pal", "ses") == ["sessions"]
        assert set(COMMANDS) <= set(self.complete("pal", ""))
        assert self.complete("pal", "--contin") == ["--continue"]
        assert self.complete("pal", "sessions", "re") == ["repair"]
        assert self.complete("pal", "sessions", "export", "--fo") == ["--format"]
        assert self.complete("pal", "sessions", "export", "--format", "") == ["markdown", "html", "jsonl"]
        assert self.complete("pal", "run", "a task", "--thinking", "") == [
            "off",
            "none",
            "low",
            "medium",
            "high",
        ]
        assert self.complete("pal", "run", "--model", "") == []

    @pytest.mark.parametrize("shell", SHELLS)
    def test_every_option_of_every_command_is_in_it(self, shell):
        script = completion(outline(make_parser()), shell)
        for command in outline(make_parser()).all():
            for word in (word for option in command.options for word in option.words):
                wanted = f"-l {word[2:]} " if shell == "fish" and word.startswith("--") else word
                assert (f"-s {word[1:]} " if shell == "fish" and word[1] != "-" else wanted) in script

    def test_the_command_prints_them(self, pal):
        for shell in SHELLS:
            assert pal("completion", shell).stdout == completion(outline(make_parser()), shell)
        assert pal("completion", "tcsh").returncode == 2
