"""A request longer than the model's window, in the words of each provider; and what only sounds like it."""

from __future__ import annotations

import pytest

from pure_agent_loop.llm.failures import classify

OVERFLOWS = [
    (
        400,
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
    ),
    (400, "Your input exceeds the context window of this model. Please adjust your input and try again."),
    (400, "prompt is too long: 213462 tokens > 200000 maximum"),
    (400, "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"),
    (400, "Input is too long for requested model."),
    (400, "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)."),
    (400, "This model's maximum prompt length is 131072 but the request contains 537812 tokens."),
    (400, "Please reduce the length of the messages or completion."),
    (
        400,
        "This endpoint's maximum context length is 200000 tokens. However, you requested about 300000 tokens",
    ),
    (400, "prompt token count of 131072 exceeds the limit of 128000"),
    (400, "the request exceeds the available context size, try increasing it"),
    (500, "the request exceeds the available context size, try increasing it"),
    (400, "The number of tokens to keep from the initial prompt is greater than the context length"),
    (400, "invalid params, context window exceeds limit"),
    (400, "Your request exceeded model token limit: 262144 (requested: 300000)"),
    (400, "Prompt contains 40000 tokens, too large for model with 32768 maximum context length"),
    (413, "Payload too large"),
    (None, "context_length_exceeded"),
]
OTHERS = [
    (429, "Rate limit reached: tokens per minute. Limit 30000, requested 41000", "rate_limit"),
    (429, "Request too large for model: maximum context length", "rate_limit"),
    (413, "Request too large for model on tokens per minute (TPM): Limit 6000", "context_overflow"),
    (
        400,
        "max_tokens is too large: 90000. This model supports at most 16384 completion tokens.",
        "bad_request",
    ),
    (400, "Invalid 'context' argument", "bad_request"),
]


@pytest.mark.parametrize(("status", "words"), OVERFLOWS)
def test_recognised(status: int | None, words: str):
    assert classify(status, words) == "context_overflow"


@pytest.mark.parametrize(("status", "words", "kind"), OTHERS)
def test_not_mistaken(status: int, words: str, kind: str):
    assert classify(status, words) == kind
