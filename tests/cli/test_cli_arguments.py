"""The command line: what it accepts, what it refuses, and that asking for help costs nothing."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys

import pytest
from tests.cli.terminal import Terminal

from pure_agent_loop import LoopLimits, Price, __version__
from pure_agent_loop.cli.arguments import read_options
from pure_agent_loop.cli.options import MAIN_FLAGS, ModelOptions, limits_of
from pure_agent_loop.cli.parser import DEFAULT_ACTIONS, GROUPS, make_parser, parse
from pure_agent_loop.cli.settings.layers import resolve


def test_the_defaults():
    options = parse(["run", "do", "it"])
    assert options.task == ["do", "it"]
    assert (options.output_format, options.workspace, options.max_turns) == ("text", ".", 25)
    assert (options.thinking, options.model, options.temperature, options.system) == ("off", None, None, None)
    assert (options.quiet, options.no_tools, options.theme) == (False, False, "auto")
    assert options.typed_options == {"task"}


def test_options_may_stand_before_and_after_the_task():
    for words in (["-m", "x", "-q", "do it"], ["do it", "-m", "x", "-q"], ["-q", "do it", "--model=x"]):
        options = parse(["run", *words])
        assert (options.task, options.model, options.quiet) == (["do it"], "x", True)


def test_limits_are_exactly_the_given_ones():
    assert limits_of(parse(["run", "x"])) == LoopLimits(max_turns=25, max_tokens=None)
    counts = ["--max-turns", "3", "--max-tokens", "500", "--max-seconds", "9"]
    money = ["--max-cost", "0.5", "--price", "1,2,0.5"]
    assert limits_of(parse(["run", *counts, *money, "x"])) == LoopLimits(
        max_turns=3, max_tokens=500, max_seconds=9, max_cost=0.5, prices={"*": Price(1, 2, 0.5)}
    )
    assert limits_of(parse(["run", "--max-cost", "1", "x"])).max_cost == 1  # at the shipped prices
    assert limits_of(parse(["run", "--price", "1,2,3,4", "x"])).prices == {"*": Price(1, 2, 3, 4)}


def test_max_turns_is_another_name_for_max_steps():
    assert parse(["run", "--max-turns", "3", "x"]).max_turns == 3


def test_print_alone_means_run():
    options = parse(["-p", "do it"])
    assert (options.command, options.task, options.quiet) == ("run", ["do it"], True)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["sesions"], "Did you mean sessions?"),
        (["modle", "list"], "Did you mean model? To run it as a task: pal run modle"),
        (["status"], "unknown command 'status'. To run it as a task: pal run status"),
        (["run", "--max-turn", "3", "x"], "Did you mean --max-turns"),
        (["sessions", "--jsn"], "Did you mean --json"),
        (["sessions", "lst"], "Did you mean list?"),
        (["sessions", "rm", "x"], "Did you mean delete?"),
        (["--vresion"], "Did you mean --version"),
        (["run", "--max-tokens", "0", "x"], "'0' is not a whole number of at least 1"),
        (["run", "--max-seconds", "-1", "x"], "'-1' is not a number of seconds"),
        (["run", "--max-cost", "nan", "x"], "'nan' is not a number above 0"),
        (["run", "--price", "1", "x"], "'1' is not two to four numbers"),
        (["run", "--price", "1,-2", "x"], "'1,-2' is not two to four numbers"),
        (["run", "--max-steps", "0", "x"], "'0' is not a whole number of at least 1"),
        (["run", "--max-steps", "many", "x"], "'many' is not a whole number of at least 1"),
        (["run", "--temperature", "nan", "x"], "'nan' is not a number from 0 to 2"),
        (["run", "--temperature", "3", "x"], "'3' is not a number from 0 to 2"),
        (["run", "--thinking", "hard", "x"], "low"),
        (["run", "--output-format", "xml", "x"], "stream-json"),
        (["run", "--temp", "1", "x"], "--temp"),  # no abbreviations: they would change meaning later
        (["model", "pull"], "name"),
    ],
)
def test_wrong_usage_is_said_and_gives_2(words, named, capsys):
    with pytest.raises(SystemExit) as stop:
        parse(words)
    assert stop.value.code == 2
    shown = capsys.readouterr().err
    assert named in shown
    assert shown.startswith("pal: error: ")  # first what is wrong, then the usage
    assert shown.splitlines()[-1].startswith("usage: pal")
    assert shown.rstrip().endswith('to run a task: pal run "your task"')  # holds for one word too


@pytest.mark.parametrize("words", [["--api-key", "sk-canary-123"], ["--api-key=sk-canary-123"]])
def test_a_key_on_the_command_line_is_refused_and_not_repeated(words, capsys):
    with pytest.raises(SystemExit) as stop:
        parse(["run", *words, "x"])
    shown = "".join(capsys.readouterr())
    assert stop.value.code == 2
    assert "PAL_API_KEY" in shown
    assert "canary" not in shown


def test_control_characters_in_arguments_are_not_repeated_raw(capsys):
    with pytest.raises(SystemExit):
        parse(["run", "--\x1b]0;owned\x07", "x"])
    assert "\x1b]" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["run", "--help"],
        ["run", "--help-all"],
        ["model", "--help"],
        ["--version"],
        ["run", "--nope"],
    ],
)
def test_help_and_errors_load_nothing_heavy(words):
    code = (
        "import sys\n"
        "from pure_agent_loop.cli import main\n"
        f"main({words!r})\n"
        "heavy = {'openai', 'pydantic', 'pydantic_core', 'rich', 'httpx', 'httpx2', 'xllamacpp'}\n"
        "print('LOADED', sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("LOADED []\n")


def test_version_and_help_go_to_standard_output(pal):
    shown = pal("--version")
    assert (shown.returncode, shown.stdout, shown.stderr) == (0, f"pure-agent-loop {__version__}\n", "")
    shown = pal("run", "--help")
    assert shown.returncode == 0
    for word in ("--model", "--base-url", "--workspace", "PAL_API_KEY", "Exit codes: 0 done"):
        assert word in shown.stdout
    assert "--api-key" not in shown.stdout


def options_in(text: str) -> set[str]:
    """The options that a help text lists, by their last names."""
    return {line.split("  ")[0].split(", ")[-1].split()[0] for line in re.findall(r"^  (-.*)", text, re.M)}


@pytest.mark.parametrize("command", ["run", "chat", "acp"])
def test_help_shows_the_main_options_and_help_all_every_one(command, capsys):
    shown = {}
    for option in ("--help", "--help-all"):
        with pytest.raises(SystemExit) as stop:
            parse([command, option])
        assert stop.value.code == 0
        shown[option] = capsys.readouterr().out
    every = [action for action in make_parser({command}).inner._actions if action.option_strings]
    visible = [action.option_strings for action in every if action.help != argparse.SUPPRESS]
    assert options_in(shown["--help-all"]) == {names[-1] for names in visible}
    main = [[name for name in names if name.startswith("--")] for names in visible if MAIN_FLAGS & set(names)]
    assert options_in(shown["--help"]) == {names[0] for names in main}  # no aliases
    tasks = {"run": " TASK", "chat": " [TASK]", "acp": ""}
    assert shown["--help"].startswith(f"usage: pal {command} [OPTIONS]{tasks[command]}\n")
    assert shown["--help"].splitlines()[-1] == f"All options: pal {command} --help-all"
    assert "All options:" not in shown["--help-all"]


def test_each_main_option_is_one_of_run():
    assert set(make_parser({"run"}).inner._option_string_actions) >= MAIN_FLAGS
    assert 18 <= len([flag for flag in MAIN_FLAGS if flag.startswith("--")]) <= 25


def test_wrong_usage_names_the_help_that_lists_every_option(capsys):
    for command, option in (("run", "--help-all"), ("doctor", "--help")):
        with pytest.raises(SystemExit):
            parse([command, "--nope"])
        assert f"all options: pal {command} {option};" in capsys.readouterr().err


def test_without_a_task_and_a_terminal_it_says_how_to_give_one(pal):
    shown = pal()
    assert (shown.returncode, shown.stdout) == (2, "")
    assert "No task given." in shown.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["dance with me"], ["run", "dance with me"]),
        (["跳舞"], ["run", "跳舞"]),
        (["-m", "x", "why?"], ["run", "-m", "x", "why?"]),
        (["-P", "work", "doctor"], ["doctor", "-P", "work"]),
        (["--profile=work", "doctor"], ["doctor", "--profile=work"]),
        (["-P", "work", "config", "show"], ["config", "show", "-P", "work"]),
        (["-c"], ["run", "-c"]),
    ],
)
def test_text_without_a_command_is_a_question(words, expected):
    assert vars(parse(words)) == vars(parse(expected))


def test_an_option_of_a_command_sets_no_setting_of_the_same_name():
    typed = parse(["eval", "cases.yaml", "--thinking", "low"])
    typed.max_tokens, typed.typed_options = 5, typed.typed_options | {"max_tokens"}
    options = read_options(ModelOptions, typed)
    settings = resolve(options, [], {})
    assert settings["thinking"].value == "low"
    assert (settings["limits.max_tokens"].value, settings["limits.max_tokens"].origin) == (None, "default")


def test_allowed_and_denied_are_other_names():
    options = parse(["run", "--allowed", "a", "--allow", "b", "--denied", "c", "x"])
    assert (options.allow, options.deny) == (["a", "b"], ["c"])


def test_help_begins_with_common_options_and_groups_the_commands(capsys):
    with pytest.raises(SystemExit):
        parse(["--help"])
    shown = capsys.readouterr().out
    first = [line.split("  ")[0] for line in shown.splitlines()[4:7]]
    assert first == ["pal", 'pal "QUESTION"', "pal init"]
    assert "'pal run WORD' runs a one-word task" in " ".join(shown.split())
    assert re.findall(r"^(\S.*):$", shown, re.M) == [*GROUPS, "options"]
    for title, commands in GROUPS.items():
        listed = shown.partition(f"\n{title}:\n")[2].partition("\n\n")[0]
        assert re.findall(r"^  (\S+)", listed, re.M) == [*commands]


@pytest.mark.parametrize(("command", "action"), [*DEFAULT_ACTIONS.items()])
def test_command_group_without_an_action_lists_its_actions(command, action, pal):
    assert vars(parse([command])) == vars(parse([command, action]))
    with pytest.raises(SystemExit) as stop:
        parse([command, "--help"])  # of the group
    assert stop.value.code == 0


def test_options_may_follow_a_group_without_an_action(pal):
    assert parse(["sessions", "--json"]).json is True
    done = pal("config", "--json")
    assert (done.returncode, done.stdout) == (0, pal("config", "show", "--json").stdout)
    assert pal("sessions").returncode == pal("model").returncode == pal("audit").returncode == 0


def test_mcp_lists_for_a_person_and_serves_a_program(pal):
    assert parse(["mcp"]).action is None  # standard input is no terminal here
    terminal = Terminal(pal, "mcp")
    try:
        assert terminal.end() == 0
        assert "no MCP servers; to add one" in terminal.shown
    finally:
        terminal.close()
