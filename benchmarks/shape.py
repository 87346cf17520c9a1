"""Report the shape of the source: sizes by room, counts of names, and the files on three walks.

    python -m benchmarks.shape [--source src/pure_agent_loop] [--walks]

Statements are counted without imports and docstrings, here and in `tests/budgets.toml`. Formatting cannot
hide them, unlike lines. A function is its own lines, nested functions included, without its docstring.
A walk runs the program and counts the files of this package whose functions are called:

- a tool call: from the model's response to the next request, in memory
- a request: from `Agent.run` to the end of a response over HTTP, without tools
- a question: `pal QUESTION` from its first function to its exit code, over HTTP
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

KIT = Path(__file__).parents[1] / "conformance" / "src"
TICS = ("stands", "goes on", "beside", "of its own", "nobody", "is told", "at work", "anew", "of ours",
        "as far as", "so many")  # fmt: skip
LOCALS = ("each", "found", "about", "given", "said", "told")
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
# The rooms by group, as in docs/architecture.md; every other room is a battery. `(root)` is what users call.
CORE = ("(root)", "kernel", "runs", "llm", "schema", "output", "toolsets", "prompts", "support", "sessions")
APPLICATION = ("cli", "acp")
TRACED = """
import sys, threading
from pathlib import Path
import pure_agent_loop
ROOT = str(Path(pure_agent_loop.__file__).parent)
FILES = set()
def watch(frame, event, _):
    if event == "call" and frame.f_code.co_filename.startswith(ROOT) and frame.f_code.co_name != "<module>":
        FILES.add(frame.f_code.co_filename[len(ROOT) + 1:])
def start():
    threading.setprofile(watch); sys.setprofile(watch)
def end():
    sys.setprofile(None); threading.setprofile(None)
"""
TOOL_CALL = """
from pure_agent_loop import Agent, BaseLLMClient, LLMResponse, TokenUsage, ToolCall, tool
@tool
def add(a: int, b: int) -> int:
    "Add."
    return a + b
class Model(BaseLLMClient):
    turns = 0
    async def chat(self, messages, tools=None, **options):
        end()
        self.turns += 1
        calls = [ToolCall(f"c{self.turns}", "add", {"a": 1, "b": self.turns})] if self.turns % 3 else []
        if self.turns == 5:
            start()
        return LLMResponse(None if calls else "done", calls, TokenUsage(10, 5, 15))
agent = Agent(llm=Model(), tools=[add])
agent.run("warm up"); agent.run("count")
"""
REQUEST = """
import asyncio
from pure_agent_loop import Agent, OpenAIClient
from pure_agent_loop.testing import ScriptedServer
with ScriptedServer(["hello"] * 2) as server:
    agent = Agent(llm=OpenAIClient("m", "k", server.base_url))
    async def main():
        await agent.arun("warm up")
        start(); await agent.arun("count"); end()
    asyncio.run(main())
"""
QUESTION = """
import os
from pure_agent_loop.testing import ScriptedServer
with ScriptedServer(["hello"]) as server:
    os.environ.update(PAL_MODEL="m", PAL_BASE_URL=server.base_url, PAL_API_KEY="k")
    from pure_agent_loop.cli import main
    start(); code = main(["How are you?"]); end(); assert code == 0
