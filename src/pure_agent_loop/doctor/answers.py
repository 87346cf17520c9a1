"""Probes of plain responses: form, streaming, system messages, and request fields."""

from __future__ import annotations

import re
from typing import Any

from pure_agent_loop.doctor.listing import context_size, is_listed, models_in, template_caps
from pure_agent_loop.doctor.session import ANSWER_TOKENS, Message, ProbeResponse, ProbeSession
from pure_agent_loop.doctor.values import Verdict
from pure_agent_loop.errors import LLMError
from pure_agent_loop.llm.adapt import TOKEN_LIMITS
from pure_agent_loop.llm.values import TokenUsage

Found = tuple[Verdict, str]
FEW_TOKENS = 5
_SLACK = 3  # tokens; servers differ in how they count the end of an answer
_LIMIT_REACHED = re.compile(r"output limit was reached|max_tokens.{0,40}reached", re.I)
_CODE_WORD = "banana"


def user(text: str) -> list[Message]:
    """Return a history of one question."""
    return [{"role": "user", "content": text}]


async def plain_answer(s: ProbeSession) -> Found:
    """Does the server return a response without streaming?"""
    s.plain = asked = await s.ask(user("Say hello in one short sentence."))
    streamed = "; the server only streams" if s.client.profile.streaming else ""
    reason = asked.response.finish_reason
    if asked.text:
        return "yes", f"finish reason {reason!r}{streamed}"
    if reason == "length":
        return "partly", f"all {ANSWER_TOKENS} tokens went into reasoning; the text is empty{streamed}"
    return "partly", f"the answer is empty (finish reason {reason!r}){streamed}"


async def usage(s: ProbeSession) -> Found:
    """Are tokens counted? Read from the plain response."""
    if s.plain is None:
        return "unknown", "no plain answer arrived"
    return _tokens(s.plain.response.usage)


def _tokens(usage_: TokenUsage | None) -> Found:
    if usage_ is None:
        return "no", "not reported; the tokens are estimated"
    return "yes", f"{usage_.prompt_tokens} input tokens, {usage_.completion_tokens} output tokens"


async def streaming(s: ProbeSession) -> Found:
    """Does the server stream?"""
    s.streamed = asked = await s.ask(user("Count from one to ten in words."), stream=True)
    if s.client.profile.streaming is False:
        return "no", "the server rejects it; answers are not streamed"
    if asked.raw is not None:
        return "no", "the answer was not streamed"
    detail = f"{asked.pieces} pieces, finish reason {asked.response.finish_reason!r}"
    return ("yes" if asked.pieces > 1 else "partly"), detail


async def stream_usage(s: ProbeSession) -> Found:
    """Are tokens counted in streams? Read from the streamed response."""
    if s.streamed is None or s.streamed.raw is not None:
        return "unknown", "no streamed answer arrived"
    verdict, detail = _tokens(s.streamed.response.usage)
    refused = "stream_options" in s.client.profile.refuses
    return verdict, f"{detail}; {'without' if refused else 'requested with'} stream_options"


async def models(s: ProbeSession) -> Found:
    """Is the model in the server's list?"""
    names = models_in(s.listing)
    if not names:
        return "unknown", "the server lists no models"
    if is_listed(s.listing, s.target.model):
        return "yes", f"{len(names)} listed"
    return "partly", f"not {s.target.model}, but {names[0] if len(names) == 1 else f'{len(names)} others'}"


async def context(s: ProbeSession) -> Found:
    """How large is the context window? Reported by the server, not measured."""
    size = context_size(s.listing, s.props, s.target.model)
    return ("unknown", "not reported") if size is None else ("yes", f"{size[0]} tokens, {size[1]}")


async def template(s: ProbeSession) -> Found:
    """What can the chat template do? Reported by llama.cpp."""
    caps = template_caps(s.props)
    if not caps:
        return "unknown", "reported by llama.cpp servers only"
    able = [name.removeprefix("supports_").replace("_", " ") for name, value in caps.items() if value]
    verdict: Verdict = "yes" if len(able) == len(caps) else "partly" if able else "no"
    return verdict, f"supports: {', '.join(able)}" if able else "supports no capability that llama.cpp lists"


