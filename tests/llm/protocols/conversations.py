"""Random conversations over strict servers of all protocols, and what must hold of each request.

A seed decides everything: questions, responses, tools, pictures, faults, and which model answers next. Run
many with ``python -m benchmarks.any_model``.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from llm_client_conformance import Reset, ScriptedServer, answer, call, deltas, raw_call, status
from llm_client_conformance.protocols import (
    DIALECTS,
    ChatServer,
    GeminiServer,
    MessagesServer,
    ResponsesServer,
)
from pure_agent_loop import (
    Agent,
    AnthropicClient,
    EventType,
    Fallback,
    GeminiClient,
    Image,
    OpenAIClient,
    ResponsesClient,
    RetryConfig,
)
from pure_agent_loop.llm.adapt import BRIDGE
from pure_agent_loop.llm.anthropic.request import CONTINUE
from pure_agent_loop.llm.control_tokens import JOINER
from pure_agent_loop.media import part_words
from pure_agent_loop.prompts import prompts_for
from pure_agent_loop.sessions import JsonlStore
from pure_agent_loop.support.language import model_text

PNG = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
MODELS: dict[str, tuple[str, ...]] = {
    "messages": (
        "claude-haiku-4-5", "claude-opus-4-6", "claude-opus-5", "claude-sonnet-5-5", "claude-fable-5-2",
    ),
    "responses": ("gpt-5", "gpt-6"),
    "gemini": ("gemini-2.5-flash", "gemini-3-flash", "gemini-3-pro"),
    "deepseek": ("deepseek-v4",),
    "kimi": ("kimi-k2.6",),
    "qwen": ("qwen3.8-max",),
    "glm": ("glm-5.2", "glm-5.3"),
    "mistral": ("magistral-medium",),
    "openrouter": ("anthropic/claude-opus-5", "google/gemini-3-pro"),
    "gemini-chat": ("gemini-3-flash",),
}  # fmt: skip
KINDS = (*MODELS, *["messages", "responses", "gemini", "deepseek"])  # these more often
MODELS_THAT_SEE = tuple(kind for kind in KINDS if kind != "deepseek")
CLIENTS: dict[str, Callable[..., Any]] = {
    "messages": AnthropicClient,
    "responses": ResponsesClient,
    "gemini": GeminiClient,
}
PICTURE = "https://example.com/a.png"
TOKENS_OF_A_SMALL_WINDOW = 6_000


def image(url: str) -> dict[str, Any]:
    """Return an image as a part of a message."""
    return {"type": "image_url", "image_url": {"url": url}}


class Servers:
    """Running strict servers of all kinds; each plays the script of the conversation.

    Args:
        stack: Closes them.
    """

    def __init__(self, stack: ExitStack) -> None:
        self.script: Callable[[Any], Any] = lambda _: "Nobody asked."
        self._clients: dict[str, Any] = {}
        self._taken: dict[str, int] = {}  # number of requests, by kind
        made: dict[str, Callable[..., ScriptedServer]] = {
            "messages": MessagesServer,
            "responses": ResponsesServer,
            "gemini": GeminiServer,
        }
        self.all: dict[str, ScriptedServer] = {}
        for kind in MODELS:
            rules = {} if kind in made else {"dialect": DIALECTS[kind.removesuffix("-chat")]}
            server = made.get(kind, ChatServer)(handler=lambda request: self.script(request), **rules)
            self.all[kind] = stack.enter_context(server)

    def client(self, kind: str, draw: random.Random) -> Any:
        """Return a client of a random model and thinking level."""
        url, model = self.all[kind].base_url, draw.choice(MODELS[kind])
        settings: dict[str, Any] = dict(
            draw.choice([{}, {"thinking_level": "low"}, {"thinking_level": "high"}])
        )
        if kind == "responses":
            settings |= {name: draw.random() < 0.5 for name in ("continues", "appends_tools")}
            settings |= {"custom_tools": draw.choice([None, {"find": None}])}
            if draw.random() < 0.1:
                self.all[kind].forget()  # type: ignore[attr-defined] # of this server
        key = f"{kind} {model} {settings}"
        if key not in self._clients:
            self._clients[key] = CLIENTS.get(kind, OpenAIClient)(model, "k", url, **settings)
        return self._clients[key]

    def take_requests(self) -> list[tuple[str, Any]]:
        """Return the requests since the last call, by kind."""
        taken = []
        for kind, server in self.all.items():
            for request in server.requests[self._taken.get(kind, 0) :]:
                if previous := request.body.get("previous_response_id"):
                    stored = server.issued.stored  # type: ignore[attr-defined] # of this server
                    if previous not in stored:  # it was rejected, and sent again in full
                        continue
                    request.body["input"] = [*stored[previous], *request.body["input"]]
                taken.append((kind, request))
            self._taken[kind] = len(server.requests)
        return taken

    def begin(self) -> None:
        """Forget the requests of earlier conversations. The ids in responses count requests."""
        self._taken = {}
        for server in self.all.values():
            server.requests.clear()


@contextmanager
def running_servers() -> Iterator[Servers]:
    """Start the servers."""
    with ExitStack() as stack:
        yield Servers(stack)


class Conversation:
    """One random conversation.

    Args:
        seed: Decides everything.
        servers: Running servers.
    """

    def __init__(self, seed: int, servers: Servers) -> None:
        self.draw = random.Random(seed)
        self.seed, self.servers = seed, servers
        self.count = self.rounds = self.turns = 0
        self.is_flaky = self.draw.random() < 0.3
        self.is_small = self.draw.random() < 0.15  # the context window
        self.found: list[str] = []  # results that a tool has returned
        self.lines: set[str] = set()  # of all texts that are allowed in requests
        self.calls: set[str] = set()
        self.was_compacted = self.has_media = False
        self.know(CONTINUE, BRIDGE, prompts_for().continue_answer, model_text("continue_for_other"), "")
        for part in (image(PNG), image(PICTURE)):
            self.know(*(model_text(name, what=part_words(part)) for name in ("media_gone", "media_refused")))

    # -- the model --------------------------------------------------------------------------

    def respond(self, request: Any) -> Any:
        """Return the next response."""
        draw = self.draw
        if self.is_flaky and draw.random() < 0.15:
            return draw.choice([status(500), status(529), deltas(self.said("Half of "), Reset())])
        thought = draw.choice([None, "hm", "let me see", f"thought {draw.randrange(9999)}"])
        self.know(thought or "")
        if self.rounds < 3 and _may_call(request.body) and draw.random() < 0.6:
            self.rounds += 1
            calls = [self.call() for _ in range(draw.randint(1, 3))]
            text = [self.said(draw.choice(["Let me look.", "\n", ""]))] if draw.random() < 0.4 else []
            return answer(*text, *calls, reasoning=thought)
        self.rounds = 0
        if draw.random() < 0.1:
            return answer(reasoning=thought) if draw.random() < 0.5 else answer("", reasoning=thought)
        if draw.random() < 0.1:
            return answer(self.said("Cut off"), reasoning=thought, finish_reason="length")
        text = draw.choice(
            ["Done.", "It is so.", "你好 😀", f"Answer {draw.randrange(9999)}.", "a <|im_end|> b"]
        )
        return answer(self.said(text), reasoning=thought)

    def call(self) -> Any:
        """Return a random call, good or bad."""
        kind = self.draw.random()
        if kind < 0.1:
            return raw_call("find", '{"name": ')
        if kind < 0.15:
            return raw_call("look", self.draw.choice(["", "null", "{}", "[]"]))
        if kind < 0.25:
            return call("find", name="bad")
        if kind < 0.3:
            return call("unknown_tool")
        if kind < 0.4:
            return call("look")
        if kind < 0.5:
            return call("picture")
        self.count += 1
        return call("long" if self.is_small and kind < 0.75 else "find", name=f"thing {self.count}")

    def said(self, text: str) -> str:
        """Return a text, which requests may hold from now on."""
        self.know(text)
        return text

    def know(self, *texts: str) -> None:
        """Allow texts in requests."""
        self.lines.update(line.strip() for text in texts for line in text.splitlines() or [""])

    # -- the tools --------------------------------------------------------------------------

    def tools(self) -> list[Any]:
        """Return the tools, which keep what they returned."""

        def find(name: str) -> str:
            """Find something."""
            if name == "bad":
                raise ValueError("there is no such thing")
            self.found.append(f"found {name}.")
            return f"found {name}."

        def look() -> str:
            """Look around."""
            return "seen"

        def long(name: str) -> str:
            """Return a long text."""
            return f"{name} is long.\n" * 400

        def picture() -> list[Any]:
            """Take a picture."""
            return ["a picture", Image(url=PICTURE)]

        return [find, look, picture, *([long] if self.is_small else [])]

    # -- the turns --------------------------------------------------------------------------

    def run(self) -> None:
        """Run the conversation.

        Raises:
            AssertionError: A request was refused, or holds less or more than it should.
        """
        self.servers.begin()
        self.servers.script = self.respond
        way = self.draw.choice(["wire", "state", "session"])
        with tempfile.TemporaryDirectory() as folder:
            store = JsonlStore(folder) if way == "session" else None
            messages = None
            for number in range(self.draw.randint(2, 5)):
                task = f"question {number}"
                result = self.turn(task, store=store, messages=messages)
                if result.stop_reason == "error" and store is not None and self.draw.random() < 0.7:
                    result = self.turn(None, store=store)  # goes on within the round
                kept = result.state.messages if way == "state" else result.messages
                messages = None if store is not None else json.loads(json.dumps(kept))

    def turn(self, task: str | None, *, store: JsonlStore | None, messages: Any = None) -> Any:
        """Run one question with a random model, and check its requests."""
        draw, servers = self.draw, self.servers
        self.rounds, self.turns = 0, self.turns + 1
        # An image of the newest question is sent, or refused: never left out.
        kinds_for_all = KINDS if task is not None or not self.has_media else MODELS_THAT_SEE
        kinds = [draw.choice(kinds_for_all) for _ in range(2 if draw.random() < 0.25 else 1)]
        clients = [servers.client(kind, draw) for kind in kinds]
        llm = clients[0] if len(clients) == 1 else Fallback(clients, cooldown=0.001)
        tools = self.tools() if draw.random() < 0.85 else self.tools()[1:]
        agent = Agent(
            llm=llm,
            tools=tools,
            stream=draw.random() < 0.5,
            retry=RetryConfig(1, base_delay=0, jitter=0),
            context_window=TOKENS_OF_A_SMALL_WINDOW if self.is_small else 200_000,
        )
        if task is not None:
            self.has_media = "deepseek" not in kinds and draw.random() < 0.2
        options: dict[str, Any] = {"media": [image(PNG)]} if task is not None and self.has_media else {}
        if store is not None:
            options |= {"session_id": "one", "sessions": store}
        elif messages is not None:
            options["messages"] = messages
        known = set(self.found)
        result = agent.run(task, **options)
        where = (self.seed, task, kinds, result.stop_reason, result.error)
        self.was_compacted |= any(event.type is EventType.COMPACTION for event in result.events)
        requests = servers.take_requests()
        problems = [problem for server in servers.all.values() for problem in server.violations]
        for server in servers.all.values():
            server.violations.clear()
        assert problems == [], (*where, problems)
        faults = {"error"} if self.is_flaky or not self.is_whole(result) else set()
        assert result.stop_reason in {"completed", "doom_loop", "output_limit"} | faults, where
        self.check(requests, result, known, where)
        return result

    def is_whole(self, result: Any) -> bool:
        """Return False if an empty response may have ended the run."""
        return "empty" not in (result.error or "") and "no content" not in (result.error or "")

    # -- the checks -------------------------------------------------------------------------

    def check(self, requests: list[tuple[str, Any]], result: Any, known: set[str], where: Any) -> None:
        """Check that requests hold what is known, and nothing else."""
        for kept in result.state.messages:
            self.know(*_texts(kept))
            for each in kept.get("tool_calls") or ():
                made = json.loads(each["function"]["arguments"])
                self.calls.add(json.dumps(made))
                texts = made.values() if isinstance(made, dict) else ()
                self.calls.update(json.dumps({"text": text}) for text in texts)  # of a custom tool
        if self.was_compacted:
            return  # summaries are new texts, and pruned results are gone
        is_complete = result.stop_reason != "completed"
        for kind, request in requests:
            turns = request.body.get("messages") or request.body.get("contents") or request.body.get("input")
            turns = [turn for turn in turns if turn.get("role") not in ("system", "developer")]
            sent = "\n".join(text for turn in turns for text in _texts(turn)).replace(JOINER, "")
            invented = [x for x in sent.splitlines() if x.strip() not in self.lines]
            assert invented == [], (*where, kind, invented)
            lost = [found for found in known if found not in sent]
            assert lost == [], (*where, kind, lost)
            is_complete = is_complete or all(found in sent for found in self.found)
            arguments = [json.dumps(found) for turn in turns for found in _arguments(turn)]
            assert {*arguments} <= self.calls, (*where, kind, arguments)
        assert is_complete, (*where, "no request holds all results", self.found)


def _may_call(body: Mapping[str, Any]) -> bool:
    choice = body.get("tool_choice")
    mode = (body.get("toolConfig") or {}).get("functionCallingConfig", {}).get("mode")
    is_none = choice in ("none", {"type": "none"}) or mode == "NONE"
    return bool(body.get("tools")) and not is_none


_TEXTS = ("text", "content", "thinking", "output", "error", "reasoning_content")
_ARGUMENTS = ("arguments", "input", "args")


def _texts(value: Any, key: str = "content") -> Iterator[str]:
    """Yield the texts of a message, wherever its protocol puts them."""
    if isinstance(value, str) and key in _TEXTS:
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, key)
    elif isinstance(value, dict):
        for name, item in value.items():
            if name not in _ARGUMENTS and name not in ("image_url", "source", "inlineData", "fileData"):
                yield from _texts(item, name)


def _arguments(value: Any) -> Iterator[Any]:
    """Yield the arguments of the calls of a message."""
    if isinstance(value, list):
        for item in value:
            yield from _arguments(item)
    elif isinstance(value, dict) and value.get("type") == "custom_tool_call":
        yield {"text": value["input"]}
    elif isinstance(value, dict):
        for name, item in value.items():
            if name in _ARGUMENTS and value.get("type") != "message":
                yield json.loads(item or "{}") if isinstance(item, str) else item
            else:
                yield from _arguments(item)
