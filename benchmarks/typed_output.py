"""Measure how often a typed answer is valid: ours, a plain request, and pydantic-ai, on the same server.

    python -m benchmarks.typed_output [--model NAME_OR_PATH] [--peer PYTHON] [--show]

50 requests over eight types go to one llama.cpp server (one thread), each in all ways before the next one:

- ``ours``: `Agent(output_type=T)` with its two corrections.
- ``plain``: one request that asks for JSON of the schema in words; the response is validated.
- ``peer tool``, ``peer native``: pydantic-ai with the same two corrections, its output as a tool (what it
  does by itself) and as a JSON schema. pydantic-ai runs in a separate environment, whose Python is given.

All requests use temperature 0 and at most 150 tokens. Tokens are counted by the server. "Right"
is a valid answer that also says what the text says; a small model may be wrong in a valid form.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import re
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import asdict, dataclass, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, TypeAdapter
from typing_extensions import TypedDict

MAX_TOKENS = 150
RETRIES = 2
WAYS = ("ours", "plain", "peer tool", "peer native")


@dataclass
class Person:  # noqa: D101 - it would become part of the schema
    name: str
    age: int


class Order(TypedDict):  # noqa: D101 - it would become part of the schema
    product: str
    quantity: int


class Trip(BaseModel):  # noqa: D101 - it would become part of the schema
    start: str
    goal: str
    hours: float


Mood = Literal["positive", "negative", "neutral"]


class Animal(Enum):  # noqa: D101 - it would become part of the schema
    CAT = "cat"
    DOG = "dog"
    BIRD = "bird"


@dataclass
class Money:  # noqa: D101 - it would become part of the schema
    amount: float
    currency: str


@dataclass
class Length:  # noqa: D101 - it would become part of the schema
    value: float
    unit: str


TYPES: dict[str, Any] = {
    "dataclass": Person,
    "TypedDict": Order,
    "pydantic model": Trip,
    "Literal": Mood,
    "Enum": Animal,
    "list": list[str],
    "union": Money | Length,
    "plain type": int,
}
# The request, and the value as plain JSON.
REQUESTS: dict[str, list[tuple[str, Any]]] = {
    "dataclass": [
        ("Who is this? Anna is 34 years old.", {"name": "Anna", "age": 34}),
        ("Who is this? My brother Tom turned 8 last week.", {"name": "Tom", "age": 8}),
        ("Who is this? At 61, Maria still runs marathons.", {"name": "Maria", "age": 61}),
        ("Who is this? Kenji (age 19) won the race.", {"name": "Kenji", "age": 19}),
        ("Who is this? Old Peter, 92, lives alone.", {"name": "Peter", "age": 92}),
        ("Who is this? A girl called Lucy, five years of age.", {"name": "Lucy", "age": 5}),
        ("Who is this? Our teacher Ahmed is forty.", {"name": "Ahmed", "age": 40}),
    ],
    "TypedDict": [
        ("What is ordered? I would like 3 chairs.", {"product": "chairs", "quantity": 3}),
        ("What is ordered? Please send 12 pencils.", {"product": "pencils", "quantity": 12}),
        ("What is ordered? One lamp, please.", {"product": "lamp", "quantity": 1}),
        ("What is ordered? We need 250 bricks.", {"product": "bricks", "quantity": 250}),
        ("What is ordered? Two tables for the office.", {"product": "tables", "quantity": 2}),
        ("What is ordered? 40 apples.", {"product": "apples", "quantity": 40}),
    ],
    "pydantic model": [
        ("From Paris to Lyon it takes 2 hours.", {"start": "Paris", "goal": "Lyon", "hours": 2}),
        ("We drove 5.5 hours from Rome to Milan.", {"start": "Rome", "goal": "Milan", "hours": 5.5}),
        (
            "The train from Oslo reaches Bergen after 7 hours.",
            {"start": "Oslo", "goal": "Bergen", "hours": 7},
        ),
        ("Berlin to Hamburg: 3 hours.", {"start": "Berlin", "goal": "Hamburg", "hours": 3}),
        ("A flight from Tokyo to Seoul is 2.5 hours.", {"start": "Tokyo", "goal": "Seoul", "hours": 2.5}),
        ("I left Madrid and was in Porto 6 hours later.", {"start": "Madrid", "goal": "Porto", "hours": 6}),
    ],
    "Literal": [
        ("How does it sound? I love this phone!", "positive"),
        ("How does it sound? The worst meal of my life.", "negative"),
        ("How does it sound? The box is 20 cm wide.", "neutral"),
        ("How does it sound? What a wonderful day.", "positive"),
        ("How does it sound? It broke after one hour and nobody helped me.", "negative"),
        ("How does it sound? The shop opens at nine.", "neutral"),
    ],
    "Enum": [
        ("Which animal? It barks at the postman.", "dog"),
        ("Which animal? It purrs on the sofa.", "cat"),
        ("Which animal? It sings in the tree and lays eggs.", "bird"),
        ("Which animal? My parrot can talk.", "bird"),
        ("Which animal? The kitten drank the milk.", "cat"),
        ("Which animal? The puppy chased the ball.", "dog"),
    ],
    "list": [
        ("Which colours? The flag is red, white and blue.", ["red", "white", "blue"]),
        ("Which cities? We saw Rome and Naples.", ["Rome", "Naples"]),
        ("Which fruits? Buy apples, pears and plums.", ["apples", "pears", "plums"]),
        ("Which names? Ben, Eva and Lea came.", ["Ben", "Eva", "Lea"]),
        ("Which days? We are open on Monday and Friday.", ["Monday", "Friday"]),
        ("Which metals? The ring is of gold and silver.", ["gold", "silver"]),
    ],
    "union": [
        ("How much? The book costs 12 euros.", {"amount": 12, "currency": "euros"}),
        ("How much? The rope is 3 metres long.", {"value": 3, "unit": "metres"}),
        ("How much? I paid 99 dollars.", {"amount": 99, "currency": "dollars"}),
        ("How much? The fence has a length of 40 feet.", {"value": 40, "unit": "feet"}),
        ("How much? It was sold for 5 pounds sterling.", {"amount": 5, "currency": "pounds sterling"}),
        ("How much? The river is 800 kilometres long.", {"value": 800, "unit": "kilometres"}),
    ],
    "plain type": [
        ("How many eggs? There are 6 eggs in the box.", 6),
        ("How many days has a week?", 7),
        ("How many pages? The book has 310 pages.", 310),
        ("What is 2 plus 3?", 5),
        ("How many legs has a spider?", 8),
        ("How many rooms? The hotel has 48 rooms.", 48),
        ("In which year? The bridge was built in 1932.", 1932),
    ],
}


class Outcome(NamedTuple):
    """The outcome of one request.

    Args:
        asked: Number of requests.
        value: The output in plain JSON form; otherwise None, or the reason.
        valid: Whether there is a valid output.
        tokens: Tokens, as counted by the server.
        seconds: Seconds until the output.
    """

    asked: int
    value: Any
    valid: bool
    tokens: int
    seconds: float


Way = Callable[[str, str], Awaitable[Outcome]]


def plain(value: Any) -> Any:
    """Return a value as JSON."""
    if isinstance(value, BaseModel):
        return value.model_dump()
    if isinstance(value, Enum):
        return value.value
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def is_right(found: Any, wanted: Any) -> bool:
    """Return whether an output has the content of the text, ignoring upper case, full stops and plurals."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(is_right(found.get(key), wanted[key]) for key in wanted)
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(is_right, found, wanted))
    if isinstance(wanted, str):
        return isinstance(found, str) and _word(found) == _word(wanted)
    return bool(found == wanted)


