"""Commands in the documentation start: the parser takes each `pal` line, each benchmark has its options."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from pure_agent_loop.cli.parser import parse

ROOT = Path(__file__).parents[2]
OTHERS = [ROOT / name for name in ("README.md", "AGENTS.md", "CONTRIBUTING.md")]
PAGES = sorted(
    path
    for path in (*OTHERS, *(ROOT / "docs").rglob("*.md"))
    if "zh" not in path.parts and path.parent.name != "reference"
)
FENCE = re.compile(r"^ *```(\w*)[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
SHELL = ("sh", "bash", "shell", "console", "text", "")
START = re.compile(r"(?:\$ )?(?:\w+=\S* )*(pal |python -m benchmarks\.)")
END = re.compile(r"\s{2,}|\s#\s|\s[|<>&;]|;")  # a remark, or another command
VALUES = {"N": "1", "SEQ": "1", "STEP": "1", "PORT": "1", "F": "html", "allow|deny": "allow"}
# In a sentence, `pal tasks show` names the command; its arguments may be missing.
INCOMPLETE = re.compile(r"arguments? (is|are) required|required: |expected one argument|is required")
NO_COMMANDS = ('pal "question"', 'pal "task" -r', "pal sesions")  # two patterns, and a mistake on purpose
LOOSE = re.compile(r"\.\.\.|…|\[|\bCOMMAND\b|\bSHELL\b")  # a pattern of commands, not one


def commands():
    """The commands in shell blocks and in sentences, each with its first page and True for a sentence."""
    found = {}
    for page in PAGES:
        text = re.sub(r"\\\n\s*", "", page.read_text(encoding="utf-8"))
        blocks = [block for kind, block in FENCE.findall(text) if kind in SHELL]
        lines = [(line, False) for block in blocks for line in block.splitlines()]
        lines += [(line, True) for line in INLINE.findall(FENCE.sub("", text))]
        for line, is_inline in lines:
            if match := START.match(line.strip()):
                command = END.split(line.strip()[match.start(1) :])[0]
                if not LOOSE.search(command) and command not in NO_COMMANDS:
                    found.setdefault(command, (page.relative_to(ROOT).as_posix(), is_inline))
    return found


COMMANDS = commands()
OF_PAL = sorted(command for command in COMMANDS if command.startswith("pal "))
BENCHMARKS = sorted(command for command in COMMANDS if command.startswith("python "))


def test_commands_are_found():
    assert len(OF_PAL) > 150
    assert len(BENCHMARKS) > 25


@pytest.mark.parametrize("command", OF_PAL)
def test_parser_takes_a_documented_command(command):
    page, is_inline = COMMANDS[command]
    said, code = io.StringIO(), 0
    words = [VALUES.get(word, word) for word in shlex.split(command)[1:]]
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        try:
            parse(words)
        except SystemExit as stop:
            code = stop.code
    assert code == 0 or (is_inline and INCOMPLETE.search(said.getvalue())), f"{page}: {said.getvalue()}"


@pytest.mark.parametrize("command", BENCHMARKS)
def test_documented_benchmark_starts(command):
    module, *words = shlex.split(command)[2:]
    place = ROOT / module.replace(".", "/")
    file = place / "__main__.py" if place.is_dir() else place.with_suffix(".py")
    source = file.read_text(encoding="utf-8")
    has_options = "ArgumentParser" in source
    argv = ["-m", module, "--help"] if has_options else ["-c", f"import {module}"]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]), "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, *argv],
        env=environ,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"{COMMANDS[command]}: {done.stderr}"
    options = [word for word in words if word.startswith("--")]
    assert [option for option in options if option not in done.stdout] == []
