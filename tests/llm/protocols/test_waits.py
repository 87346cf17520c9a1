"""Waits and used-up quotas, as the servers of four protocols name them."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from llm_client_conformance import ScriptedServer
from llm_client_conformance.faults import Raw, Status
from pure_agent_loop.errors import LLMError
from pure_agent_loop.llm.waits import named_wait, wait_in_body

from .refusing import CLIENTS, MODELS, SERVERS

USER = [{"role": "user", "content": "hi"}]
EXCEEDED = "You exceeded your current quota, please check your plan and billing details."
TOMORROW = (datetime.now(timezone.utc) + timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%S")


def failure(kind: str, item: Any) -> LLMError:
    """Return the error of one streamed request."""

    async def request() -> None:
        with SERVERS.get(kind, ScriptedServer)([item]) as server:
            client = CLIENTS[kind](MODELS[kind][0], "k", server.base_url)
            try:
                async for _ in client.chat_stream(USER):
                    pass
            finally:
                await client.aclose()

    with pytest.raises(LLMError) as raised:
        asyncio.run(request())
    return raised.value


def google(ids: list[str], wait: str = "", message: str = EXCEEDED) -> dict[str, Any]:
    """Return an error of Google with quota ids and, if given, a wait."""
    details: list[Any] = [
        {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": i} for i in ids]}
    ]
    if wait:
        details.append({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": wait})
    error = {"code": 429, "message": message, "status": "RESOURCE_EXHAUSTED", "details": details}
    return {"error": error}


MINUTE, DAY = (
    "GenerateRequestsPerMinutePerProjectPerModel",
    "GenerateRequestsPerDayPerProjectPerModel-FreeTier",
)
WORDS = f"{EXCEEDED}\nPlease retry in 36.25s."
QUOTAS = [
    (google([MINUTE], "36s"), "rate_limit", 36),
    (google([MINUTE], "36s", WORDS), "rate_limit", 36.25),
    (google([MINUTE]), "rate_limit", None),
    (google([], "0.5s"), "rate_limit", 0.5),
    (google([]), "quota", None),
    (google([DAY], "36s", WORDS), "quota", 36.25),
    (google([MINUTE, DAY], "36s"), "quota", 36),
    (google([MINUTE], "-36s"), "rate_limit", None),
    (google([MINUTE], "1e999"), "rate_limit", None),
]


@pytest.mark.parametrize(("kind", "in_list"), [("chat", False), ("chat", True), ("gemini", True)])
@pytest.mark.parametrize(("body", "expected", "wait"), QUOTAS)
def test_quota_of_google_when_its_ids_name_a_period_decides_the_kind(body, expected, wait, kind, in_list):
    error = failure(kind, Status(429, json.dumps([body] if in_list else body).encode()))
    assert (error.kind, error.retry_after) == (expected, wait)


SAID = "Rate limit reached: Limit 3, Used 3. Please try again in 6m0s."
IN_STREAM = {
    "chat": {"error": {"message": SAID, "code": "rate_limit_exceeded"}},
    "messages": {"type": "error", "error": {"type": "rate_limit_error", "message": SAID}},
    "gemini": {"error": {"code": 429, "message": SAID, "status": "RESOURCE_EXHAUSTED"}},
    "responses": {
        "type": "response.failed",
        "response": {"status": "failed", "error": {"code": "rate_limit_exceeded", "message": SAID}},
    },
}


@pytest.mark.parametrize("kind", IN_STREAM)
def test_wait_in_an_event_of_a_stream_is_read(kind: str):
    event = IN_STREAM[kind]
    name = f"event: {event['type']}\n" if "type" in event else ""
    error = failure(kind, Raw(f"{name}data: {json.dumps(event)}\n\n".encode()))
    assert (error.kind, error.retry_after) == ("rate_limit", 360)


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize(
    ("status", "headers", "message", "wait"),
    [
        (429, {}, "Please retry after 20 seconds.", 20),
        (503, {}, "Overloaded. Please retry after 20 seconds.", 20),
        (429, {"Retry-After": "3"}, "Please retry after 20 seconds.", 3),
        (429, {"Retry-After": "-3"}, "Please retry after 20 seconds.", 20),
        (429, {"X-RateLimit-Remaining-Requests": "0", "X-RateLimit-Reset-Requests": "1.5s"}, "no", 1.5),
        (503, {"X-RateLimit-Remaining-Requests": "0", "X-RateLimit-Reset-Requests": "1.5s"}, "no", None),
    ],
)
def test_wait_in_a_refusal_is_read_in_each_protocol(kind, status, headers, message, wait):
    body = json.dumps({"error": {"message": message}}).encode()
    assert failure(kind, Status(status, body, headers=tuple(headers.items()))).retry_after == wait


@pytest.mark.parametrize(
    ("text", "wait"),
    [
        ("Please try again in 1.2s. Visit ...", 1.2),
        ("Please try again in 120ms.", 0.12),
        ("please try again after 1 seconds", 1),
        ("Your quota will reset after 20h12m5s.", 72_725),
        ("Please wait for at least 1 minute and 3 seconds.", 63),
        ("Please try again later.", None),
        ("Retry in 0s.", None),
        ("Limit 200, used 3 s", None),
        ({"metadata": {"retry_after_seconds": 4}}, 4),
        ({"metadata": {"retry_after_ms": 250}}, 0.25),
        ({"retry_after": True}, None),
        ({"retryDelay": "soon"}, None),
    ],
)
def test_wait_in_a_body_is_read_from_fields_and_words(text, wait):
    assert wait_in_body(text) == pytest.approx(wait)


@pytest.mark.parametrize(
    ("headers", "low", "high"),
    [
        ({"x-ratelimit-reset-requests": "1s", "x-ratelimit-reset-tokens": "6m0s"}, 1, 1),
        (
            {
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": "1s",
                "x-ratelimit-remaining-tokens": "9",
                "x-ratelimit-reset-tokens": "6m0s",
            },
            1,
            1,
        ),
        (
            {
                "anthropic-ratelimit-requests-remaining": "0",
                "anthropic-ratelimit-requests-reset": f"{TOMORROW}Z",
                "anthropic-ratelimit-tokens-remaining": "0",
                "anthropic-ratelimit-tokens-reset": "5",
            },
            80_000,
            86_400,
        ),
        ({"ratelimit-reset": f"{TOMORROW}.1234567+00:00"}, 80_000, 86_400),
        ({"x-ratelimit-reset": str(int(datetime.now(timezone.utc).timestamp()) + 86_400)}, 80_000, 86_400),
        ({"x-ratelimit-reset": f"{int(datetime.now(timezone.utc).timestamp()) + 86_400}000"}, 80_000, 86_400),
    ],
)
def test_reset_of_a_limit_that_is_used_up_is_a_wait(headers, low, high):
    assert low <= (named_wait(headers, "", is_rate_limit=True) or 0) <= high


@pytest.mark.parametrize("text", ["soon", "-3s", "0", "2015-10-21T07:28:00Z", "1445412480", "nan"])
def test_reset_that_is_not_a_wait_is_ignored(text: str):
    assert named_wait({"x-ratelimit-reset": text}, "", is_rate_limit=True) is None
    assert named_wait({"x-ratelimit-reset": "5"}, "", is_rate_limit=False) is None
