"""Measure how much of a long run's requests a prompt cache serves, by protocol, with and without our marks.

    python -m benchmarks.prompt_cache [--steps 50] [--window TOKENS]

A run of 50 steps reads pages, over a real connection to a strict server of each protocol. Results are pruned
and the history is compacted when they no longer fit into the window; a tool is listed in some steps
only. The server computes what its cache would serve, by the rules of its protocol:

marks      Messages and Qwen: what ends at a mark is written; a read begins at a mark and looks up to 20
           blocks back for something written. Without marks nothing is cached.
automatic  chat, Responses and Gemini: the longest prefix that an earlier request had, in steps of 128 tokens.

Tools come before the system prompt, and that before the messages. A prefix of less than 1,024 tokens is not
cached; a token is four bytes. Entries do not expire. ``paid`` are the input tokens at the price of plain
ones: 0.1 for what is read, 1.25 for what is written at marks.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from llm_client_conformance import ScriptedServer, answer, call
from llm_client_conformance.protocols import GeminiServer, MessagesServer, ResponsesServer
from pure_agent_loop import (
    Agent,
    AnthropicClient,
    EventType,
    GeminiClient,
    LoopLimits,
    OpenAIClient,
    ResponsesClient,
    TokenUsage,
    tool,
)
from pure_agent_loop.llm.profiles import Profile
from pure_agent_loop.prompts import ENGLISH

BYTES_A_TOKEN, LEAST, STEP, LOOK_BACK = 4, 1_024, 128, 20
READ, WRITE = 0.1, 1.25
FREE = LoopLimits(max_steps=None, max_tokens=None, timeout=None, doom_loop_threshold=None)
Blocks = list[tuple[bytes, bool]]  # a block's bytes, and whether a mark follows


def blocks_of(body: dict[str, Any]) -> Blocks:
    """Return the prompt of a request as blocks, in the order of the cache."""
    system = body.get("system") or body.get("instructions") or body.get("systemInstruction") or []
    messages = body.get("messages") or body.get("input") or body.get("contents") or []
    entries = [*(body.get("tools") or []), *(system if isinstance(system, list) else [system])]
    blocks = [_block("", entry) for entry in entries]
    for message in messages:
        head = {name: value for name, value in message.items() if name not in ("content", "parts")}
        content = message.get("content", message.get("parts"))
        parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
        blocks += [_block(str(head), part) for part in parts]
    return blocks


def _block(head: str, entry: Any) -> tuple[bytes, bool]:
    is_marked = isinstance(entry, dict) and "cache_control" in entry
    plain = {k: v for k, v in entry.items() if k != "cache_control"} if is_marked else entry
    return f"{head}{json.dumps(plain, sort_keys=True)}".encode(), is_marked


@dataclass
class Cache:
    """Prompt cache of a server.

    Args:
        marked: Whether only marked prefixes are cached.
    """

    marked: bool
    seen: dict[bytes, int] = field(default_factory=dict)
    sums: Counter[str] = field(default_factory=Counter)

    def serve(self, body: dict[str, Any]) -> TokenUsage:
        """Count a request, and return its usage."""
        ends = list(self._ends(blocks_of(body)))
        total = ends[-1][1]
        places = [at for at, (_, _, is_marked) in enumerate(ends) if is_marked]
        looked = {n for at in places for n in range(max(0, at - LOOK_BACK), at + 1)}
        usable = looked if self.marked else range(len(ends))
        read = max((ends[n][1] for n in usable if ends[n][0] in self.seen), default=0)
        read = self._rounded(read)
        kept = [ends[at] for at in places] if self.marked else ends
        self.seen.update({digest: size for digest, size, _ in kept})
        written = max((size for _, size, _ in kept), default=0)
        written = max(0, written - read) if written >= LEAST * BYTES_A_TOKEN else 0
        self.sums.update(requests=1, total=total, read=read, written=written if self.marked else 0)
        tokens = [count // BYTES_A_TOKEN for count in (total, read, written)]
        usage = TokenUsage(tokens[0], 20, tokens[0] + 20, cached_tokens=tokens[1])
        return usage if not self.marked else TokenUsage(*_plain(usage), cache_write_tokens=tokens[2])

    def _ends(self, blocks: Blocks) -> Iterator[tuple[bytes, int, bool]]:
        """Yield the digest and the size of each prefix, and whether a mark follows it."""
        digest, size = hashlib.sha256(), 0
        for text, is_marked in blocks:
            digest.update(text + b"\0")
            size += len(text)
            yield digest.digest(), size, is_marked

    def _rounded(self, count: int) -> int:
        if count < LEAST * BYTES_A_TOKEN:
            return 0
        return count if self.marked else count - count % (STEP * BYTES_A_TOKEN)

    @property
    def figures(self) -> tuple[float, float, float, float]:
        """Thousands of tokens sent, shares of them read and written, thousands paid at the plain price."""
        sent = self.sums["total"] / BYTES_A_TOKEN / 1_000
        read, written = (self.sums[name] / self.sums["total"] for name in ("read", "written"))
        return sent, read, written, sent * (1 - read * (1 - READ) + written * (WRITE - 1))


def _plain(usage: TokenUsage) -> tuple[Any, ...]:
    return (
        usage.prompt_tokens, usage.completion_tokens, usage.total_tokens, None, usage.cached_tokens, False,
    )  # fmt: skip


@tool
def read(page: int) -> str:
    """Read a page of the report.

    Args:
        page: Its number.
    """
    return f"Page {page}. " + " ".join(
        f"Line {line}: all {page * line} accounts agree." for line in range(60)
    )


class Sometimes:
    """Toolset with a tool that is listed in some steps only."""

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    def list(self, context: Any) -> list[Any]:
        """List the tool in steps 15 to 19 and 35 to 39."""
        return [publish] if context.step % 20 >= 15 else []

    async def call(self, name: str, arguments: Any) -> str:
        """Call no tool: it has a function."""
        raise NotImplementedError(name)


@tool
def publish(title: str) -> str:
    """Publish the report."""
    return title


def run(
    server_of: Callable[..., Any], client_of: Callable[[str], Any], cache: Cache, options: Any
) -> Counter[str]:
    """Run the agent against a server, and return how often it compacted, by rung."""
    steps = 0

    def respond(request: Any) -> Any:
        nonlocal steps
        usage = cache.serve(request.body)
        if ENGLISH.summary_system in json.dumps(request.body, ensure_ascii=False):
            return answer("Goal: read the report. Nothing is missing so far.", usage=usage)
        steps += 1
        if steps > options.steps:
            return answer("All accounts agree.", usage=usage)
        return answer(call("read", page=steps), usage=usage)

    system = "You check reports. " + "Compare each account with the ledger, and note what differs. " * 80
    with server_of(handler=respond) as server:
        agent = Agent(
            llm=client_of(server.base_url), system_prompt=system, tools=[read, Sometimes()], limits=FREE,
            context_window=options.window,
        )  # fmt: skip
        result = agent.run("Read all pages.")
    result.raise_for_error()
    rungs = (event.data["rung"] for event in result.events if event.type is EventType.COMPACTION)
    return Counter(rungs)


def qwen(marked: bool) -> Callable[[str], Any]:
    """Return a maker of clients for a server with marks in the chat protocol."""
    profile = Profile("Qwen", cache_marks=marked)
    return lambda url: OpenAIClient("m", "k", url, profile=profile)


MAKERS: dict[str, tuple[Any, bool, Callable[[str], Any], Callable[[str], Any]]] = {
    "Messages": (
        MessagesServer, True, lambda url: AnthropicClient("claude-opus-4-6", "k", url),
        lambda url: AnthropicClient("claude-opus-4-6", "k", url, caches=False),
    ),
    "chat, marks (Qwen)": (ScriptedServer, True, qwen(marked=True), qwen(marked=False)),
    "chat, automatic": (
        ScriptedServer, False, lambda url: OpenAIClient("m", "k", url),
        lambda url: OpenAIClient("m", "k", url),
    ),
    "Responses": (
        ResponsesServer, False, lambda url: ResponsesClient("gpt-5", "k", url),
        lambda url: ResponsesClient("gpt-5", "k", url),
    ),
    "Gemini": (
        GeminiServer, False, lambda url: GeminiClient("gemini-2.5-pro", "k", url),
        lambda url: GeminiClient("gemini-2.5-pro", "k", url),
    ),
}  # fmt: skip


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--window", type=int, default=24_000, help="context window in tokens")
    options = parser.parse_args()
    print("| protocol | sent | read | written | paid | read, no marks | paid, no marks | compactions |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, (server_of, marked, ours, bare) in MAKERS.items():
        caches = Cache(marked), Cache(marked)
        rungs = run(server_of, ours, caches[0], options)
        run(server_of, bare, caches[1], options)
        (sent, read_share, written, paid), (_, read_bare, _, paid_bare) = (cache.figures for cache in caches)
        told = ", ".join(f"{count} {rung}" for rung, count in rungs.items()) or "none"
        shares = f"{read_share:.0%} | {written:.0%} | {paid:,.0f}k | {read_bare:.0%} | {paid_bare:,.0f}k"
        print(f"| {name} | {sent:,.0f}k | {shares} | {told} |", flush=True)


if __name__ == "__main__":
    main()
