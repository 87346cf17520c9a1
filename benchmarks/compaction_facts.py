"""Count the facts of a long session that survive its compaction.

    python -m benchmarks.compaction_facts [--model scripted|local] [--window TOKENS] [--times 10] [--middle]

A session of ten times the window is built: a goal and a constraint from the user, decisions of the
assistant, file names in calls, facts in the results of tools (in the first line, and deep inside), at the
beginning or in the middle, and a lot of other work. One more question is asked. Counted is what the last
request holds: `in the request` word for word, or `readable`: on disk, under an id in the request.

The scripted model writes summaries in three ways: `silent` fails, `empty words` contains nothing useful,
`first lines` copies the first words of each message, up to the size it was asked for. ``--model local`` is
the
embedded model with the window it really has. No summariser learns which words are counted.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

from pure_agent_loop import Agent, BaseLLMClient, EventType, LLMError, LLMResponse, LoopLimits, tool
from pure_agent_loop.llm.tokens import estimate_message
from pure_agent_loop.llm.values import Delta
from pure_agent_loop.prompts import ENGLISH
from pure_agent_loop.testing import ScriptedLLM

Message = dict[str, Any]
FACTS = {
    "goal": ["quarterly-ledger", "reconcile"],
    "constraint": ["never-touch-prod-7", "before-friday-1700"],
    "decision": ["sqlite-over-postgres", "retry-with-jitter-3"],
    "file": ["src/ledger/parser_v2.py", "conf/bank_rules.toml", "reports/q3_final.csv"],
    "fact, first line": ["balance=48213.77", "port=15432", "owner=m.alvarez"],
    "fact, deep": ["checksum=9f31ac", "rows=182,441"],
}
_WORDS = [
    "account",
    "entry",
    "total",
    "check",
    "value",
    "branch",
    "invoice",
    "record",
    "month",
    "field",
    "rule",
    "table",
    "query",
    "change",
    "note",
]


def session(tokens: int, *, middle: bool = False) -> list[Message]:
    """Return a history of about this many tokens, with the facts at its beginning or in its middle."""
    facts = list(_beginning())
    left = tokens - sum(map(estimate_message, facts))
    if middle:
        return [_user("Begin."), *_filler(left // 2, 100), *facts, *_filler(left // 2, 10_000)]
    return [*facts, *_filler(left, 100)]


def _filler(tokens: int, number: int) -> Iterator[Message]:
    while tokens > 0:
        for message in _round(number, f"grep {number}", _prose(number, 220)):
            tokens -= estimate_message(message)
            yield message
        number += 1


def _beginning() -> Iterator[Message]:
    yield _user("The goal: bring the quarterly-ledger into order and reconcile it with the bank.")
    yield from _round(1, "src/ledger/parser_v2.py", "balance=48213.77 in the header\n" + _prose(1, 150))
    yield _assistant("Decided: sqlite-over-postgres, because one file is enough here.")
    yield _user("A rule: never-touch-prod-7 under any circumstances, and be done before-friday-1700.")
    deep = f"{_prose(2, 120)}\nchecksum=9f31ac\n{_prose(3, 120)}"
    yield from _round(2, "conf/bank_rules.toml", f"port=15432 of the bank's gateway\n{deep}")
    yield _assistant("Decided: retry-with-jitter-3, the gateway drops every tenth request.")
    deep = f"{_prose(4, 120)}\nrows=182,441 were read\n{_prose(5, 120)}"
    yield from _round(3, "reports/q3_final.csv", f"owner=m.alvarez signs this\n{deep}")


def _user(text: str) -> Message:
    return {"role": "user", "content": text}


def _assistant(text: str) -> Message:
    return {"role": "assistant", "content": text}


def _round(number: int, path: str, text: str) -> Iterator[Message]:
    function = {"name": "read_file", "arguments": json.dumps({"path": path})}
    calls = [{"id": f"call_{number}", "type": "function", "function": function}]
    yield {"role": "assistant", "content": None, "tool_calls": calls}
    yield {"role": "tool", "tool_call_id": f"call_{number}", "content": text}


def _prose(seed: int, words: int) -> str:
    chosen = (_WORDS[(seed * 7 + each * each) % len(_WORDS)] for each in range(words))
    return "\n".join(" ".join(line) for line in _batches([f"{w}{i % 97}" for i, w in enumerate(chosen)], 12))


def _batches(items: list[str], size: int) -> Iterator[list[str]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


# -- models ---------------------------------------------------------------------------------------


def silent(_: str) -> str:
    """Fails."""
    raise LLMError("no summary today", kind="bad_request")


def empty_words(_: str) -> str:
    """Says nothing of use."""
    return "The assistant has worked on the task and made good progress."


def first_lines(request: str) -> str:
    """The first words of each message, up to the size that was asked for."""
    most = int(re.findall(r"at most (\d+) words", request)[0])
    text = request.partition("----------")[2]
    lines = [" ".join(line.split()[:14]) for line in text.splitlines() if re.match(r"[a-z_ ]+: ", line)]
    return _within(lines, most)


def _within(lines: list[str], words: int) -> str:
    kept: list[str] = []
    for line in lines:
        words -= len(line.split())
        if words < 0:
            break
        kept.append(line)
    return "\n".join(kept) or "nothing"


def scripted(summariser: Callable[[str], str]) -> ScriptedLLM:
    """A model that writes summaries in one of the three ways, and otherwise continues."""

    def play(messages: list[Message], *_: Any) -> str:
        is_summary = messages[0]["content"] == ENGLISH.summary_system
        return summariser(messages[1]["content"]) if is_summary else "It goes on."

    return ScriptedLLM(play, usage=None)


class Recording(BaseLLMClient):
    """A wrapper of a client that records the requests."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.context_window = inner.context_window
        self.asked: list[list[Message]] = []

    async def chat(
        self, messages: list[Message], tools: list[Message] | None = None, **kwargs: Any
    ) -> LLMResponse:
        """See `BaseLLMClient`."""
        self.asked.append(messages)
        response: LLMResponse = await self.inner.chat(messages, tools, **kwargs)
        return response

    async def chat_stream(
        self, messages: list[Message], tools: list[Message] | None = None, **kwargs: Any
    ) -> AsyncIterator[Delta]:
        """See `BaseLLMClient`."""
        self.asked.append(messages)
        async for delta in self.inner.chat_stream(messages, tools, **kwargs):
            yield delta


