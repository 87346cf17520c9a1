"""Kinds of the errors of OpenAI's SDK."""

import openai

KINDS = {
    openai.AuthenticationError: "auth",
    openai.NotFoundError: "not_found",
    openai.RateLimitError: "rate_limit",
    openai.BadRequestError: "bad_request",
    openai.InternalServerError: "overloaded",
    openai.APITimeoutError: "timeout",
    openai.APIConnectionError: "connection",
}
