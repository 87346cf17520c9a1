"""A request that a server refuses as too long: shortened once, sent again, or a typed end."""

from __future__ import annotations

import json
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

import pytest
from tests.compaction.sessions import long_session, prose
from tests.compaction.test_ladder import FREE, is_summary_request, rungs
from tests.helpers import NO_WAIT, E, check_result, of_type, run_kernel, types
from tests.serving import serving

from pure_agent_loop import Agent, LLMError, OpenAIClient, QueryState, RetryConfig, TokenUsage
from pure_agent_loop.compaction import Ladder
from pure_agent_loop.testing import ScriptedLLM, ScriptedServer, answer, deltas, status

LIMIT = 6_000  # tokens, by our own guess: what the servers here take
WORDINGS = {
    "OpenAI": (
        400,
        "This model's maximum context length is 8192 tokens; you requested 9000.",
    ),
    "Anthropic": (400, "prompt is too long: 213462 tokens > 200000 maximum"),
    "Gemini": (
        400,
        "The input token count (1196265) exceeds the maximum number of tokens (1048575).",
    ),
    "xAI": (400, "This model's maximum prompt length is 131072 but the request contains 537812 tokens."),
    "Groq": (400, "Please reduce the length of the messages or completion."),
    "llama.cpp": (400, "the request exceeds the available context size, try increasing it"),
    "llama.cpp, older": (500, "the request exceeds the available context size, try increasing it"),
    "LM Studio": (
        400,
        "The tokens to keep from the initial prompt are more than the context length",
    ),
    "Kimi": (400, "Your request exceeded model token limit: 262144 (requested: 300000)"),
    "MiniMax": (400, "invalid params, context window exceeds limit"),
    "a proxy": (413, "Payload Too Large"),
}


def size_of(messages):
    return QueryState().context.estimate(messages)


def refusing(refusal, limit=LIMIT):
    """A server that refuses long requests in these words, and answers short ones."""

    def handle(request):
        if size_of(request.messages) > limit:
            return status(*refusal)
        if is_summary_request(request.messages):
            return "Goal: to mend the parser."
        return "done"

    return handle


def run_on(server, **options):
    agent = Agent(
        llm=OpenAIClient("m", base_url=server.base_url), **{"retry": NO_WAIT, "limits": FREE, **options}
    )
    return check_result(agent.run("And now?", long_session(rounds=60, words=60)))


@pytest.mark.parametrize("provider", WORDINGS)
def test_in_the_words_of_each_provider(provider):
    with ScriptedServer(handler=refusing(WORDINGS[provider]), usage=None) as server:
        result = run_on(server)
    assert result.content == "done"
    assert rungs(result)
    assert types(result.events).count("retry") == 1
    assert result.state.has_attempted_reactive_compact
    assert server.violations == []


def test_when_it_does_not_help_the_run_ends_typed_with_everything_kept():
    with ScriptedServer(handler=refusing(WORDINGS["OpenAI"], limit=-1)) as server:
        result = run_on(server)
    assert result.stop_reason == "error"
    assert of_type(result.events, E.ERROR)[0].data["kind"] == "context_overflow"
    assert result.messages[-1]["content"] == "And now?"
    assert len(result.messages) > 3
    sent = [request for request in server.requests if not is_summary_request(request.messages)]
    assert len(sent) == 2, "once more, and no third time"


def test_without_compaction_it_is_sent_once():
    with ScriptedServer(handler=refusing(WORDINGS["OpenAI"], limit=-1)) as server:
        result = run_on(server, compaction=False)
    assert len(server.requests) == 1
    assert result.stop_reason == "error"
    assert len(result.messages) == 122


def test_tokens_per_minute_never_shortens():
    words = "Rate limit reached for tokens per minute (TPM): Limit 30000, Requested 41000."
    with ScriptedServer(handler=refusing((429, words), limit=-1)) as server:
        result = run_on(server, retry=RetryConfig(max_retries=1, base_delay=0, jitter=0))
    assert rungs(result) == []
    assert of_type(result.events, E.ERROR)[0].data["kind"] == "rate_limit"


@contextmanager
def wordless(limit):
    """A server that refuses with status 400 and no body at all."""
    sizes = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            sizes.append(size_of(body["messages"]))
            text = b""
            if sizes[-1] <= limit:
                choice = {"message": {"role": "assistant", "content": "done"}, "finish_reason": "stop"}
                text = json.dumps({"choices": [choice]}).encode()
            self.send_response(200 if text else 400)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def do_GET(self):
            self.send_error(404)

        def log_message(self, *_):
            """Say nothing."""

    with serving(Handler) as port:
        yield f"http://127.0.0.1:{port}/v1", sizes


@pytest.mark.parametrize(
    ("rounds", "window", "kind"),
    [(100, None, None), (10, None, "bad_request"), (10, 4_000, None), (10, 40_000, "bad_request")],
)
def test_a_refusal_without_a_word_counts_if_the_request_is_long(rounds, window, kind):
    history = long_session(rounds=rounds, words=60)
    settings = Ladder(share=1, unknown_window_tokens=10**6)
    with wordless(size_of(history) * 0.7) as (url, sizes):
        agent = Agent(
            llm=OpenAIClient("m", base_url=url), retry=NO_WAIT, compaction=settings, context_window=window
        )
        result = check_result(agent.run("And now?", history))
    if kind is None:
        assert result.content == "done", (sizes, result.events)
    else:
        assert of_type(result.events, E.ERROR)[0].data["kind"] == kind
        assert len(sizes) == 1


def test_rejection_inside_an_answer_discards_the_shown_text():
    error = LLMError("Context size exceeded", kind="context_overflow")
    script = iter([deltas("half of", error), "whole"])

    def play(messages, tools, options):
        return "short" if is_summary_request(messages) else next(script)

    with ScriptedLLM(play) as llm:
        state = QueryState(messages=long_session(rounds=30, words=60))
        result = run_kernel(llm, state=state, compactor=Ladder())
    assert result.content == "whole"
    assert of_type(result.events, E.RETRY)[0].data["discard"] is True


def test_next_step_is_measured_against_the_rejected_size():
    with ScriptedServer(handler=refusing(WORDINGS["OpenAI"]), usage=None) as server:
        agent = Agent(llm=OpenAIClient("m", base_url=server.base_url), retry=NO_WAIT, limits=FREE)
        first = check_result(agent.run("And now?", long_session(rounds=60, words=60)))
        refused = sum(size_of(request.messages) > LIMIT for request in server.requests)
        again = check_result(agent.run(prose(1, 100), state=first.state), 2)
    assert refused == 1
    assert again.content == "done"


def test_silent_truncation_by_a_server_is_reported_once():
    history = long_session(rounds=20, words=60)
    usage = TokenUsage(300, 5, 305)
    with ScriptedLLM([answer("", usage=usage), answer("done", usage=usage)]) as llm:
        state = QueryState(messages=history)
        result = run_kernel(
            llm, state=state, compactor=Ladder(share=1), context_window=int(size_of(history) * 1.1)
        )
    told = [
        event
        for event in of_type(result.events, E.NOTICE)
        if "drop the beginning of long requests" in event.content
    ]
    assert len(told) == 1
    assert result.content == "done"
