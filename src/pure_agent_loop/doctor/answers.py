"""Probes of plain answers: their form, streaming, system messages, and the fields of a request."""

from __future__ import annotations

import re
from typing import Any

from pure_agent_loop.doctor.listing import context_size, is_listed, models_in, template_caps
from pure_agent_loop.doctor.session import ANSWER_TOKENS, Asked, Message, Session
from pure_agent_loop.doctor.values import Verdict
from pure_agent_loop.errors import LLMError
from pure_agent_loop.llm.adapt import TOKEN_LIMITS
from pure_agent_loop.llm.values import TokenUsage

Found = tuple[Verdict, str]
FEW_TOKENS = 5
_SLACK = 3  # servers count the end of an answer in different ways
_LIMIT_REACHED = re.compile(r"output limit was reached|max_tokens.{0,40}reached", re.I)
_CODE_WORD = "banana"


def user(text: str) -> list[Message]:
    """A history of one question."""
    return [{"role": "user", "content": text}]


async def plain_answer(s: Session) -> Found:
    """Does an answer come at all, in one piece?"""
    s.plain = asked = await s.ask(user("Say hello in one short sentence."))
    streamed = "; only streamed answers are given" if s.client.profile.streaming else ""
    reason = asked.response.finish_reason
    if asked.text:
        return "yes", f"finish reason {reason!r}{streamed}"
    if reason == "length":
        return "partly", f"all {ANSWER_TOKENS} tokens went into thinking; no text came{streamed}"
    return "partly", f"it is empty (finish reason {reason!r}){streamed}"


async def usage(s: Session) -> Found:
    """Are tokens counted? Taken from the plain answer."""
    if s.plain is None:
        return "unknown", "no plain answer came"
    return _tokens(s.plain.response.usage)


def _tokens(found: TokenUsage | None) -> Found:
    if found is None:
        return "no", "not reported; the tokens are estimated"
    return "yes", f"{found.prompt_tokens} read, {found.completion_tokens} written"


async def streaming(s: Session) -> Found:
    """Does an answer come while it is written?"""
    s.streamed = asked = await s.ask(user("Count from one to ten in words."), stream=True)
    if s.client.profile.streaming is False:
        return "no", "the server refuses it; answers come in one piece"
    if asked.raw is not None:
        return "no", "the answer came in one piece all the same"
    detail = f"{asked.pieces} pieces, finish reason {asked.response.finish_reason!r}"
    return ("yes" if asked.pieces > 1 else "partly"), detail


async def stream_usage(s: Session) -> Found:
    """Are tokens counted in streams? Taken from the streamed answer."""
    if s.streamed is None or s.streamed.raw is not None:
        return "unknown", "no streamed answer came"
    verdict, detail = _tokens(s.streamed.response.usage)
    refused = "stream_options" in s.client.profile.refuses
    return verdict, f"{detail}; {'without' if refused else 'asked for with'} stream_options"


async def models(s: Session) -> Found:
    """Is the model in the server's list? Taken from the list."""
    names = models_in(s.listing)
    if not names:
        return "unknown", "the server names none"
    if is_listed(s.listing, s.target.model):
        return "yes", f"{len(names)} listed"
    return "partly", f"not {s.target.model}, but {names[0] if len(names) == 1 else f'{len(names)} others'}"


async def context(s: Session) -> Found:
    """How much does the model read? Taken from what the server says; it is not tried out."""
    found = context_size(s.listing, s.props, s.target.model)
    return (
        ("unknown", "the server does not say") if found is None else ("yes", f"{found[0]} tokens, {found[1]}")
    )


async def template(s: Session) -> Found:
    """What can the chat template do? Taken from what llama.cpp says."""
    caps = template_caps(s.props)
    if not caps:
        return "unknown", "only llama.cpp servers say"
    able = [name.removeprefix("supports_").replace("_", " ") for name, value in caps.items() if value]
    verdict: Verdict = "yes" if len(able) == len(caps) else "partly" if able else "no"
    return verdict, f"it has: {', '.join(able)}" if able else "it has nothing of what llama.cpp lists"


