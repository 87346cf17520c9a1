"""What a model is told first: words and tokens of `pal`'s first request, beside comparable programs.

    python -m benchmarks.first_request [--language zh] [--show]
    python -m benchmarks.first_request --compare [--model M --base-url URL] [--repeats 5] [--minutes 120]

The request is that of ``pal run --explain``; nothing is sent. Tokens are estimated. The figures of the other
programs were read in November 2026 in their public sources and documentation. They count the fixed text
without tool schemas, project notes and skills.

``--compare`` does the tasks of `benchmarks.small_tasks` with the prompt of ``pal run`` and with the former
prompt of one line, in pairs, on any model (default: the largest embedded one that is on this machine). It
prints what differs beyond chance. The same ``--out`` resumes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.compare_prompts import PromptTrials
from benchmarks.model_choice import add_model_options, chosen_model, reported
from benchmarks.small_tasks import TASKS
from pure_agent_loop.cli.output import CommandOutput
from pure_agent_loop.evaluation import Reports
from pure_agent_loop.llm.base import ChatModel
from pure_agent_loop.llm.tokens import estimate_tokens
from pure_agent_loop.local import list_models, open_local
from pure_agent_loop.support.numbers import positive

ONE_LINE = "You are a helpful assistant."  # until 2026-11
OTHERS = {
    "mini-swe-agent": "11 words, and about 460 in the first user message",
    "pi": "about 260 words",
    "goose": "about 500 words",
    "aider": "about 1,000 words, with two sample dialogues",
    "Codex CLI": "about 1,400 words for coding models, 4,000 for others",
    "opencode": "about 1,300 words, by family of models",
    "kimi-cli": "2,239 words",
    "gemini-cli": "about 3,000 words",
    "Claude Code": "3,000 to 12,000 tokens, by different analyses",
}
MATTERS = ("system", "facts", "tools")


def first_request(language: str) -> dict[str, Any]:
    """Return the first request of `pal run` in an empty folder."""
    command = [sys.executable, "-m", "pure_agent_loop", "run", "--explain", "--output-format", "json"]
    command += ["--model", "m", "--base-url", "http://127.0.0.1:9/v1", "Hello"]
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "PAL_HOME": home, "PAL_LANG": language}
        done = subprocess.run(
            command,
            cwd=home,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            stdin=subprocess.DEVNULL,
        )
    request: dict[str, Any] = json.loads(done.stdout)["request"]
    return request


def parts_of(request: dict[str, Any]) -> dict[str, str]:
    """Return the texts of a request, by matter."""
    system, facts, _ = (message["content"] for message in request["messages"])
    return dict(zip(MATTERS, (system, facts, json.dumps(request["tools"], ensure_ascii=False)), strict=True))


def compare(parser: argparse.ArgumentParser, words: Sequence[str], output: CommandOutput) -> int:
    """Do the tasks with both prompts, and print the comparison.

    Raises:
        PureAgentLoopError: The model cannot be used.
    """
    options = parser.parse_args(words)
    if options.model is None and options.base_url is None:
        present = [model for model in list_models() if model.path is not None]
        largest = max(present, key=lambda model: model.path.stat().st_size if model.path else 0, default=None)
        client: ChatModel = open_local(str(largest.path) if largest else None, output.info)
    else:
        client = chosen_model(parser, words, options, output)
    prompts = {"one line": ONE_LINE, "today": parts_of(first_request(options.language))["system"]}
    tasks = TASKS[:: -(-len(TASKS) // options.limit)] if options.limit else TASKS
    with tempfile.TemporaryDirectory() as folder:
        trials = PromptTrials(client, options.tool_mode, prompts, options.out or Path(folder))
        seconds = None if options.minutes is None else options.minutes * 60
        reports = trials.run(tasks, options.repeats, seconds)
    words_of = {name: len(text.split()) for name, text in prompts.items()}
    print(f"model {getattr(client, 'model', '?')}, {len(reports['today'].outcomes)} pairs, words {words_of}")
    print(Reports(reports), reports["today"].compare(reports["one line"]), sep="\n\n")
    return 0


def main() -> int:
    """Print the table, or the comparison; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--language", choices=("en", "zh"), default="en")
    parser.add_argument("--show", action="store_true", help="print the texts")
    parser.add_argument("--compare", action="store_true", help="compare with the prompt of one line")
    add_model_options(parser)
    parser.add_argument(
        "--repeats", type=positive, default=1, metavar="N", help="pairs per task (default: 1)"
    )
    parser.add_argument(
        "--limit", type=positive, metavar="N", help="about N tasks, of all kinds (default: all)"
    )
    parser.add_argument("--minutes", type=float, metavar="N", help="time after which no pair is begun")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="folder of the outcomes")
    options = parser.parse_args()
    if options.compare:
        return reported(lambda output: compare(parser, sys.argv[1:], output))
    parts = parts_of(first_request(options.language))
    for name, text in parts.items():
        print(f"{name:<8} {len(text.split()):>6} words {estimate_tokens(text):>6} tokens")
    print("\nothers, fixed text:")
    for name, size in OTHERS.items():
        print(f"{name:<15} {size}")
    if options.show:
        print("", parts["system"], "", parts["facts"], sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
