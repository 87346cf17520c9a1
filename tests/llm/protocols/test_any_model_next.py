"""One history, any model next: random conversations over servers of four protocols, each of them strict.

No server refuses, no known result gets lost, and nothing is invented.
"""

import json
import os
import random

import pytest

from pure_agent_loop import Agent, AnthropicClient, GeminiClient, OpenAIClient, ResponsesClient
from pure_agent_loop.testing import ScriptedServer, answer, call, raw_call
from pure_agent_loop.testing.protocols import GeminiServer, MessagesServer, ResponsesServer

CONVERSATIONS = int(os.environ.get("CONVERSATIONS", "30"))  # of each of four parts
PNG = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
CLAUDES = ("claude-haiku-4-5", "claude-opus-4-6", "claude-sonnet-5-5", "claude-fable-5-2")
GEMINIS = ("gemini-2.5-flash", "gemini-3-flash", "gemini-3-pro")


def find(name: str) -> str:
    """Find something."""
    if name == "bad":
        raise ValueError("there is no such thing")
    return f"found {name}"


def look() -> str:
    """Look around."""
    return "seen"


class Conversation:
    """A random script, the same for all protocols: what a model answers is drawn when it is asked."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.results: list[str] = []
        self.count = 0
        self.rounds = 0

    def __call__(self, _request) -> object:
        draw, thought = self.draw, self.draw.choice([None, "hm", "let me see"])
        if self.rounds < 3 and draw.random() < 0.6:
            self.rounds += 1
            calls = [self.call() for _ in range(draw.randint(1, 3))]
            text = [draw.choice(["Let me look.", "\n"])] if draw.random() < 0.4 else []
            return answer(*text, *calls, reasoning=thought)
        self.rounds = 0
        return answer(draw.choice(["Done.", "It is so.", "你好 😀"]), reasoning=thought)

    def call(self):
        kind = self.draw.random()
        if kind < 0.1:
            return raw_call("find", '{"name": ')
        if kind < 0.2:
            return call("find", name="bad")
        if kind < 0.3:
            return call("unknown_tool")
        if kind < 0.5:
            return call("look")
        self.count += 1
        self.results.append(f"found thing {self.count}")
        return call("find", name=f"thing {self.count}")


def talk(seed: int, servers) -> None:
    draw = random.Random(seed)
    script = Conversation(seed)
    for server in servers.values():
        server.script = script
    messages = None
    for turn in range(draw.randint(2, 5)):
        kind = draw.choice(list(servers))
        server = servers[kind]
        level = draw.choice([None, "low", "high"])
        if kind == "messages":
            llm = AnthropicClient(draw.choice(CLAUDES), "k", server.base_url, level)
        elif kind == "gemini":
            llm = GeminiClient(draw.choice(GEMINIS), "k", server.base_url, level)
        elif kind == "responses":
            llm = ResponsesClient(draw.choice(["gpt-5", "gpt-6"]), "k", server.base_url, level)
        else:
            llm = OpenAIClient("m", "k", server.base_url)
        tools = [find, look] if draw.random() < 0.8 else [look]
        media = [{"type": "image_url", "image_url": {"url": PNG}}] if draw.random() < 0.2 else None
        before = len(script.results)
        result = Agent(llm=llm, tools=tools, stream=draw.random() < 0.5).run(
            f"turn {turn}", messages=messages, media=media
        )
        assert result.stop_reason in ("completed", "doom_loop"), (seed, turn, kind, result.error)
        messages = json.loads(json.dumps(result.messages))
        sent = server.requests[-1].raw.decode()
        if find in tools:
            for found in script.results[before:]:
                assert found in sent, (seed, turn, kind, found)
        if turn and kind != "chat":
            assert "<think" not in sent


@pytest.mark.parametrize("part", range(4))
def test_random_conversations_are_refused_by_no_server(part):
    with (
        ScriptedServer(handler=lambda r: CURRENT["chat"].script(r)) as chat,
        GeminiServer(handler=lambda r: CURRENT["gemini"].script(r)) as gemini,
        MessagesServer(handler=lambda r: CURRENT["messages"].script(r)) as messages,
        ResponsesServer(handler=lambda r: CURRENT["responses"].script(r)) as responses,
    ):
        CURRENT.update(chat=chat, gemini=gemini, messages=messages, responses=responses)
        for seed in range(part * CONVERSATIONS, (part + 1) * CONVERSATIONS):
            talk(seed, dict(CURRENT))
        assert [server.violations for server in CURRENT.values()] == [[]] * 4


CURRENT: dict = {}