async def system_message(s: Session) -> Found:
    """Is a leading system message accepted and obeyed?"""
    asked = await s.ask([_order("system"), *user("What is 2 + 2?")])
    moved = s.client.profile.system_role == "user"
    obeyed = _CODE_WORD in asked.text.lower()
    if moved:
        return "no", "the server refuses it; its text goes in front of the question"
    return ("yes", "accepted and obeyed") if obeyed else ("partly", "accepted, but not obeyed here")


async def developer_role(s: Session) -> Found:
    """Is the role ``developer`` accepted? The package does not send it by itself."""
    with s.trying(system_role=""):
        asked = await s.ask([_order("developer"), *user("What is 2 + 2?")])
        refused = s.client.profile.system_role != ""
    if refused:
        return "no", "refused; it is not sent"
    obeyed = _CODE_WORD in asked.text.lower()
    return ("yes", "accepted and obeyed") if obeyed else ("partly", "accepted, but not obeyed here")


def _order(role: str) -> Message:
    return {"role": role, "content": f"Answer every question with the single word {_CODE_WORD.upper()}."}


async def temperature(s: Session) -> Found:
    """Is ``temperature`` accepted?"""
    if "temperature" not in s.client.profile.refuses:
        await s.ask(user("Say OK."), temperature=0)
    refused = _left_out(s, "temperature")
    s.is_steady = refused is None
    return refused or ("yes", "accepted")


def _left_out(s: Session, field: str) -> Found | None:
    if field in s.before.refuses:
        return "no", f"left out, as the profile {s.before.name!r} says"
    if field in s.client.profile.refuses:
        return "no", "the server refuses it; it is left out"
    return None


async def max_tokens(s: Session) -> Found:
    """Is the output limit accepted under its usual name, and obeyed?"""
    field, other = TOKEN_LIMITS
    wanted = s.client.profile.output_limit_field
    if wanted == other:
        return "no", f"it is sent as {other}"
    found = _left_out(s, field) or await _limited(s, field)
    s.limit_ignored = found[0] == "partly"
    now = s.client.profile.output_limit_field
    return ("no", f"it is sent as {other}") if now == other else _left_out(s, field) or found


async def max_completion_tokens(s: Session) -> Found:
    """Is the output limit accepted under its newer name? Used if the usual one is not obeyed."""
    usual, field = TOKEN_LIMITS
    if s.before.output_limit_field == usual:
        return "no", f"it is sent as {usual}, as the profile {s.before.name!r} says"
    with s.trying(output_limit_field="", refuses=[n for n in s.client.profile.refuses if n != field]):
        found = await _limited(s, field)
        learned = s.client.profile
        if learned.output_limit_field or field in learned.refuses:
            return "no", "the server refuses it"
    if found[0] == "yes" and s.limit_ignored:
        s.adopt(output_limit_field=field)
    return found


async def _limited(s: Session, field: str) -> Found:
    try:
        limit: dict[str, Any] = {field: FEW_TOKENS}
        asked = await s.ask(user("Count from 1 to 50, separated by commas."), **limit)
    except LLMError as error:
        if error.kind == "bad_request" and _LIMIT_REACHED.search(error.message):
            return "yes", "accepted and obeyed"
        raise
    return _judge_limit(asked)


def _judge_limit(asked: Asked) -> Found:
    written = asked.response.usage.completion_tokens if asked.response.usage else None
    if asked.response.finish_reason == "length" or (written is not None and written <= FEW_TOKENS + _SLACK):
        return "yes", "accepted and obeyed"
    return (
        "partly",
        f"accepted, but not obeyed: {'?' if written is None else written} tokens for {FEW_TOKENS}",
    )
