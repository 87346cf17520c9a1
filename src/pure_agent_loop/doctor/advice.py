"""What follows from the findings: how the model is best asked for calls, and the profile as code. Pure."""

from __future__ import annotations

import ast
import re
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import replace

from pure_agent_loop.doctor.values import Finding, Report
from pure_agent_loop.llm.profiles import Profile

_WIDTH = 76


def choose_mode(
    acts: Mapping[str, bool], finding: Callable[[str], Finding | None], *, dropped: bool
) -> tuple[str, str]:
    """The best tool mode and the reason; an empty mode if the model acts in none.

    Args:
        acts: Whether the model acted, by mode, as far as it was tried.
        finding: Finds a finding by its name.
        dropped: The tools of a request do not reach the model.
    """
    if acts.get("native") and not dropped:
        return "native", "The model makes proper tool calls; tool_mode='auto' does the same."
    why = "The tools do not reach the model." if dropped else _why_not_native(finding("tool call"))
    if acts.get("json"):
        return "json", f"{why} It acts when tools are put to it as JSON."
    if acts.get("text"):
        return "text", f"{why} It acts when tools are put to it as text."
    return "", f"{why} It called no tool in any other way either."


def _why_not_native(found: Finding | None) -> str:
    if found is None:
        return "It was not asked for calls."
    if found.detail.startswith("refused"):
        return "The server refuses tools."
    if found.verdict in ("yes", "no", "failed"):
        return "It makes no tool calls of its own."
    return "Its own tool calls are not reliable."


def paste(report: Report) -> str:
    """Python that makes the package know what was learned; empty if it needs no help.

    Args:
        report: The result of an examination.
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
    """A profile as code; one field a line where it is long."""
    code = profile.to_code()
    if len(code) <= _WIDTH - 20:
        return code
    made = ast.parse(code, mode="eval").body
    assert isinstance(made, ast.Call)  # it is ours
    parts = [ast.unparse(each) for each in made.args]
    parts += [f"{each.arg}={ast.unparse(each.value)}" for each in made.keywords]
    lines = "".join(f"{' ' * (indent + 4)}{part},\n" for part in parts)
    return f"Profile(\n{lines}{' ' * indent})"
