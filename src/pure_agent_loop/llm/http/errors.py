"""Translation of errors of the SDK and of HTTP libraries to `LLMError`."""

from __future__ import annotations

import asyncio
import json
import math
import sys
import time
from collections.abc import Mapping
from datetime import timezone
from typing import Any

from pure_agent_loop.errors import ErrorKind, LLMError
from pure_agent_loop.llm.addresses import proxy_for
from pure_agent_loop.llm.http import Headers
from pure_agent_loop.llm.wire import classify, read_error
from pure_agent_loop.support.text import safe_str

TRANSPORT_PACKAGES = ("httpx", "httpx2", "httpcore", "httpcore2", "h11", "anyio", "ssl", "aiohttp")


class UnsendableError(Exception):
    """A request that cannot be expressed in HTTP. Holds only the error's type: its text may hold a key."""


class UnansweredError(Exception):
    """A failure before the response began; see its cause."""


class RefusedError(Exception):
    """A response with an error status.

    Args:
        content: The body. `body` is the value of ``error`` in JSON, else the whole text.
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
    if proxy := proxy_for(base_url):
        base_url = f"{base_url} (through the proxy {proxy})"
    if isinstance(error, RefusedError):
        details = error.body or f"Error code: {error.status}"
        return _status_error(error, error.status, details, error.headers, base_url, model)
    if isinstance(error, UnsendableError):
        return _unsendable_error(error, base_url, str(error))
    if isinstance(error, UnansweredError):
        return _unsent_error(error, base_url)
    if "openai" in sys.modules:  # else the SDK cannot have raised it
        translated = _translate_sdk_error(error, base_url, model)
        if translated is not None:
            return translated
    if isinstance(error, (TimeoutError, asyncio.TimeoutError)):
        return _timeout_error(error, base_url)
    package = type(error).__module__.split(".")[0]
    if isinstance(error, OSError) or package in TRANSPORT_PACKAGES:
        kind: ErrorKind = "timeout" if "Timeout" in type(error).__name__ else "connection"
        return LLMError(
            f"The connection to {base_url} failed: {_reason(error)}",
            error,
            kind=kind,
        )
    return error


def _translate_sdk_error(error: Exception, base_url: str, model: str) -> LLMError | None:
    import openai

    if isinstance(error, openai.APIStatusError):
        details = error.body or error.message
        return _status_error(error, error.status_code, details, error.response.headers, base_url, model)
    if isinstance(error, openai.APITimeoutError):
        return _timeout_error(error, base_url)
    if isinstance(error, openai.APIConnectionError):
        return _unsent_error(error, base_url)
    return LLMError(str(error), error) if isinstance(error, openai.OpenAIError) else None


def _reason(error: BaseException) -> str:
    return safe_str(error) if str(error) else type(error).__name__


def _timeout_error(error: Exception, base_url: str) -> LLMError:
    return LLMError(f"The request to {base_url} timed out.", error, kind="timeout")


def _unsendable_error(error: Exception, base_url: str, name: str) -> LLMError:
    return LLMError(f"The request to {base_url} cannot be sent: {name}.", error, kind="bad_request")


def _unsent_error(error: Exception, base_url: str) -> LLMError:
    cause = error.__cause__ or error
    name = type(cause).__name__
    if name in ("LocalProtocolError", "UnsupportedProtocol", "InvalidURL"):  # the error's text may hold a key
        return _unsendable_error(error, base_url, name)
    return LLMError(
        f"Cannot reach {base_url}: {_reason(cause)}. Is the server running?",
        error,
        kind="connection",
    )


_HINTS: dict[ErrorKind, str] = {
    "auth": " Check the API key.",
    "not_found": " Check base_url and the model name.",
    "context_overflow": " The request is longer than the model's context window.",
    "quota": " The account's quota is used up; waiting will not help.",
}


def _status_error(
    error: Exception, status: int, details: object, headers: Headers, base_url: str, model: str
) -> LLMError:
    message, codes = read_error(details)
    kind = classify(status, message, " ".join(codes))
    return LLMError(
        f"{base_url} rejected the request for model {model!r} "
        f"with status {status}: {message}{_HINTS.get(kind, '')}",
        error,
        kind=kind,
        status=status,
        retry_after=parse_retry_after(headers),
        said=message,
    )


def parse_retry_after(headers: Headers) -> float | None:
    """Return the seconds in ``Retry-After-Ms`` or ``Retry-After``, which may be an HTTP date.

    None if it is missing, not a number, negative, infinite or a past date (clocks differ).

    Source: https://www.rfc-editor.org/rfc/rfc9110#field.retry-after
    """
    text = headers.get("retry-after", "")
    seconds = _number(headers.get("retry-after-ms", ""))
    if seconds is not None:
        return seconds / 1000
    seconds = _number(text)
    if seconds is not None:
        return seconds
    import email.utils  # rarely needed

    try:
        date = email.utils.parsedate_to_datetime(text)
        date = date if date.tzinfo else date.replace(tzinfo=timezone.utc)
        return _wait(date.timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        return None


def _number(text: str) -> float | None:
    try:
        return _wait(float(text))
    except ValueError:
        return None


def _wait(seconds: float) -> float | None:
    return seconds if 0 <= seconds < math.inf else None
