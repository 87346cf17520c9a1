"""The target, the findings and the report of `examine`; a table and JSON are made from these alone."""

from __future__ import annotations

import ast
import re
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal

from pure_agent_loop.llm.profiles import PLAIN, Profile
from pure_agent_loop.runs.choose import protocol_of, without_protocol
from pure_agent_loop.support.language import notice

SHORTEST_KEY = 8  # a shorter key is not a secret, and may occur inside other words
MAKERS = (
    "anthropic",
    "responses",
    "gemini",
)  # protocols that any server may support, besides chat completions
PROTOCOL_NAMES = {
    "": "chat completions",
    "anthropic": "Messages",
    "responses": "Responses",
    "gemini": "Gemini",
    "bedrock": "Messages through Bedrock",
    "vertex": "Messages through Vertex AI",
}
Verdict = Literal["yes", "no", "partly", "unknown", "failed"]
Found = tuple[Verdict, str]  # verdict of a probe, and details
_WIDTH = 76


@dataclass(frozen=True, slots=True)
class Target:
    """A server to examine.

    Args:
        base_url: Base URL, usually ending in ``/v1``.
        model: Model name; empty if not known yet.
        api_key: The key to send.
        shown: The URL without passwords; empty for `base_url`.
        headers: Extra headers of each request.
        is_embedded: True for the server of the embedded model.
        protocol: ``anthropic``, ``gemini`` or ``responses``; empty for chat completions. A prefix of the
            model's name, such as ``anthropic:``, also sets the protocol.
    """

    base_url: str
    model: str = ""
    api_key: str = field(default="not-needed", repr=False)
    shown: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    is_embedded: bool = False
    protocol: str = ""

    def __post_init__(self) -> None:
        if protocol := protocol_of(self.model):
            object.__setattr__(self, "protocol", protocol)
            object.__setattr__(self, "model", without_protocol(self.model))

    @property
    def full_model(self) -> str:
        """The model as agents name it, with the prefix of its protocol."""
        return f"{self.protocol}:{self.model}" if self.protocol else self.model

    @property
    def address(self) -> str:
        """The URL for display, without passwords."""
        return self.shown or self.base_url

    def cleaned(self, text: str) -> str:
        """Redact the key in a server's text. Call this before truncation, which could leave half a key."""
        text = text.replace(self.base_url, self.address)
        return text.replace(self.api_key, "***") if len(self.api_key) >= SHORTEST_KEY else text


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one probe.

    Args:
        name: Name of the probe, such as ``streaming``.
        verdict: ``failed`` if the probe failed; ``unknown`` if the server does not report the fact, or was
            too slow although it had answered earlier probes.
        detail: Details, for people.
        seconds: Duration in seconds.
    """

    name: str
    verdict: Verdict
    detail: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ServerReport:
    """The result of `examine` for one server.

    Args:
        target: The server, with the examined model.
        findings: Findings in order.
        before: The package's profile for the server.
        profile: The same profile, updated with what was learned.
        tool_mode: The best tool mode: ``native``, ``json`` or ``text``; empty if none works.
        reason: Reason for the tool mode.
        answered: True if any response arrived.
        stopped: True if the check was cancelled.
        unreachable: True if there was no connection, or no response in time.
    """

    target: Target
    findings: tuple[Finding, ...] = ()
    before: Profile = PLAIN
    profile: Profile = PLAIN
    tool_mode: str = ""
    reason: str = ""
    answered: bool = False
    stopped: bool = False
    unreachable: bool = False

    @property
    def can_drive(self) -> bool:
        """True if an agent can use the server."""
        # The embedded client extracts tool calls from plain text, so any response is enough.
        return self.answered and (bool(self.tool_mode) or self.target.is_embedded)

    @property
    def conclusion(self) -> str:
        """One sentence: whether an agent can use the server."""
        if self.can_drive and not self.stopped:
            if self.tool_mode in ("native", "") or self.target.is_embedded:
                return notice("doctor.works")
            return notice("doctor.works_in_mode", mode=self.tool_mode)
        if self.stopped:
            return notice("doctor.stopped")
        if not self.answered:
            return notice("doctor.unreachable") if self.unreachable else notice("doctor.no_answer")
        tried = map(self.finding, ("tool call", "tool_mode json", "tool_mode text"))
        if any(finding is not None and finding.verdict == "unknown" for finding in tried):
            return notice("doctor.tools_unknown")
        return notice("doctor.no_tools")

    @property
    def needs_profile(self) -> bool:
        """True if the learned profile differs from the package's."""
        return self.profile != self.before

    def finding(self, name: str) -> Finding | None:
        """Return a finding by name, or None if the probe did not run."""
        return next((finding for finding in self.findings if finding.name == name), None)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, without the key."""
        return {
            "protocol": PROTOCOL_NAMES[self.target.protocol],
            "base_url": self.target.address,
            "model": self.target.full_model,
            "answered": self.answered,
            "can_drive": self.can_drive,
            "conclusion": str(self.conclusion),
            "stopped": self.stopped,
            "tool_mode": self.tool_mode,
            "reason": self.reason,
            "findings": [asdict(finding) for finding in self.findings],
            "known_profile": self.before.name,
            "needs_profile": self.needs_profile,
            "profile": _changes(self.profile) if self.needs_profile else None,
        }


def _changes(profile: Profile) -> dict[str, Any]:
    """Return the fields of a profile that differ from the defaults."""
    values = {field_.name: getattr(profile, field_.name) for field_ in fields(profile)}
    return {
        name: dict(value) if isinstance(value, Mapping) else value
        for name, value in values.items()
        if name not in ("name", "url", "model") and value != getattr(PLAIN, name)
    }


# -- advice from the findings: the best tool mode, and the profile as code -------------------------------


def choose_mode(
    acts: Mapping[str, bool],
    finding: Callable[[str], Finding | None],
    *,
    dropped: bool,
    rejected: bool = False,
) -> tuple[str, str]:
    """Return the best tool mode and the reason; an empty mode if none works.

    Args:
        acts: For each tool mode that was tried, whether the model could call tools.
        dropped: True if the tools of a request do not reach the model.
        rejected: True if the server rejected a request that had tools.
    """
    if acts.get("native") and not dropped:
        return "native", notice("doctor.native")
    why = notice("doctor.dropped") if dropped else _why_not_native(finding("tool call"), rejected)
    if acts.get("json"):
        return "json", notice("doctor.json_mode", why=why)
    if acts.get("text"):
        return "text", notice("doctor.text_mode", why=why)
    others = (finding(f"tool_mode {mode}") for mode in ("json", "text"))
    if any(other is not None and other.verdict == "unknown" for other in others):
        return "", notice("doctor.other_modes_unknown", why=why)
    return "", notice("doctor.no_mode", why=why)


def _why_not_native(native: Finding | None, rejected: bool) -> str:
    if native is None:
        return notice("doctor.not_tested")
    if rejected:
        return notice("doctor.rejects_tools")
    if native.verdict == "unknown":
        return notice("doctor.slow_for_tools")
    if native.verdict in ("yes", "no", "failed"):
        return notice("doctor.no_native")
    return notice("doctor.unreliable")


def paste(report: ServerReport) -> str:
    """Return Python code that registers the learned profile; empty if not needed.

    Args:
        report: The report that `examine` returned.
    """
    if not report.needs_profile:
        return ""
    host = urllib.parse.urlsplit(report.target.base_url).netloc.rpartition("@")[2]
    model = report.target.model
    bare = replace(report.profile, name=f"{model} at {host}", url="", model="")
    everywhere = replace(bare, url=re.escape(host), model=f"^{re.escape(model)}$")
    return (
        "# before the first agent is made:\n"
        "from pure_agent_loop.llm.profiles import Profile, register\n\n"
        f"register({_code(everywhere)})\n\n"
        "# or for one client:\n"
        "from pure_agent_loop import OpenAIClient\n\n"
        f"client = OpenAIClient(\n    {model!r},\n    base_url={report.target.address!r},\n"
        f"    profile={_code(bare, 4)},\n)\n"
    )


def _code(profile: Profile, indent: int = 0) -> str:
    """Return a profile as code; a long one has one field per line."""
    code = profile.to_code()
    if len(code) <= _WIDTH - 20:
        return code
    call = ast.parse(code, mode="eval").body
    assert isinstance(call, ast.Call)  # the text is the repr of a Profile
    parts = [ast.unparse(argument) for argument in call.args]
    parts += [f"{keyword.arg}={ast.unparse(keyword.value)}" for keyword in call.keywords]
    lines = "".join(f"{' ' * (indent + 4)}{part},\n" for part in parts)
    return f"Profile(\n{lines}{' ' * indent})"