"""
WALKS = {"a tool call": TOOL_CALL, "a request": REQUEST, "a question to `pal`": QUESTION}


@dataclass
class Room:
    """The sizes of one room."""

    modules: int = 0
    lines: int = 0
    statements: int = 0
    functions: list[int] = field(default_factory=list)
    tics: int = 0
    vague_locals: int = 0

    def row(self, name: str) -> str:
        """A line of the table."""
        sizes = sorted(self.functions) or [0]
        high = sizes[min(len(sizes) - 1, int(len(sizes) * 0.95))]
        return (
            f"| {name} | {self.modules} | {self.lines:,} | {self.statements:,} | {len(self.functions):,} "
            f"| {statistics.median(sizes):.0f} / {high} | {self.tics} | {self.vague_locals} |"
        )


def is_docstring(node: ast.AST) -> bool:
    """Whether a statement is a text alone."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def statements(tree: ast.AST) -> int:
    """Count the statements of a module, without imports and docstrings."""
    return sum(
        isinstance(node, ast.stmt)
        and not isinstance(node, (ast.Import, ast.ImportFrom))
        and not is_docstring(node)
        for node in ast.walk(tree)
    )


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function, without decorators and docstring."""
    first, *_ = function.body
    docstring = (first.end_lineno or 0) - first.lineno + 1 if is_docstring(first) else 0
    return (function.end_lineno or 0) - function.lineno + 1 - docstring


def assigned(tree: ast.AST) -> Iterator[str]:
    """The names that are assigned, parameters included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg


def rooms_of(source: Path) -> dict[str, Room]:
    """Measure all modules of a package."""
    rooms: dict[str, Room] = {}
    tic = re.compile(rf"\b(?:{'|'.join(TICS)})\b", re.IGNORECASE)
    for path in sorted(source.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        parts = path.relative_to(source).parts
        for room in (
            rooms.setdefault(parts[0] if len(parts) > 1 else "(root)", Room()),
            rooms.setdefault("all", Room()),
        ):
            room.modules += 1
            room.lines += text.count("\n")
            room.tics += len(tic.findall(text))
            room.vague_locals += sum(name in LOCALS for name in assigned(tree))
            room.statements += statements(tree)
            room.functions += [length(node) for node in ast.walk(tree) if isinstance(node, FUNCTION)]
    return rooms


def doubled_classes(source: Path) -> dict[str, int]:
    """Class names that more than one module defines."""
    trees = (ast.parse(path.read_bytes()) for path in source.rglob("*.py"))
    names = Counter(node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    return {name: count for name, count in names.most_common() if count > 1}


def files_of(walk: str, source: Path) -> list[str]:
    """Run a walk in a process of its own and list the files that it meets."""
    code = f"{TRACED}{walk}\nimport json\nprint('\\n' + json.dumps(sorted(FILES)))"
    with tempfile.TemporaryDirectory() as home:
        project = Path(home, "project")
        project.mkdir()
        env = {**os.environ, "PYTHONPATH": str(source.parent), "HOME": home}
        ended = subprocess.run(
            [sys.executable, "-c", code], env=env, cwd=project, stdout=subprocess.PIPE, text=True, check=True
        )
    return list(json.loads(ended.stdout.splitlines()[-1]))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--source", type=Path, default=Path("src/pure_agent_loop"))
    parser.add_argument("--walks", action="store_true", help="list the files of each walk")
    options = parser.parse_args()
    source: Path = options.source.resolve()
    rooms = rooms_of(source)
    whole = rooms.pop("all")
    print("| room | modules | lines | statements | functions | median / p95 | tics | vague locals |")
    print("|---|---|---|---|---|---|---|---|")
    for name, room in sorted(rooms.items(), key=lambda pair: -pair[1].lines):
        print(room.row(name))
    print(whole.row("**all**"))
    groups = Counter[str]()
    for name, room in rooms.items():
        group = "core" if name in CORE else "application" if name in APPLICATION else "batteries"
        groups[group] += room.statements
    print(f"\nStatements: {', '.join(f'{name} {count:,}' for name, count in groups.items())}")
    if KIT.is_dir():
        print(f"The conformance kit, counted apart: {rooms_of(KIT)['all'].statements:,}")
    doubled = doubled_classes(source)
    print(f"\nClass names defined more than once: {len(doubled)}: {', '.join(list(doubled)[:20])}")
    for name, walk in WALKS.items():
        files = files_of(walk, source)
        print(f"\n{name}: {len(files)} files{': ' + ' '.join(files) if options.walks else ''}")


if __name__ == "__main__":
    main()
