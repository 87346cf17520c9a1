"""What went wrong, for a client: RFC 9457's problem details, and the status of each error of ours."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pure_agent_loop.durable.values import DurableError
from pure_agent_loop.errors import (
    ConfigError,
    PureAgentLoopError,
    SessionLockedError,
    SessionNotFoundError,
)
from pure_agent_loop.support.text import safe_str

UNEXPECTED = "This should not have happened; the log of the server says more."
TITLES = {
    400: "Bad request",
    401: "Not authenticated",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    408: "Too slow",
    409: "In conflict with what is",
    413: "Too large",
    415: "Wrong content type",
    421: "Wrong host",
    422: "Cannot be done as asked",
    429: "Too many requests",
    500: "Failed",
    503: "Not available now",
}


class Problem(PureAgentLoopError):  # noqa: N818 - the name that the format has
    """An answer that is no success.

    Args:
        status: The HTTP status.
        detail: What is wrong and what to do, as a sentence; it names no file and no server.
        headers: Further headers of the answer.
        about: Further keys of its body.
    """

    def __init__(
        self, status: int, detail: str, headers: Mapping[str, str] | None = None, **about: Any
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers, self.about = status, detail, dict(headers or {}), about

    def to_dict(self) -> dict[str, Any]:
        """Its body."""
        title = TITLES.get(self.status, "Failed")
        return {
            "type": "about:blank",
            "title": title,
            "status": self.status,
            "detail": self.detail,
            **self.about,
        }

    def body(self, path: str = "") -> tuple[bytes, str]:
        """Its body and content type, in the form that clients of a path read.

        Args:
            path: The path of the request; OpenAI's clients read theirs below ``/v1``.
        """
        if not path.startswith("/v1/"):
            return json.dumps(self.to_dict()).encode(), "application/problem+json"
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        about = {"message": self.detail, "type": kind, "param": self.about.get("param")}
        return json.dumps({"error": {**about, "code": self.about.get("code")}}).encode(), "application/json"


def not_found(what: str) -> Problem:
    """There is none, or it is not for this person: the two look the same."""
    return Problem(404, f"There is no {what} of that id.")


def no_agent(name: str, agents: Iterable[str], **about: Any) -> Problem:
    """There is no agent of a name; which there are is said."""
    return Problem(404, f"There is no agent {name!r:.80}. There are: {', '.join(agents)}.", **about)


def as_problem(error: BaseException) -> Problem:
    """An error of this package as a problem; anything else is ours, and says nothing of the inside."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, SessionNotFoundError):
        return not_found("session")
    if isinstance(error, SessionLockedError):
        return Problem(409, "The session is in use: another program writes it.")
    if isinstance(error, DurableError):
        return Problem(404 if "There is no" in str(error) else 503, _first_sentence(error))
    if isinstance(error, ConfigError):
        return Problem(422, safe_str(error))
    return Problem(500, UNEXPECTED)


def _first_sentence(error: BaseException) -> str:
    return (
        "There is none of that name." if "There is no" in str(error) else "The database cannot be used now."
    )