# -- counting -------------------------------------------------------------------------------------


@tool(read_only=True)
def read_file(path: str) -> str:
    """Read a file."""
    return f"There is no {path}."


def measure(name: str, llm: Any, window: int, times: int, *, middle: bool = False) -> None:
    """Run one session with one more question; return a line for each kind of fact."""
    history = session(window * times, middle=middle)
    with tempfile.TemporaryDirectory() as folder:
        agent = Agent(
            llm=llm,
            tools=[read_file],
            context_window=window,
            results_folder=folder,
            limits=LoopLimits(max_tokens=None),
            first_byte_timeout=None,
            idle_timeout=None,
        )
        began = time.perf_counter()
        result = agent.run("What is the state of things? Say it in one sentence.", history)
        seconds = time.perf_counter() - began
        asked = llm.asked if isinstance(llm, Recording) else [request.messages for request in llm.requests]
        request = next(
            messages for messages in reversed(asked) if messages[0].get("content") != ENGLISH.summary_system
        )
        text = json.dumps(request, ensure_ascii=False)
        kept = "".join(
            path.read_text(encoding="utf-8") for path in Path(folder).iterdir() if path.stem in text
        )
    rungs = [event.data["rung"] for event in result.events if event.type is EventType.COMPACTION]
    sizes = sum(map(estimate_message, history)), sum(map(estimate_message, request))
    print(f"\n{name}: {sizes[0]:,} -> {sizes[1]:,} tokens (window {window:,}), rungs {', '.join(rungs)}")
    print(f"  ended {result.stop_reason}, {len(asked)} requests, {seconds:.1f} s")
    total = [0, 0, 0]
    for kind, facts in FACTS.items():
        here = sum(fact in text for fact in facts)
        readable = sum(fact not in text and fact in kept for fact in facts)
        total = [total[0] + here, total[1] + readable, total[2] + len(facts)]
        print(f"  {kind:18} {here}/{len(facts)} in the request, {readable} readable")
    print(f"  {'all':18} {total[0]}/{total[2]} in the request, {total[1]} readable")


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", choices=["scripted", "local"], default="scripted")
    parser.add_argument("--window", type=int, default=8_000)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--middle", action="store_true", help="the facts stand in the middle of the session")
    given = parser.parse_args()
    if given.model == "local":
        from pure_agent_loop.local.client import open_local

        print(f"data folder: {os.environ.get('PAL_HOME', 'the standard one')}")
        client = Recording(open_local(on_progress=print))
        measure("local", client, client.context_window or 4_096, given.times, middle=given.middle)
        return
    for summariser in (silent, empty_words, first_lines):
        name = summariser.__name__.replace("_", " ")
        measure(name, scripted(summariser), given.window, given.times, middle=given.middle)


if __name__ == "__main__":
    main()
