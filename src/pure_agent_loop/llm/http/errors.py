"""Errors of the SDK, and of the HTTP library at work, as `LLMError`: one table at the border."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Mapping
from datetime import timezone
from typing import Any

from pure_agent_loop.errors import ErrorKind, LLMError
from pure_agent_loop.llm.http import Headers
from pure_agent_loop.llm.wire import classify, read_error

TRANSPORT_PACKAGES = ("httpx", "httpx2", "httpcore", "httpcore2", "h11", "anyio", "ssl", "aiohttp")


class UnsendableError(Exception):
    """A request that HTTP has no form for. Only the kind of error is said: its text may hold a key."""


class UnansweredError(Exception):
    """Something went wrong before an answer began; its cause says what."""


class RefusedError(Exception):
    """An answer with a status that is no success.

    Args:
        status: The status.
        content: What came with it. Of JSON the value of ``error`` is kept as `body`, else all of the text.
        headers: Its header fields.
    """

    def __init__(self, status: int, content: bytes, headers: Headers) -> None:
        super().__init__(f"status {status}")
        self.status, self.headers = status, headers
        text = content.decode("utf-8", "replace").strip()
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            data = text
        self.body: Any = data.get("error", data) if isinstance(data, Mapping) else data


def translate_error(error: Exception, base_url: str, model: str) -> Exception:
    """Map an error of the SDK or of an HTTP library to `LLMError`; return others unchanged."""
    if isinstance(error, RefusedError):
        said = error.body or f"Error code: {error.status}"
        return _status_error(error, error.status, said, error.headers, base_url, model)
    if isinstance(error, UnsendableError):
        return _unsendable_error(error, base_url, str(error))
    if isinstance(error, UnansweredError):
        return _unsent_error(error, base_url)
    if "openai" in sys.modules:  # else it is none of the SDK's
        translated = _of_the_sdk(error, base_url, model)
        if translated is not None:
            return translated
    if isinstance(error, (TimeoutError, asyncio.TimeoutError)):
        return _timeout_error(error, base_url)
    package = type(error).__module__.split(".")[0]
    if isinstance(error, OSError) or package in TRANSPORT_PACKAGES:
        kind: ErrorKind = "timeout" if "Timeout" in type(error).__name__ else "connection"
        return LLMError(
            f"The connection to {base_url} broke: {str(error) or type(error).__name__}", error, kind=kind
        )
    return error


def _of_the_sdk(error: Exception, base_url: str, model: str) -> LLMError | None:
    import openai

    if isinstance(error, openai.APIStatusError):
        said = error.body or error.message
        return _status_error(error, error.status_code, said, error.response.headers, base_url, model)
    if isinstance(error, openai.APITimeoutError):
        return _timeout_error(error, base_url)
    if isinstance(error, openai.APIConnectionError):
        return _unsent_error(error, base_url)
    return LLMError(str(error), error) if isinstance(error, openai.OpenAIError) else None


def _timeout_error(error: Exception, base_url: str) -> LLMError:
    return LLMError(f"The server at {base_url} did not answer in time.", error, kind="timeout")


def _unsendable_error(error: Exception, base_url: str, name: str) -> LLMError:
    return LLMError(f"The request to {base_url} cannot be sent: {name}.", error, kind="bad_request")


def _unsent_error(error: Exception, base_url: str) -> LLMError:
    cause = error.__cause__ or error
    name = type(cause).__name__
    if name in ("LocalProtocolError", "UnsupportedProtocol", "InvalidURL"):  # its text may hold a key
        return _unsendable_error(error, base_url, name)
    return LLMError(
        f"Cannot reach {base_url}: {str(cause) or name}. Is the server running?", error, kind="connection"
    )


_HINTS: dict[ErrorKind, str] = {
    "auth": " Check the API key.",
    "not_found": " Check base_url and the model name.",
    "context_overflow": " The request is longer than the model's context window.",
    "quota": " The account's quota is used up; waiting does not help.",
}


def _status_error(
    error: Exception, status: int, said: object, headers: Headers, base_url: str, model: str
) -> LLMError:
    message, codes = read_error(said)
    kind = classify(status, message, " ".join(codes))
    return LLMError(
        f"{base_url} refused the request for model {model!r} "
        f"with status {status}: {message}{_HINTS.get(kind, '')}",
        error,
        kind=kind,
        status=status,
        retry_after=parse_retry_after(headers),
        said=message,
    )


def parse_retry_after(headers: Headers) -> float | None:
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
    import email.utils  # few servers send a date

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