def _word(text: str) -> str:
    return text.strip(" .!").casefold().removesuffix("s")


# -- the ways -------------------------------------------------------------------------------------------


def ours(client: Any) -> Way:
    """`Agent(output_type=)`."""
    from pure_agent_loop import Agent

    agents = {
        name: Agent(
            llm=client, output_type=kind, output_retries=RETRIES, temperature=0, max_tokens=MAX_TOKENS
        )
        for name, kind in TYPES.items()
    }

    async def ask(name: str, text: str) -> Outcome:
        begun = time.perf_counter()
        result = await agents[name].arun(text)
        valid = result.stop_reason == "completed"
        seconds = time.perf_counter() - begun
        return Outcome(result.steps, plain(result.output), valid, result.usage.total_tokens, seconds)

    return ask


def in_words(client: Any) -> Way:
    """One request, with the schema in words."""

    async def ask(name: str, text: str) -> Outcome:
        adapter = TypeAdapter(TYPES[name])
        told = f"Answer with JSON of this JSON Schema only:\n{json.dumps(adapter.json_schema())}"
        messages = [{"role": "system", "content": told}, {"role": "user", "content": text}]
        begun = time.perf_counter()
        answer = await client.chat(messages, temperature=0, max_tokens=MAX_TOKENS)
        seconds, tokens = time.perf_counter() - begun, answer.usage.total_tokens
        written = re.sub(r"^```\w*|```$", "", (answer.content or "").strip()).strip()
        try:
            value = adapter.validate_json(written)
        except ValueError:
            return Outcome(1, None, False, tokens, seconds)
        return Outcome(1, plain(value), True, tokens, seconds)

    return ask


