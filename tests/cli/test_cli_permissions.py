"""Modes and rules on the command line, and the question to the person at the terminal."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers import unframed

from pure_agent_loop.cli.exits import DENIED, code_for_stop
from pure_agent_loop.cli.parser import parse
from pure_agent_loop.cli.questions import denial_hint, read_reply, rule_for
from pure_agent_loop.cli.toolset import suggest
from pure_agent_loop.permissions import PERMISSION_MODES, PermissionPolicy, PermissionRequest, PermissionRules
from pure_agent_loop.testing import Gate, ScriptedServer, answer, call, deltas
from pure_agent_loop.tool import ToolRegistry

if sys.platform != "win32":
    from terminal import CTRL_C, CTRL_D, QUESTION, Terminal

terminal_only = pytest.mark.skipif(sys.platform == "win32", reason="POSIX terminals")
COUNT = call("calculator", expression="6*7")
LOOK = call("list_dir", path=".")


def run(pal, script, *words):
    with ScriptedServer(script) as server:
        pal.use(server)
        done = pal("run", *words, "go")
    return done, server


def results(server):
    return [unframed(m["content"]) for m in server.requests[-1].messages if m["role"] == "tool"]


def test_the_words_are_those_of_the_library():
    options = parse(["run", "--allow", "a", "--allow", "b", "--deny", "c", "--ask", "d", "x"])
    assert (options.allow, options.deny, options.ask) == (["a", "b"], ["c"], ["d"])
    options = parse(["run", "x"])
    assert (options.permission_mode, options.mode, options.explain) == ("ask", "react", False)
    assert (options.allow, options.deny, options.ask) == ([], [], [])


def test_single_decides_about_tools_once(pal):
    done, server = run(pal, [[LOOK, COUNT], "42."], "--mode", "single")
    assert (done.returncode, done.stdout) == (0, "42.\n")
    assert [request.body.get("tool_choice") for request in server.requests] == [None, "none"]


@pytest.mark.parametrize("mode", PERMISSION_MODES)
def test_the_tools_only_read_so_every_mode_allows_them(pal, mode):
    done, server = run(pal, [[LOOK, COUNT], "42."], "--permission-mode", mode)
    assert done.returncode == 0
    assert results(server)[1] == "42"


def test_a_rule_that_denies(pal):
    script = [COUNT, call("calculator", expression="1+1"), "So be it."]
    done, server = run(pal, script, "--deny", "calculator(6*)")
    assert done.returncode == 0
    assert "The rule 'calculator(6*)' forbids it." in results(server)[0]
    assert results(server)[1] == "2"
    assert '? calculator(expression="6*7"): not allowed (The rule' in done.stderr


def test_nothing_but_refusals_gives_4(pal):
    calls = [call("calculator", expression=f"{n}+1") for n in range(3)]
    done, _ = run(pal, [*calls, "I may not."], "--deny", "*")
    assert done.returncode == DENIED
    assert "I may not." in done.stdout


@pytest.mark.parametrize("option", ["--allow", "--ask", "--deny"])
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("shel(git *)",), "Did you mean 'shell'?"),
        (("edit_file(file=docs/*)",), "'edit_file' has no argument 'file'"),
        (("shell", "--tools", "read"), "there is no tool 'shell'"),
        (("read_file", "--no-tools"), "The agent has no tools."),
    ],
)
def test_a_rule_that_can_match_no_call_gives_2(pal, option, words, said):
    with ScriptedServer([]) as server:
        pal.use(server)
        done = pal("run", option, *words, "go")
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "shared=" not in done.stderr


def test_a_rule_that_is_none_gives_2(pal):
    done = pal("run", "--allow", "a b", "go")
    assert done.returncode == 2
    assert "'a b' is not a permission rule" in done.stderr


class TestWithoutTerminal:
    def test_the_run_ends_with_4_and_says_why(self, pal):
        done, server = run(pal, [answer("Let me see.", LOOK, COUNT)], "--ask", "calculator")
        assert (done.returncode, done.stdout) == (DENIED, "")
        assert (
            'pal: error: calculator(expression="6*7") needs a person\'s permission (the rule '
            "'calculator'), and there is no terminal to ask on. To permit it, leave out --ask calculator.\n"
        ) in done.stderr
        assert "pal: waiting_permission, 1 step" in done.stderr
        assert "<- list_dir" not in done.stderr  # none of the calls of that answer has run
        assert len(server.requests) == 1

    @pytest.mark.parametrize("form", ["json", "stream-json"])
    def test_the_questions_are_part_of_the_result(self, pal, form):
        done, _ = run(pal, [[LOOK, COUNT]], "--ask", "calc*", "--output-format", form)
        result = json.loads(done.stdout.splitlines()[-1])
        assert done.returncode == DENIED
        assert result["stop_reason"] == "waiting_permission"
        assert result["questions"] == [
            {
                "call_id": "call_2",
                "tool": "calculator",
                "args": {"expression": "6*7"},
                "reason": "the rule 'calc*'",
            }
        ]

    def test_other_results_have_no_questions(self, pal):
        done, _ = run(pal, ["Hi."], "--output-format", "json")
        assert "questions" not in json.loads(done.stdout)

    def test_bypass_asks_about_nothing(self, pal):
        done, server = run(pal, [COUNT, "42."], "--ask", "*", "--permission-mode", "bypass")
        assert (done.returncode, results(server)) == (0, ["42"])


def test_the_code_of_a_run_that_waits():
    assert code_for_stop("waiting_permission") == DENIED


NAMES = st.from_regex(r"[a-z_]{1,12}", fullmatch=True)
VALUES = st.text() | st.integers() | st.booleans() | st.none() | st.lists(st.text(), max_size=2)


@given(NAMES, st.dictionaries(NAMES, VALUES, max_size=3))
def test_the_rule_that_is_named_allows_the_call(tool, args):
    rule = rule_for(tool, args)
    policy = PermissionPolicy("ask", PermissionRules(allow=[rule]))
    assert policy.suggest(tool, args, read_only=False).behavior == "allow"
    assert "\n" not in denial_hint(
        {"tool": tool, "args": args, "reason": "the mode 'ask'"}, PermissionRules()
    )


@pytest.mark.parametrize(
    ("tool", "args", "how"),
    [
        ("rm", {"path": "a b", "force": True}, " To permit it: --allow 'rm(path=a b, force=true)'"),
        ("rm", {}, " To permit it: --allow rm"),
        ("rm", {"path": "x" * 200}, " To permit it: --allow rm"),
        ("rm", {"path": "a\x1b[2J"}, " To permit it: --allow rm"),
        ("rm", {"path": "a\nb"}, " To permit it: --allow rm"),
        ("no (tool)", {}, ""),
        (
            "edit_file",
            {"path": "app.py", "old_text": "a", "new_text": "b"},
            " To permit it: --allow 'edit_file(path=app.py)'",
        ),
        (
            "write_file",
            {"path": "app.py", "content": "x" * 500},
            " To permit it: --allow 'write_file(path=app.py)'",
        ),
    ],
)
def test_how_a_call_can_be_permitted(tool, args, how):
    said = denial_hint({"tool": tool, "args": args, "reason": "the mode 'ask'"}, PermissionRules())
    assert said.partition("there is no terminal to ask on.")[2] == how
    assert "needs a person's permission (the mode 'ask')" in said
    assert "old_text" not in said
    assert "xxx" not in said or tool == "rm"
    assert "\x1b" not in said


@pytest.mark.parametrize(
    ("line", "behavior", "text"),
    [
        ("Yes", "allow", ""),
        ("是", "allow", ""),
        ("n", "deny", ""),
        (" ", "deny", ""),
        (None, "deny", ""),
        ("no idea", "allow", "no idea"),
        ("y or n", "allow", "y or n"),
    ],
)
def test_the_answer_to_a_tool_is_a_yes_a_no_or_a_text(line, behavior, text):
    answer = read_reply(line)
    assert (answer.behavior, answer.message) == (behavior, text)


def test_plan_mode_decides_no_call_of_a_tool_that_is_unknown_here():
    options = parse(["run", "--permission-mode", "plan", "--deny", "mcp__b__*", "x"])

    def behavior(name):
        request = PermissionRequest("c1", name, {}, "why")
        return suggest(options, request, ToolRegistry([]), attended=True).behavior

    assert (behavior("mcp__a__find"), behavior("mcp__b__find")) == ("ask", "deny")


@terminal_only
class TestTerminal:
    @pytest.fixture
    def asked(self, pal):
        """Starts the command with a script and `--ask '*'`, on a terminal."""
        with ExitStack() as stack:

            def start(script, *words, ask="*", **streams):
                server = stack.enter_context(ScriptedServer(script, strict=False))
                pal.use(server)
                terminal = Terminal(pal, "run", "--no-color", "--ask", ask, *words, "go", **streams)
                stack.callback(terminal.close)
                return terminal, server

            yield start

    def test_yes_runs_the_call(self, asked):
        terminal, server = asked([answer("I will count.", COUNT), "42."])
        terminal.until(QUESTION)
        lines = terminal.shown.splitlines()
        assert lines[2:] == [
            "I will count.",
            "pal: Call calculator? (the rule '*')",
            '  expression: "6*7"',
            QUESTION,
        ]
        terminal.type("y\n")
        assert terminal.end() == 0
        assert results(server) == ["42"]
        assert f'{QUESTION}y\n? calculator(expression="6*7"): allowed\n-> calculator' in terminal.shown

    @pytest.mark.parametrize("keys", ["n\n", "No\n", CTRL_D])
    def test_denial_is_sent_to_the_model(self, asked, keys):
        terminal, server = asked([COUNT, "Then not."])
        terminal.until(QUESTION)
        terminal.type(keys)
        assert terminal.end() == 0
        assert "was not allowed" in results(server)[0]
        assert re.search(r"tool: (n|No)?\n\? calculator\(.*\): not allowed\n", terminal.shown)

    def test_invalid_answer_repeats_the_question(self, asked):
        terminal, server = asked([COUNT, "42."])
        for keys in ("\n", "maybe\n", "yess\n"):
            terminal.until(QUESTION)
            terminal.type(keys)
        terminal.until(QUESTION)
        terminal.type("YES\n")
        assert terminal.end() == 0
        assert results(server) == ["42"]

    def test_always_asks_no_more_about_that_tool(self, asked):
        again = call("calculator", expression="1+1")
        terminal, server = asked([[COUNT, again], [again, LOOK], "42."])
        terminal.until(QUESTION)
        terminal.type("a\n")
        terminal.until("Call list_dir?")
        terminal.until(QUESTION)
        terminal.type("y\n")
        assert terminal.end() == 0
        assert terminal.shown.count(QUESTION) == 2
        assert results(server)[:3] == ["42", "2", "2"]

    def test_ctrl_c_cancels_the_run(self, asked):
        terminal, server = asked([answer("I will count.", COUNT)])
        terminal.until(QUESTION)
        terminal.type(CTRL_C)
        assert terminal.end() == 130
        assert "stopping; Ctrl-C again exits immediately" in terminal.shown
        assert "pal: cancelled, 1 step" in terminal.shown
        assert "Traceback" not in terminal.shown
        assert "->" not in terminal.shown
        assert len(server.requests) == 1

    def test_text_typed_before_the_question_is_not_an_answer(self, asked):
        gate = Gate()
        terminal, server = asked([deltas("I will count. ", gate, COUNT), "Then not."])
        terminal.until("I will count.")
        terminal.type("y\n")
        terminal.until("y\n")  # its echo: the terminal has it
        gate.open()
        terminal.until(QUESTION)
        terminal.type("n\n")
        assert terminal.end() == 0
        assert "was not allowed" in results(server)[0]

    def test_no_argument_can_pass_for_another_or_move_the_cursor(self, asked):
        evil = "1\n  path: ok\x1b[2J\x9b1m\u202e\u200b"
        terminal, _ = asked([call("calculator", expression=evil + "x" * 9000), "Then not."])
        terminal.until("[s]how what was left out")
        assert not set(terminal.shown) & set("\x1b\x9b\u202e\u200b")
        lines, shown = terminal.shown.splitlines(), " ".join(terminal.shown.split())
        assert [line[:13] for line in lines if re.match("  ?[a-z]", line)] == ["  expression:"]
        assert ' expression: "1\\n··path: ok\\u001b[2J' in shown
        assert "characters left out ...]" in shown
        assert len(terminal.shown) < 4000
        terminal.type("n\n")
        assert terminal.end() == 0

    def test_nothing_hides_behind_blanks_or_in_the_middle(self, asked):
        no_ink = "\u2800\u3164\u115f\ufe00\u034f\U000e0100"
        command = f"ls{' ' * 3000}; echo{' ' * 3}a\u2003b; echo {no_ink}; {'x' * 3000} && rm -rf y"
        terminal, server = asked([call("shell", command=command), "Then not."])
        terminal.until("[s]how what was left out")
        assert "ls·(3000 blanks)·; echo···a\\u2003b; echo \\u2800" in " ".join(terminal.shown.split())
        assert "  3. echo \\u2800\\u3164\\u115f\\ufe00\\u034f\\U000e0100\n" in terminal.shown
        assert "  1. ls" in terminal.shown
        assert "  2. echo···a\\u2003b" in terminal.shown
        assert "  5. rm -rf y" in terminal.shown
        assert "x" * 3000 not in terminal.shown
        terminal.type("s\n")
        terminal.until("x" * 3000)
        terminal.until("[s]how what was left out")
        terminal.type("n\n")
        assert terminal.end() == 0
        assert "was not allowed" in results(server)[0]

    def test_piped_text_leaves_the_terminal_for_the_answer(self, asked, pal):
        context = pal.workspace / "context"
        context.write_text("n\nn\n")
        with context.open() as stdin:
            terminal, server = asked([COUNT, "42."], stdin=stdin)
        terminal.until(QUESTION)
        terminal.type("y\n")
        assert terminal.end() == 0
        assert results(server) == ["42"]
        assert "<stdin>\nn\nn\n</stdin>" in server.requests[0].messages[-1]["content"]

    @pytest.mark.parametrize("form", ["text", "json"])
    def test_standard_output_has_the_result_only(self, asked, form):
        terminal, _ = asked([COUNT, "42."], "-q", "--output-format", form, stdout=subprocess.PIPE)
        terminal.until(QUESTION)
        terminal.type("y\n")
        out = terminal.process.stdout.read().decode()
        assert terminal.end() == 0
        assert (out if form == "text" else json.loads(out)["content"] + "\n") == "42.\n"

    def test_questions_follow_each_other_without_a_gap(self, asked):
        terminal, _ = asked([[COUNT, LOOK], "42."], "-q")
        for _ in range(2):
            terminal.until(QUESTION)
            terminal.type("y\n")
        assert terminal.end() == 0
        assert "\n\n" not in terminal.shown

    def test_a_rule_that_does_not_fit_asks_nothing(self, asked):
        terminal, _ = asked([COUNT, "42."], ask="calculator(1*)")
        assert terminal.end() == 0
        assert QUESTION not in terminal.shown
