"""Help and usage errors in Chinese: every text of every command is in the table."""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import unicodedata
from collections.abc import Iterator

import pytest

from pure_agent_loop.cli.parser import COMMANDS, make_parser, parse
from pure_agent_loop.cli.translated_help import help_text
from pure_agent_loop.support.language import table

ENGLISH = re.compile(r"[A-Za-z]{2,}( [a-z]{2,}){2}")
NAMES = {"Agent Client Protocol", "Berkeley Function Calling Leaderboard"}


@pytest.fixture(autouse=True)
def chinese(monkeypatch):
    monkeypatch.setenv("PAL_LANG", "zh")
    monkeypatch.setenv("COLUMNS", "80")


def texts(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Every text that the help of a parser and its subparsers shows, by paragraph."""
    shown = [parser.description, parser.epilog]
    shown += [text for group in parser._action_groups for text in (group.title, group.description)]
    for action in parser._actions:
        shown.append(action.help)
        if isinstance(action, argparse._SubParsersAction):
            shown += [choice.help for choice in action._choices_actions]
            for subparser in action.choices.values():
                yield from texts(subparser)
    for text in shown:
        if text and text != argparse.SUPPRESS:
            yield from text.strip("\n").split("\n\n")


def shown_by(*words: str) -> str:
    """What a command line writes to standard output and to standard error before it ends."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), pytest.raises(SystemExit):
        parse(words)
    return out.getvalue()


def columns(line: str) -> int:
    return sum(2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in line)


def test_every_help_text_is_translated():
    assert [text for text in dict.fromkeys(texts(make_parser())) if help_text(text) == text] == []


def test_every_translation_is_used():
    shown = "\n".join(texts(make_parser()))
    lowered = shown.lower()  # a summary is also shown as a sentence
    assert [text for text in table("help", "zh") if text.lower() not in lowered] == []


@pytest.mark.parametrize(
    "words", [["--help"], ["run", "--help-all"], *([name, "--help"] for name in COMMANDS)]
)
def test_help_is_chinese_and_fits_the_terminal(words):
    shown = shown_by(*words)
    text = shown.partition("示例：")[0]
    for name in NAMES:
        text = text.replace(name, "")
    assert shown.startswith("用法：")
    text = re.sub(r"^用法：.*?\n\n|pal [a-z]+ [a-z]+", "", text, flags=re.DOTALL)
    assert [match[0] for match in ENGLISH.finditer(text)] == []
    described = [line for line in shown.splitlines() if line.startswith("                        ")]
    assert [line for line in described if columns(line) > 80] == []


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["run", "--modle", "x"], "无法识别的参数：--modle。是否指 --mode 或 --model？"),
        (["run", "--model"], "参数 -m/--model：需要一个值。"),
        (["run", "--max-steps", "0"], "参数 --max-turns/--max-steps：'0' 不是大于等于 1 的整数。"),
        (["mcp", "test"], "缺少参数：NAME。"),
        (["sesions"], "未知命令 'sesions'。是否指 sessions？若要作为任务运行：pal run sesions。"),
        (
            ["run", "--api-key", "x"],
            "不接受 --api-key：本机所有用户都能看到命令行；请设置环境变量 PAL_API_KEY。",
        ),
    ],
)
def test_a_usage_error_is_chinese(words, error):
    assert shown_by(*words).startswith(f"pal: 错误：{error}\n用法：pal ")


def test_without_chinese_the_help_stays_as_it_was(monkeypatch):
    monkeypatch.setenv("PAL_LANG", "en")
    assert shown_by("--help").startswith("usage: pal [-h] [--version] COMMAND ...\n")
    assert shown_by("run", "--model").startswith("pal: error: argument -m/--model: expected one argument.\n")
