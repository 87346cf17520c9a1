"""What is examined, and what comes out. Frozen; the table and the JSON are made from these alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from pure_agent_loop.llm.profiles import PLAIN, Profile

SHORTEST_KEY = 8  # what is shorter is no secret, and may be a part of other words
Verdict = Literal["yes", "no", "partly", "unknown", "failed"]


@dataclass(frozen=True, slots=True)
class Target:
    """A server to examine.

    Args:
        base_url: Its address, usually ending in ``/v1``.
        model: The model's name there; empty if it is not known yet.
        api_key: The key to send.
        shown: The address without passwords; `base_url` if empty.
        headers: Further headers of each request.
        is_embedded: It is the server under the package's own embedded model.
    """

    base_url: str
    model: str = ""
    api_key: str = field(default="not-needed", repr=False)
    shown: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    is_embedded: bool = False

    @property
    def address(self) -> str:
        """The address, fit to be shown."""
        return self.shown or self.base_url

    def cleaned(self, text: str) -> str:
        """A server's words without the key. Done before they are cut, because half a key would be shown."""
        text = text.replace(self.base_url, self.address)
        return text.replace(self.api_key, "***") if len(self.api_key) >= SHORTEST_KEY else text


@dataclass(frozen=True, slots=True)
class Finding:
    """The answer to one question about a server.

    Args:
        name: What was asked, such as ``streaming``.
        verdict: ``failed`` means that nothing was found out; ``unknown`` that nobody says.
        detail: More about it, for people.
        seconds: How long it took.
    """

    name: str
    verdict: Verdict
    detail: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Report:
    """All that was found out about a server.

    Args:
        target: The server, with the model that was asked.
        findings: In the order they were made.
        before: The profile that the package has for it.
        profile: The profile after what was learned.
        tool_mode: The mode in which the model can act best: ``native``, ``json`` or ``text``; empty if none.
        reason: Why that one.
        answered: An answer came at all.
        stopped: The examination was cancelled before its end.
    """

    target: Target
    findings: tuple[Finding, ...] = ()
    before: Profile = PLAIN
    profile: Profile = PLAIN
    tool_mode: str = ""
    reason: str = ""
    answered: bool = False
    stopped: bool = False

    @property
    def can_drive(self) -> bool:
        """True if an agent can work with it."""
        # The embedded client makes calls of plain answers, so an answer is all it needs.
        return self.answered and (bool(self.tool_mode) or self.target.is_embedded)

    @property
    def needs_profile(self) -> bool:
        """True if something was learned that the package does not know."""
        return self.profile != self.before

    def finding(self, name: str) -> Finding | None:
        """The finding of that name, if that question was asked."""
        return next((each for each in self.findings if each.name == name), None)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form. The key is not in it."""
        return {
            "base_url": self.target.address,
            "model": self.target.model,
            "answered": self.answered,
            "can_drive": self.can_drive,
            "stopped": self.stopped,
            "tool_mode": self.tool_mode,
            "reason": self.reason,
            "findings": [asdict(each) for each in self.findings],
            "known_profile": self.before.name,
            "needs_profile": self.needs_profile,
            "profile": _changes(self.profile) if self.needs_profile else None,
        }


def _changes(profile: Profile) -> dict[str, Any]:
    """The fields of a profile that are not as for any server."""
    values = {each.name: getattr(profile, each.name) for each in fields(profile)}
    return {
        name: dict(value) if isinstance(value, Mapping) else value
        for name, value in values.items()
        if name not in ("name", "url", "model") and value != getattr(PLAIN, name)
    }
