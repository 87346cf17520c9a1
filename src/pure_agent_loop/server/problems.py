"""Problem details (RFC 9457) for clients, and the HTTP status of each of this package's errors."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pure_agent_loop.durable.values import DurableError, DurableNotFoundError
from pure_agent_loop.errors import (
    AlreadyAnsweredError,
    ConfigError,
    PureAgentLoopError,
    SessionLockedError,
    SessionNotFoundError,
)
from pure_agent_loop.support.language import LANGUAGES, notice, translated
from pure_agent_loop.support.text import safe_str

UNEXPECTED = notice("library.server_internal")
ALREADY_ANSWERED = "urn:pure-agent-loop:already-answered"  # a problem type
TITLES = {
    400: "Bad request",
    401: "Not authenticated",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    408: "Request timeout",
    409: "Conflict",
    413: "Too large",
    415: "Wrong content type",
    421: "Wrong host",
    422: "Invalid request",
    429: "Too many requests",
    500: "Failed",
    503: "Unavailable",
}

_PROBLEMS: Sequence[tuple[type[Exception], int, str]] = (  # the first match is used
    (SessionNotFoundError, 404, notice("library.server_no_id", kind=notice("library.noun_session"))),
    (SessionLockedError, 409, notice("library.server_session_in_use")),
    (DurableNotFoundError, 404, notice("library.server_not_found")),
    (DurableError, 503, notice("library.server_database_away")),
)


class HttpProblem(PureAgentLoopError):  # noqa: N818 - RFC 9457's term
    """An error response.

    Args:
        detail: What is wrong and what to do, as text or as an exception. Must not reveal file or server
            names.
    """

    def __init__(
        self, status: int, detail: str | Exception, headers: Mapping[str, str] | None = None, **fields: Any
    ) -> None:
        super().__init__(detail if isinstance(detail, str) else safe_str(detail))
        self.status, self.headers, self.fields = status, dict(headers or {}), fields
        self.detail, self._source = str(self), detail

    def _in_language(self, language: str) -> str:
        text = translated(self._source, language)
        return text if isinstance(text, str) else self.detail

    def to_dict(self, language: str) -> dict[str, Any]:
        """Return the body.

        Args:
            language: One of `LANGUAGES`, for the detail if it has a translation.
        """
        title = TITLES.get(self.status, "Failed")
        return {
            "type": "about:blank",
            "title": title,
            "status": self.status,
            "detail": self._in_language(language),
            **self.fields,
        }

    def body(self, path: str, language: str) -> tuple[bytes, str]:
        """Return the body and its content type: OpenAI's error format below ``/v1``, else RFC 9457."""
        if not path.startswith("/v1/"):
            return json.dumps(self.to_dict(language)).encode(), "application/problem+json"
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        error = {"message": self._in_language(language), "type": kind, "param": self.fields.get("param")}
        return json.dumps({"error": {**error, "code": self.fields.get("code")}}).encode(), "application/json"


def language_of(accepted: str) -> str:
    """Return the first of `LANGUAGES` in an ``Accept-Language`` header, else English."""
    names = (name.strip()[:2].lower() for name in accepted.split(","))
    return next((name for name in names if name in LANGUAGES), LANGUAGES[0])


def path_of(scope: Mapping[str, Any]) -> str:
    """Return the path of a request, relative to the application's mount point."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    return path[len(root) :] or "/" if root and f"{path}/".startswith(f"{root.rstrip('/')}/") else path


def not_found(kind: str) -> HttpProblem:
    """Return a 404. Missing and forbidden objects give the same response."""
    return HttpProblem(404, notice("library.server_no_id", kind=notice(f"library.noun_{kind}")))


def no_agent(name: str, agents: Iterable[str], **fields: Any) -> HttpProblem:
    """Return a 404 that lists the agents."""
    detail = notice("library.server_no_agent", name=name, agents=", ".join(agents))
    return HttpProblem(404, detail, **fields)


def as_problem(error: BaseException) -> HttpProblem:
    """Convert an error to a problem. An error from another package becomes a 500 without details."""
    if isinstance(error, HttpProblem):
        return error
    if isinstance(error, AlreadyAnsweredError):
        fields: dict[str, Any] = {
            "call_id": error.call_id,
            "by": error.by,
            "answer": error.answer,
            "answered_at": error.at,
        }
        return HttpProblem(409, error, type=ALREADY_ANSWERED, **fields)
    for kind, status, detail in _PROBLEMS:
        if isinstance(error, kind):
            return HttpProblem(status, detail)
    if isinstance(error, ConfigError):
        return HttpProblem(422, error)
    return HttpProblem(500, UNEXPECTED)
