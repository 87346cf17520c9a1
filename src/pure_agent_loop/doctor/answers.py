"""Probe functions for plain responses: form, streaming, system messages, and request fields."""

from __future__ import annotations

import re
from typing import Any

from pure_agent_loop.doctor.listing import context_size, is_listed, models_in, template_caps
from pure_agent_loop.doctor.session import (
    ANSWER_TOKENS,
    FEW_TOKENS,
    Message,
    ProbeResponse,
    ProbeSession,
    user,
)
from pure_agent_loop.doctor.values import Found
from pure_agent_loop.errors import LLMError
from pure_agent_loop.llm.adapt import TOKEN_LIMITS
from pure_agent_loop.llm.addresses import is_private
from pure_agent_loop.llm.base import CountsTokens, FindsWindow, window_known_to
from pure_agent_loop.support.abilities import as_protocol
from pure_agent_loop.support.language import notice

_SLACK = 3  # tokens tolerated above the limit, because servers differ in counting an answer's end
_LIMIT_REACHED = re.compile(r"output limit was reached|max_tokens.{0,40}reached", re.I)
_CODE_WORD = "banana"


def ordered(role: str, question: str) -> list[Message]:
    """Return a history whose first message has the given role and demands a one-word answer."""
    order = f"Answer every question with the single word {_CODE_WORD.upper()}."
    return [{"role": role, "content": order}, *user(question)]


def plain_answer(s: ProbeSession, answer: ProbeResponse) -> Found:
    """Test whether the server returns a response without streaming."""
    s.plain = answer
    reason = answer.response.finish_reason
    if answer.text:
        detail = notice("doctor.finish", reason=repr(reason))
    elif reason == "length":
        detail = notice("doctor.all_reasoning", tokens=ANSWER_TOKENS)
    else:
        detail = notice("doctor.empty", reason=repr(reason))
    if s.client.profile.streaming:
        detail = notice("doctor.and", first=detail, second=notice("doctor.only_streams"))
    return "yes" if answer.text else "partly", detail


async def usage(s: ProbeSession) -> Found:
    """Report whether the plain response included a token count."""
    return ("unknown", notice("doctor.no_plain_answer")) if s.plain is None else _tokens(s.plain)


def _tokens(answer: ProbeResponse) -> Found:
    counts = answer.response.usage
    if counts is None:
        return "no", notice("doctor.estimated")
    return "yes", notice("doctor.tokens", sent=counts.prompt_tokens, written=counts.completion_tokens)


def streaming(s: ProbeSession, answer: ProbeResponse) -> Found:
    """Test whether the server streams a response."""
    s.streamed = answer
    if s.client.profile.streaming is False:
        return "no", notice("doctor.not_streamed")
    if answer.raw is not None:
        return "no", notice("doctor.in_one_piece")
    detail = notice("doctor.pieces", pieces=answer.pieces, reason=repr(answer.response.finish_reason))
    return "yes" if answer.pieces > 1 else "partly", detail


async def stream_usage(s: ProbeSession) -> Found:
    """Report whether the streamed response included a token count."""
    if s.streamed is None or s.streamed.raw is not None:
        return "unknown", notice("doctor.no_stream")
    verdict, detail = _tokens(s.streamed)
    if s.target.protocol:
        return verdict, detail
    refused = "stream_options" in s.client.profile.refuses
    second = notice("doctor.without_options") if refused else notice("doctor.with_options")
    return verdict, notice("doctor.and", first=detail, second=second)


async def models(s: ProbeSession) -> Found:
    """Report whether the server lists the model."""
    names = models_in(s.listing)
    if not names:
        return "unknown", notice("doctor.no_list")
    if is_listed(s.listing, s.target.model):
        return "yes", notice("doctor.listed", count=len(names))
    if len(names) > 1:
        return "partly", notice("doctor.others", model=s.target.model, others=len(names))
    # A server with one model, such as llama.cpp's, serves it under any name.
    if is_private(s.target.base_url):
        return "unknown", notice("doctor.only_other", model=s.target.model, other=names[0])
    return "partly", notice("doctor.one_other", model=s.target.model, other=names[0])


async def context(s: ProbeSession) -> Found:
    """Report the size of the context window as the server states it; the size is not measured."""
    size = context_size(s.listing, s.props, s.target.model)
    if size is not None:
        return "yes", notice("doctor.size", size=size[0], source=size[1])
    if s.target.protocol:
        finder = as_protocol(s.client, FindsWindow)
        window = window_known_to(s.client) if finder is None else await s.within(finder.find_context_window())
        if window is not None:
            return "yes", notice("doctor.client_size", size=window)
    return "unknown", notice("doctor.not_reported")


