"""Several clients in one run, in every combination: no key of one is shown, recorded or sent to another."""

import logging

import pytest

from pure_agent_loop import Agent, Fallback, Limiter, OpenAIClient, RetryConfig, tool
from pure_agent_loop.llm.base import BaseLLMClient
from pure_agent_loop.sessions import JsonlStore
from pure_agent_loop.sessions.export import to_html, to_markdown
from pure_agent_loop.subagents import AgentDefinition, SubagentManager
from pure_agent_loop.testing import ScriptedServer, call, deltas
from pure_agent_loop.testing.faults import EndEarly, status
from pure_agent_loop.testing.script import answer

KEYS = {"first": "k-first-9f8e7d6c5b4a", "second": "k-second-1a2b3c4d5e6f", "third": "k-third-0p9o8i7u6y5t"}
ONCE = RetryConfig(max_retries=0)


class Clients:
    """Clients of a server that repeats the keys of all clients made so far."""

    def __init__(self):
        self.keys = {}
        self.server = ScriptedServer(handler=self._answer, strict=False, check=False)

    def __call__(self, name):
        self.keys[name] = KEYS[name]
        return OpenAIClient(name, KEYS[name], self.server.base_url)

    def _answer(self, request):
        model, said, keys = request.options["model"], str(request.messages), " ".join(self.keys.values())
        if "FAIL" in said and model != "third":
            return status(400, f"refused {keys}")
        if model == "first" and "BREAK" in said:
            return deltas(f"half of {keys} ", EndEarly())
        if model == "first" and "AWAY" in said:
            return status(503, f"away {keys}")
        arguments = {
            "helper": {"input": f"{keys} {request.messages[-1]['content']}"},
            "task": {"agent": "scout", "prompt": keys},
            "transfer_to_helper": {},
            "ask_inside": {"text": keys},
        }
        offered = [each["function"]["name"] for each in request.tools or ()]
        name = next((name for name in arguments if name in offered), None)
        if name and request.messages[-1]["role"] == "user":
            return call(name, **arguments[name])
        return answer(f"{model} has {keys}", reasoning=f"thinking of {keys}")


@pytest.fixture
def client():
    clients = Clients()
    with clients.server:
        yield clients


class Wrapper(BaseLLMClient):
    """A client of a user around another one, which names none of its secrets."""

    def __init__(self, wrapped):
        self._wrapped = wrapped

    async def chat(self, messages, tools=None, **kwargs):
        return await self._wrapped.chat(messages, tools, **kwargs)


class OwnCompactor:
    """A compactor of a user, with a client of its own."""

    def __init__(self, client):
        self._client = client

    async def compact(self, state):
        if len(state.messages) == 1:
            said = await self._client.chat([{"role": "user", "content": "shorten"}])
            about = {"rung": "own", "step": 0, "tokens_before": 9, "tokens_after": 3, "messages_before": 1}
            state.replace_messages([{"role": "user", "content": f"go {said.content}"}], about)


def pair(client, **more):
    return Fallback([client("first"), client("second")], cooldown=0.01, **more)


def helper(client):
    return Agent(llm=client("second"), name="helper", description="Helps.")


def inside(client):
    @tool
    def ask_inside(text: str) -> str:
        """Ask another agent."""
        result = Agent(llm=client("second")).run(text)
        return f"{result.content} {result.messages}"

    return ask_inside


WAYS = {
    "fallback that continues": lambda c: (Agent(llm=pair(c)), "BREAK"),
    "fallback after a failure": lambda c: (Agent(llm=pair(c)), "AWAY"),
    "limited fallback": lambda c: (Agent(llm=Limiter(pair(c), requests=99)), "BREAK"),
    "fallback of limiters": lambda c: (
        Agent(llm=Fallback([Limiter(c("first"), requests=9), Limiter(c("second"), requests=9)])),
        "BREAK",
    ),
    "fallback in a fallback": lambda c: (Agent(llm=Fallback([pair(c), c("third")])), "BREAK"),
    "wrapped by a user": lambda c: (Agent(llm=Fallback([Wrapper(c("first")), Wrapper(c("second"))])), "AWAY"),
    "another client for the run": lambda c: (Agent(llm=c("first")), "hi", ("model", c("second"))),
    "hand-off": lambda c: (Agent(llm=c("first"), handoffs=[helper(c)]), "hi"),
    "agent as a tool": lambda c: (Agent(llm=c("first"), tools=[helper(c)]), "hi"),
    "agent that falls back as a tool": lambda c: (
        Agent(llm=c("third"), tools=[Agent(llm=pair(c), name="helper")]),
        "BREAK",
    ),
    "subagent": lambda c: (
        Agent(
            llm=c("first"),
            subagents=SubagentManager([AgentDefinition("scout", "Looks.", "Look.", llm=c("second"))]),
        ),
        "hi",
    ),
    "compactor": lambda c: (Agent(llm=c("first"), compaction=OwnCompactor(c("second"))), "hi"),
    "run inside of a tool": lambda c: (Agent(llm=c("first"), tools=[inside(c)]), "hi"),
    "failure of all": lambda c: (Agent(llm=pair(c)), "FAIL"),
    "failure of a helper": lambda c: (Agent(llm=c("third"), tools=[helper(c)], retry=ONCE), "FAIL"),
}


@pytest.mark.parametrize("way", WAYS)
def test_no_key_leaves_its_client(way, client, spans, tmp_path, caplog):
    caplog.set_level(logging.DEBUG, "pure_agent_loop")
    spans.instrument(content=True)
    agent, task, *of_run = WAYS[way](client)
    store = JsonlStore(tmp_path)
    result = agent.clone(sessions=store).run(task, session_id="s", **dict(of_run))
    records = store.read("s").records
    shown = {
        "answer": result.content,
        "history": str([message["content"] for message in result.messages]),  # calls stay as they are
        "error": f"{result.error!r} {result.state.failure}",
        "events": repr([event.to_dict() for event in result.events]),
        "records": "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file()),
        "exports": to_markdown(records) + to_html(records),
        "log": caplog.text,
        "traces": str([(dict(span.attributes), span.events) for span in spans()]),
    }
    assert {what for what, text in shown.items() for key in KEYS.values() if key in text} == set()
    assert "removed]" in shown["events"]
    sent = [
        (r.options["model"], name)
        for r in client.server.requests
        for name in KEYS
        if KEYS[name].encode() in r.raw
    ]
    assert {(model, name) for model, name in sent if model != name} == set()
    unasked = {"fallback in a fallback", "another client for the run"}
    assert len({r.options["model"] for r in client.server.requests}) == len(client.keys) - (way in unasked)
