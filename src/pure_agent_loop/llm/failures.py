"""Failures from servers, the SDK and HTTP libraries, and the `LLMError` that each becomes. Pure: no I/O."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from pure_agent_loop.errors import ErrorKind, LLMError
from pure_agent_loop.llm.addresses import proxy_for
from pure_agent_loop.llm.waits import Headers, fields_of, named_wait, wait_in_body
from pure_agent_loop.support.lazy import lazy_pattern
from pure_agent_loop.support.parsing import json_or_text
from pure_agent_loop.support.secrets.redaction import Redactor
from pure_agent_loop.support.text import as_sentence, safe_str, shorten

MESSAGE_CHARS = 500
# Fields of Google's ``QuotaFailure`` and ``ErrorInfo``; see `fields_of`.
_QUOTA_IDS = ("quotaid", "quota-limit")
TRANSPORT_PACKAGES = ("httpx", "httpx2", "httpcore", "httpcore2", "h11", "anyio", "ssl", "aiohttp")
_HINTS: dict[ErrorKind, str] = {
    "auth": " Check the API key.",
    "not_found": " Check base_url and the model name.",
    "context_overflow": " The request is longer than the model's context window.",
    "quota": " The account's quota is used up; waiting will not help.",
}
_QUOTA = lazy_pattern(
    r"insufficient[ _](quota|balance|credit|fund)|exceeded your current quota|billing[ _]hard[ _]limit"
    r"|credit balance is too low|quota[ _]exhausted"
)
# Errors for a request longer than the model's window, as opposed to a token limit per minute.
_OVERFLOW = lazy_pattern(
    r"context[ _]length[ _]exceeded|exceed_context_size|model_max_prompt_tokens_exceeded|context window"
    r"|(?:maximum|available|model'?s?|than the) context (?:length|size)|maximum prompt length"
    r"|prompt is too long|input is too long|input length.{0,40}exceed|too large for model with \d+"
    r"|(?:input )?token count.{0,60}exceeds?|exceeded model token limit|prompt token count.{0,40}exceeds"
    r"|tokens to keep from the initial prompt|reduce the length of the (?:messages|prompt)"
    r"|too many (?:input )?tokens|prompt (?:is )?too long|request too large for model"
    r"|exceeds the limit of \d+ tokens"
)
_STATUS = lazy_pattern("[1-5][0-9][0-9]")
_DAILY = lazy_pattern(r"per[ _-]?day")
_SHORT = lazy_pattern(r"per[ _-]?(second|minute|hour)")
_RATE = lazy_pattern(r"rate[ _-]?limit|too many requests|tokens per minute|requests per minute|throttl")
_BUSY = lazy_pattern(r"overload|server_error|internal|unavailable|time[ d-]*out|busy|capacity|try again")


class UnsendableError(Exception):
    """A request that cannot be expressed in HTTP.

    Holds only the type of the original error, whose text may contain a key.
    """


class UnansweredError(Exception):
    """A failure before the response began; see ``__cause__``."""


class RedirectedError(Exception):
    """A redirect that is not followed; the text has its target or the number of redirects."""


class RefusedError(Exception):
    """A response with an error status.

    Args:
        content: The response's body. `document` is the JSON in it, or its text if it is not JSON. `body` is
            the value of ``error`` in that JSON, or the same as `document` if there is none.
    """

    def __init__(self, status: int, content: bytes, headers: Headers) -> None:
        super().__init__(f"status {status}")
        self.status, self.headers = status, headers
        text = content.decode("utf-8", "replace").strip()
        data = json_or_text(text)
        self.document: Any = data
        self.body: Any = data.get("error", data) if isinstance(data, Mapping) else data


def redacted_error(error: Exception, redactor: Redactor, base_url: str, model: str) -> Exception:
    """Map a request error as `translate_error` does, and redact secrets that a server repeated."""
    redactor.clean_error(error)
    if isinstance(error, LLMError):
        return error
    translated = translate_error(error, base_url, model)
    if translated is not error:
        redactor.clean_error(translated)
        translated.__cause__ = error
    return translated


def translate_error(error: Exception, base_url: str, model: str) -> Exception:
    """Map an error from the SDK or an HTTP library to `LLMError`; return others unchanged."""
    if proxy := proxy_for(base_url):
        base_url = f"{base_url} (through the proxy {proxy})"
    if isinstance(error, RefusedError):
        details = error.body or f"Error code: {error.status}"
        return _status_error(error, error.status, details, error.headers, base_url, model)
    if isinstance(error, RedirectedError):
        return LLMError(f"{base_url} redirects {error}", error, kind="bad_request")
    if isinstance(error, UnsendableError):
        return _unsendable_error(error, base_url, str(error))
    if isinstance(error, UnansweredError):
        return _unsent_error(error, base_url)
    if "openai" in sys.modules:  # if the SDK is not imported, it cannot have raised the error
        translated = _translate_sdk_error(error, base_url, model)
        if translated is not None:
            return translated
    if isinstance(error, (TimeoutError, asyncio.TimeoutError)):
        return _timeout_error(error, base_url)
    package = type(error).__module__.split(".")[0]
    if isinstance(error, OSError) or package in TRANSPORT_PACKAGES:
        kind: ErrorKind = "timeout" if "Timeout" in type(error).__name__ else "connection"
        reason = _reason(error)
        return LLMError(f"The connection to {base_url} failed: {reason}", error, kind=kind, said=reason)
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
    """Return why a connection failed, in the operating system's words if it gives a reason."""
    cause: BaseException | None = error
    while cause is not None:
        inner = getattr(cause, "os_error", cause)
        if isinstance(inner, ConnectionError) and inner.errno:
            return os.strerror(inner.errno)
        cause = cause.__cause__ or cause.__context__
    return safe_str(error) if str(error) else type(error).__name__