async def system_message(s: ProbeSession) -> Found:
    """Is a leading system message accepted and applied?"""
    asked = await s.ask([_order("system"), *user("What is 2 + 2?")])
    moved = s.client.profile.system_role == "user"
    obeyed = _CODE_WORD in asked.text.lower()
    if moved:
        return "no", "the server rejects it; its text is prepended to the question"
    return ("yes", "accepted and applied") if obeyed else ("partly", "accepted, but not obeyed here")


async def developer_role(s: ProbeSession) -> Found:
    """Is the role ``developer`` accepted? The package does not send it by default."""
    with s.trying(system_role=""):
        asked = await s.ask([_order("developer"), *user("What is 2 + 2?")])
        refused = s.client.profile.system_role != ""
    if refused:
        return "no", "rejected; it is not sent"
    obeyed = _CODE_WORD in asked.text.lower()
    return ("yes", "accepted and applied") if obeyed else ("partly", "accepted, but not obeyed here")


def _order(role: str) -> Message:
    return {"role": role, "content": f"Answer every question with the single word {_CODE_WORD.upper()}."}


async def temperature(s: ProbeSession) -> Found:
    """Is ``temperature`` accepted?"""
    if "temperature" not in s.client.profile.refuses:
        await s.ask(user("Say OK."), temperature=0)
    refused = _left_out(s, "temperature")
    s.is_steady = refused is None
    return refused or ("yes", "accepted")


def _left_out(s: ProbeSession, field: str) -> Found | None:
    if field in s.before.refuses:
        return "no", f"not sent, because of the profile {s.before.name!r}"
    if field in s.client.profile.refuses:
        return "no", "the server rejects it; it is not sent"
    return None


async def max_tokens(s: ProbeSession) -> Found:
    """Is the output limit accepted under its usual name, and obeyed?"""
    field, other = TOKEN_LIMITS
    wanted = s.client.profile.output_limit_field
    if wanted == other:
        return "no", f"sent as {other}"
    result = _left_out(s, field) or await _limited(s, field)
    s.limit_ignored = result[0] == "partly"
    now = s.client.profile.output_limit_field
    return ("no", f"sent as {other}") if now == other else _left_out(s, field) or result


async def max_completion_tokens(s: ProbeSession) -> Found:
    """Is the output limit accepted under its newer name? Used if the usual one is not obeyed."""
    usual, field = TOKEN_LIMITS
    if s.before.output_limit_field == usual:
        return "no", f"sent as {usual}, because of the profile {s.before.name!r}"
    with s.trying(output_limit_field="", refuses=[n for n in s.client.profile.refuses if n != field]):
        result = await _limited(s, field)
        learned = s.client.profile
        if learned.output_limit_field or field in learned.refuses:
            return "no", "the server rejects it"
    if result[0] == "yes" and s.limit_ignored:
        s.adopt(output_limit_field=field)
    return result


async def _limited(s: ProbeSession, field: str) -> Found:
    try:
        limit: dict[str, Any] = {field: FEW_TOKENS}
        asked = await s.ask(user("Count from 1 to 50, separated by commas."), **limit)
    except LLMError as error:
        if error.kind == "bad_request" and _LIMIT_REACHED.search(error.message):
            return "yes", "accepted and applied"
        raise
    return _judge_limit(asked)


def _judge_limit(asked: ProbeResponse) -> Found:
    written = asked.response.usage.completion_tokens if asked.response.usage else None
    if asked.response.finish_reason == "length" or (written is not None and written <= FEW_TOKENS + _SLACK):
        return "yes", "accepted and applied"
    return (
        "partly",
        f"accepted, but ignored: {'?' if written is None else written} tokens instead of {FEW_TOKENS}",
    )