async def template(s: ProbeSession) -> Found:
    """Report the capabilities of the chat template; only llama.cpp lists them."""
    caps = template_caps(s.props)
    if not caps:
        return "unknown", notice("doctor.llama_only")
    able = [name.removeprefix("supports_").replace("_", " ") for name, value in caps.items() if value]
    if not able:
        return "no", notice("doctor.supports_none")
    return "yes" if len(able) == len(caps) else "partly", notice("doctor.supports", able=", ".join(able))


def system_message(s: ProbeSession, answer: ProbeResponse) -> Found:
    """Test whether a leading system message is accepted and followed."""
    return ("no", notice("doctor.prepended")) if s.client.profile.system_role == "user" else _obeyed(answer)


def _obeyed(answer: ProbeResponse) -> Found:
    if _CODE_WORD in answer.text.lower():
        return "yes", notice("doctor.applied")
    return "partly", notice("doctor.ignored_here")


async def developer_role(s: ProbeSession) -> Found:
    """Test whether the role ``developer`` is accepted. The package does not send this role by default."""
    with s.trying(system_role=""):
        answer = await s.ask(ordered("developer", "What is 2 + 2?"))
        if s.client.profile.system_role != "":
            return "no", notice("doctor.not_sent")
    return _obeyed(answer)


async def prompt_cache(s: ProbeSession) -> Found:
    """Test whether a repeated request reads tokens from a cache."""
    for _ in range(2):
        answer = await s.ask(ordered("system", "What is 3 + 3?"), max_tokens=FEW_TOKENS)
    counts = answer.response.usage
    if counts is None or counts.cached_tokens is None:
        return "unknown", notice("doctor.cache_unreported")
    if counts.cached_tokens:
        return "yes", notice("doctor.cache_read", cached=counts.cached_tokens, sent=counts.prompt_tokens)
    return "partly", notice("doctor.cache_none", sent=counts.prompt_tokens)


async def token_count(s: ProbeSession) -> Found:
    """Test whether the server can count the tokens of a request without generating a response."""
    counter = as_protocol(s.client, CountsTokens)
    if counter is None:
        return "unknown", notice("doctor.counts_none")
    tokens = await s.within(counter.count_tokens(user("Say hello.")))
    return "yes", notice("doctor.counted", tokens=tokens)


async def temperature(s: ProbeSession) -> Found:
    """Test whether ``temperature`` is accepted."""
    if "temperature" not in s.client.profile.refuses:
        await s.ask(user("Say OK."), temperature=0)
    refused = _left_out(s, "temperature")
    s.is_steady = refused is None
    return refused or ("yes", notice("doctor.accepted"))


def _left_out(s: ProbeSession, field: str) -> Found | None:
    if field in s.before.refuses:
        return "no", notice("doctor.profile_omits", name=repr(s.before.name))
    return ("no", notice("doctor.server_rejects_field")) if field in s.client.profile.refuses else None


async def max_tokens(s: ProbeSession) -> Found:
    """Test whether the output limit is accepted under its usual name, and obeyed."""
    field, other = TOKEN_LIMITS
    if s.client.profile.output_limit_field != other:
        result = _left_out(s, field) or await _limited(s, field)
        s.limit_ignored = result[0] == "partly"
        if s.client.profile.output_limit_field != other:
            return _left_out(s, field) or result
    return "no", notice("doctor.sent_as", other=other)


async def max_completion_tokens(s: ProbeSession) -> Found:
    """Test whether the output limit is accepted under its newer name, the fallback for the usual one."""
    usual, field = TOKEN_LIMITS
    if s.before.output_limit_field == usual:
        return "no", notice("doctor.profile_sends_as", usual=usual, name=repr(s.before.name))
    with s.trying(output_limit_field="", refuses=[n for n in s.client.profile.refuses if n != field]):
        result = await _limited(s, field)
        learned = s.client.profile
        if learned.output_limit_field or field in learned.refuses:
            return "no", notice("doctor.server_rejects")
    if result[0] == "yes" and s.limit_ignored:
        s.adopt(output_limit_field=field)
    return result


async def _limited(s: ProbeSession, field: str) -> Found:
    try:
        limit: dict[str, Any] = {field: FEW_TOKENS}
        answer = await s.ask(user("Count from 1 to 50, separated by commas."), **limit)
    except LLMError as error:
        if error.kind == "bad_request" and _LIMIT_REACHED.search(error.message):
            return "yes", notice("doctor.applied")
        raise
    written = answer.response.usage.completion_tokens if answer.response.usage else None
    if answer.response.finish_reason == "length" or (written is not None and written <= FEW_TOKENS + _SLACK):
        return "yes", notice("doctor.applied")
    count = "?" if written is None else written
    return "partly", notice("doctor.limit_ignored", written=count, limit=FEW_TOKENS)