def _with_hint(text: str, hint: str) -> str:
    """Return the text followed by a hint, if any, with a full stop between them."""
    return f"{as_sentence(text)}{hint}" if hint else text


def _timeout_error(error: Exception, base_url: str) -> LLMError:
    return LLMError(f"The request to {base_url} timed out.", error, kind="timeout")


def _unsendable_error(error: Exception, base_url: str, name: str) -> LLMError:
    return LLMError(f"The request to {base_url} cannot be sent: {name}.", error, kind="bad_request")


def _unsent_error(error: Exception, base_url: str) -> LLMError:
    cause = error.__cause__ or error
    name = type(cause).__name__
    if name in ("LocalProtocolError", "UnsupportedProtocol", "InvalidURL"):  # the error's text may hold a key
        return _unsendable_error(error, base_url, name)
    reason = _reason(cause)
    text = f"Cannot reach {base_url}: {_with_hint(reason, ' Is the server running?')}"
    return LLMError(text, error, kind="connection", said=reason)


def _status_error(
    error: Exception, status: int, details: object, headers: Headers, base_url: str, model: str
) -> LLMError:
    message, kind, wait = _read(details, status, headers)
    return LLMError(
        f"{base_url} rejected the request {f'for model {model!r} ' if model else ''}"
        f"with status {status}: {_with_hint(message, _HINTS.get(kind, ''))}",
        error,
        kind=kind,
        status=status,
        retry_after=wait,
        said=message,
    )


# -- what a server says in place of a response -----------------------------------------------------------


def error_from_body(error: object, statuses: Mapping[str, int] = MappingProxyType({})) -> LLMError:
    """Convert an error object sent in place of a response (with status 200, or inside a stream).

    Args:
        statuses: HTTP status of each code that is not a status itself.
    """
    codes = read_error(error)[1]
    numbers = (statuses.get(code) or (int(code) if _STATUS.fullmatch(code) else None) for code in codes)
    status = next(filter(None, numbers), None)
    message, kind, wait = _read(error, status, {})
    text = f"The server reported an error: {message}"
    return LLMError(text, kind=kind, status=status, retry_after=wait, said=message)


def _read(details: object, status: int | None, headers: Headers) -> tuple[str, ErrorKind, float | None]:
    """Return an error's message, its kind, and the wait in seconds that the response asks for."""
    message, codes = read_error(details)
    kind = classify(status, message, " ".join(codes), details)
    return message, kind, named_wait(headers, details, is_rate_limit=kind == "rate_limit")


def read_error(error: object) -> tuple[str, list[str]]:
    """Return the message and the codes of an error, in any form that servers use."""
    while isinstance(error, list) and error:
        error = error[0]
    if isinstance(error, Mapping) and isinstance(error.get("error"), Mapping):
        error = error["error"]
    if not isinstance(error, Mapping):
        is_code = isinstance(error, int) and not isinstance(error, bool)
        return shorten(safe_str(error), MESSAGE_CHARS), [safe_str(error)[:100]] if is_code else []
    message = safe_str(error.get("message") or error.get("detail") or error)
    field = error.get("param")
    if isinstance(field, str) and field and field not in message:
        message = f"{message} (field: {field[:100]})"
    codes = [safe_str(error[key])[:100] for key in ("code", "status", "type") if error.get(key)]
    codes += [text[:100] for name, text in fields_of(error.get("details")) if name in _QUOTA_IDS]
    return shorten(message, MESSAGE_CHARS), codes


def classify(status: int | None, message: str, code: str = "", details: object = None) -> ErrorKind:
    """Classify an error by its HTTP status, message and codes.

    Args:
        code: Codes and quota ids. Google's ids name the period of a quota; if it is a day, the quota counts
            as used up.
        details: The whole error. If it names a wait, the account still has credit.
    """
    words, codes = f"{code} {message}".lower(), code.lower()
    if status in (None, 429) and _DAILY.search(codes):
        return "quota"
    is_quota = (status is None or 400 <= status < 500) and _QUOTA.search(words) and not _SHORT.search(codes)
    if is_quota and wait_in_body(details or message) is None:
        return "quota"
    if status != 429 and _OVERFLOW.search(words) and not _RATE.search(words):
        return "context_overflow"
    if status is None or status < 400:
        return "rate_limit" if _RATE.search(words) else "overloaded" if _BUSY.search(words) else "unknown"
    if status == 429:
        return "rate_limit"
    if status == 413:
        return "context_overflow"
    if status in (408, 409, 424, 425) or status >= 500:
        return "overloaded"
    if "tool_use_failed" in words:  # Groq: the model wrote an invalid call; another attempt may be valid
        return "incomplete"
    kinds: dict[int, ErrorKind] = {401: "auth", 403: "auth", 404: "not_found", 402: "quota"}
    return kinds.get(status, "bad_request")