class Peer:
    """pydantic-ai in an environment of its own: a request a line goes in, an outcome a line comes out.

    Args:
        python: The Python of that environment.
        model: The model's name.
        url: The server.
        key: Its key.
    """

    def __init__(self, python: str, model: str, url: str, key: str) -> None:
        command = [python, __file__, "--as-peer", model, url, key]
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.version = self._line()

    def way(self, how: str) -> Way:
        """One of pydantic-ai's output modes."""

        async def ask(name: str, text: str) -> Outcome:
            assert self._child.stdin is not None
            self._child.stdin.write(json.dumps([how, name, text]) + "\n")
            self._child.stdin.flush()
            return Outcome(*json.loads(await asyncio.to_thread(self._line)))

        return ask

    def close(self) -> None:
        """End it."""
        assert self._child.stdin is not None
        self._child.stdin.close()
        self._child.wait()

    def _line(self) -> str:
        assert self._child.stdout is not None
        return self._child.stdout.readline().strip()


def be_peer(model: str, url: str, key: str) -> None:
    """The program that runs in the other environment."""
    import pydantic_ai
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    # The engine closes each connection after an answer; the next request must not be sent on it.
    client = AsyncOpenAI(base_url=url, api_key=key, default_headers={"Connection": "close"})
    chat = OpenAIChatModel(model, provider=OpenAIProvider(openai_client=client))
    kinds = {"tool": lambda kind: kind, "native": pydantic_ai.NativeOutput}
    agents = {
        (how, name): pydantic_ai.Agent(chat, output_type=wrap(kind), retries={"output": RETRIES})
        for how, wrap in kinds.items()
        for name, kind in TYPES.items()
    }

    async def ask(how: str, name: str, text: str) -> Outcome:
        usage, value, valid = pydantic_ai.RunUsage(), None, True
        begun = time.perf_counter()
        try:
            settings: Any = {"temperature": 0, "max_tokens": MAX_TOKENS}
            ran = await agents[how, name].run(text, model_settings=settings, usage=usage)
            value = plain(ran.output)
        except pydantic_ai.exceptions.AgentRunError as error:
            value, valid = f"{type(error).__name__}: {error}"[:120], False
        return Outcome(usage.requests, value, valid, usage.total_tokens, time.perf_counter() - begun)

    async def serve() -> None:
        print(pydantic_ai.__version__, flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            print(json.dumps(await ask(*json.loads(line))), flush=True)

    asyncio.run(serve())


# -- the run --------------------------------------------------------------------------------------------


async def compare(ways: dict[str, Way], show: bool) -> dict[tuple[str, str], list[tuple[Outcome, bool]]]:
    """Ask all requests in all ways. Return the outcomes by way and type, and whether they are right."""
    found: dict[tuple[str, str], list[tuple[Outcome, bool]]] = {}
    for kind, requests in REQUESTS.items():
        for text, wanted in requests:
            for way, ask in ways.items():
                outcome = await ask(kind, text)
                right = outcome.valid and is_right(outcome.value, wanted)
                found.setdefault((way, kind), []).append((outcome, right))
                if show:
                    how = "right" if right else "valid" if outcome.valid else "none"
                    print(f"{how:6} {outcome.asked} {way:12} {text!r} {outcome.value!r}", flush=True)
    return found


def table(found: dict[tuple[str, str], list[tuple[Outcome, bool]]], model: str, version: str) -> str:
    """Return the figures as Markdown."""
    lines = [
        "| model | way | valid at first | after corrections | not at all | right | tokens | seconds |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for way in dict.fromkeys(way for way, _ in found):
        all_of = [each for (one, _), some in found.items() if one == way for each in some]
        first = sum(o.valid and o.asked == 1 for o, _ in all_of)
        later = sum(o.valid and o.asked > 1 for o, _ in all_of)
        right = sum(right for _, right in all_of)
        tokens, seconds = sum(o.tokens for o, _ in all_of), sum(o.seconds for o, _ in all_of)
        name = way.replace("peer", f"pydantic-ai {version},")
        cells = [
            model,
            name,
            first,
            later,
            len(all_of) - first - later,
            right,
            f"{tokens:,}",
            f"{seconds:.0f}",
        ]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    kinds = list(REQUESTS)
    lines += ["", f"Right, by type, of {[len(REQUESTS[kind]) for kind in kinds]}:", ""]
    lines += ["| way | " + " | ".join(kinds) + " |", "|---" * (len(kinds) + 1) + "|"]
    for way in dict.fromkeys(way for way, _ in found):
        counts = [f"{sum(right for _, right in found[way, kind])}" for kind in kinds]
        lines.append(f"| {way} | " + " | ".join(counts) + " |")
    return "\n".join(lines)


@contextlib.contextmanager
def server(model: str | None) -> Iterator[Any]:
    """Yield the server of the embedded model or of a file, and a client for it."""
    from pure_agent_loop.local.client import EmbeddedClient
    from pure_agent_loop.local.engine import models
    from pure_agent_loop.local.engine.joining import StartSettings, join_server

    wanted = model or models.default_model()
    path = models.resolve(wanted) if models.is_path(wanted) else models.pull_model(wanted)
    settings = StartSettings()
    lease = join_server(path, lambda _: None, settings)
    try:
        yield EmbeddedClient(lease, path.stem, settings.context), lease.state
    finally:
        lease.release()


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", help="a name of the table, or the path of a GGUF file")
    parser.add_argument("--peer", type=Path, help="the Python of an environment with pydantic-ai")
    parser.add_argument("--show", action="store_true", help="print each outcome")
    given = parser.parse_args()
    with server(given.model) as (client, state):
        ways = {"ours": ours(client), "plain": in_words(client)}
        peer = Peer(str(given.peer), client.model, f"{state.url}/v1", state.key) if given.peer else None
        if peer is not None:
            ways |= {f"peer {how}": peer.way(how) for how in ("tool", "native")}
        try:
            found = asyncio.run(compare(ways, given.show))
        finally:
            if peer is not None:
                peer.close()
        print(table(found, client.model, "" if peer is None else peer.version))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--as-peer"]:
        be_peer(*sys.argv[2:])
    else:
        main()
