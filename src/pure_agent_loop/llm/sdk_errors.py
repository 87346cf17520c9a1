"""Errors of the SDK, and of the HTTP library under it, as `LLMError`: one table at the border."""

from __future__ import annotations

import asyncio
import email.utils
import time
from collections.abc import Mapping
from datetime import timezone
from typing import Any

from pure_agent_loop.errors import ErrorKind, LLMError
from pure_agent_loop.llm.wire import classify, read_error

TRANSPORT_PACKAGES = ("httpx", "httpx2", "httpcore", "httpcore2", "h11", "anyio", "ssl")


def translate_error(error: Exception, base_url: str, model: str) -> Exception:
    """Map an error of the SDK or of the HTTP library under it to `LLMError`; return others unchanged."""
    import openai

    if isinstance(error, openai.APIStatusError):
        return _status_error(error, base_url, model)
    if isinstance(error, (openai.APITimeoutError, TimeoutError, asyncio.TimeoutError)):
        return LLMError(f"The server at {base_url} did not answer in time.", error, kind="timeout")
    if isinstance(error, openai.APIConnectionError):
        return _unsent_error(error, base_url)
    if isinstance(error, OSError) or type(error).__module__.split(".")[0] in TRANSPORT_PACKAGES:
        kind: ErrorKind = "timeout" if "Timeout" in type(error).__name__ else "connection"
        return LLMError(
            f"The connection to {base_url} broke: {str(error) or type(error).__name__}", error, kind=kind
        )
    if isinstance(error, openai.OpenAIError):
        return LLMError(str(error), error)
    return error


def _unsent_error(error: Exception, base_url: str) -> LLMError:
    cause = error.__cause__ or error
    name = type(cause).__name__
    if name in ("LocalProtocolError", "UnsupportedProtocol", "InvalidURL"):  # its text may hold a key
        return LLMError(f"The request to {base_url} cannot be sent: {name}.", error, kind="bad_request")
    return LLMError(
        f"Cannot reach {base_url}: {str(cause) or name}. Is the server running?", error, kind="connection"
    )


_HINTS: dict[ErrorKind, str] = {
    "auth": " Check the API key.",
    "not_found": " Check base_url and the model name.",
    "context_overflow": " The request is longer than the model's context window.",
    "quota": " The account's quota is used up; waiting does not help.",
}


def _status_error(error: Any, base_url: str, model: str) -> LLMError:
    message, codes = read_error(error.body or error.message)
    kind = classify(error.status_code, message, " ".join(codes))
    return LLMError(
        f"{base_url} refused the request for model {model!r} "
        f"with status {error.status_code}: {message}{_HINTS.get(kind, '')}",
        error,
        kind=kind,
        status=error.status_code,
        retry_after=parse_retry_after(error.response.headers),
        said=message,
    )


def parse_retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds a server asks us to wait: ``Retry-After-Ms``, or ``Retry-After`` in seconds or as an HTTP date.

    Source: https://www.rfc-editor.org/rfc/rfc9110#field.retry-after
    """
    text = headers.get("retry-after", "")
    seconds = _number(headers.get("retry-after-ms", ""))
    if seconds is not None:
        return seconds / 1000
    seconds = _number(text)
    if seconds is not None:
        return seconds
    try:
        date = email.utils.parsedate_to_datetime(text)
        date = date if date.tzinfo else date.replace(tzinfo=timezone.utc)
        return max(0.0, date.timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        return None


def _number(text: str) -> float | None:
    try:
        return max(0.0, float(text))
    except ValueError:
        return None
