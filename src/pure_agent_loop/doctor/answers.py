"""Probes of plain responses: form, streaming, system messages, and request fields."""

from __future__ import annotations

import re
from typing import Any

from pure_agent_loop.doctor.listing import context_size, is_listed, models_in, template_caps
from pure_agent_loop.doctor.session import ANSWER_TOKENS, Message, ProbeResponse, ProbeSession
from pure_agent_loop.doctor.values import Verdict
from pure_agent_loop.errors import LLMError
from pure_agent_loop.llm.adapt import TOKEN_LIMITS
from pure_agent_loop.llm.addresses import is_private
from pure_agent_loop.llm.base import CountsTokens, FindsWindow, window_known_to
from pure_agent_loop.llm.values import TokenUsage
from pure_agent_loop.support.abilities import as_protocol
from pure_agent_loop.support.language import notice

Found = tuple[Verdict, str]
FEW_TOKENS = 16  # the least that OpenAI accepts for Responses
_SLACK = 3  # tokens; servers differ in how they count the end of an answer
_LIMIT_REACHED = re.compile(r"output limit was reached|max_tokens.{0,40}reached", re.I)
_CODE_WORD = "banana"


def user(text: str) -> list[Message]:
    """Return a history of one question."""
    return [{"role": "user", "content": text}]


async def plain_answer(s: ProbeSession) -> Found:
    """Does the server return a response without streaming?"""
    s.plain = asked = await s.ask(user("Say hello in one short sentence."))
    reason = asked.response.finish_reason
    if asked.text:
        found = notice("doctor.finish", reason=repr(reason))
    elif reason == "length":
        found = notice("doctor.all_reasoning", tokens=ANSWER_TOKENS)
    else:
        found = notice("doctor.empty", reason=repr(reason))
    if s.client.profile.streaming:
        found = notice("doctor.and", first=found, second=notice("doctor.only_streams"))
    return "yes" if asked.text else "partly", found


async def usage(s: ProbeSession) -> Found:
    """Are tokens counted? Read from the plain response."""
    if s.plain is None:
        return "unknown", notice("doctor.no_plain_answer")
    return _tokens(s.plain.response.usage)


def _tokens(usage_: TokenUsage | None) -> Found:
    if usage_ is None:
        return "no", notice("doctor.estimated")
    return "yes", notice("doctor.tokens", sent=usage_.prompt_tokens, written=usage_.completion_tokens)


async def streaming(s: ProbeSession) -> Found:
    """Does the server stream?"""
    s.streamed = asked = await s.ask(user("Count from one to ten in words."), stream=True)
    if s.client.profile.streaming is False:
        return "no", notice("doctor.not_streamed")
    if asked.raw is not None:
        return "no", notice("doctor.in_one_piece")
    detail = notice("doctor.pieces", pieces=asked.pieces, reason=repr(asked.response.finish_reason))
    return ("yes" if asked.pieces > 1 else "partly"), detail


async def stream_usage(s: ProbeSession) -> Found:
    """Are tokens counted in streams? Read from the streamed response."""
    if s.streamed is None or s.streamed.raw is not None:
        return "unknown", notice("doctor.no_stream")
    verdict, detail = _tokens(s.streamed.response.usage)
    if s.target.protocol:
        return verdict, detail
    refused = "stream_options" in s.client.profile.refuses
    second = notice("doctor.without_options") if refused else notice("doctor.with_options")
    return verdict, notice("doctor.and", first=detail, second=second)


async def models(s: ProbeSession) -> Found:
    """Is the model in the server's list?"""
    names = models_in(s.listing)
    if not names:
        return "unknown", notice("doctor.no_list")
    if is_listed(s.listing, s.target.model):
        return "yes", notice("doctor.listed", count=len(names))
    if len(names) > 1:
        return "partly", notice("doctor.others", model=s.target.model, others=len(names))
    # A server of one model, such as llama.cpp's, serves it under any name.
    if is_private(s.target.base_url):
        return "unknown", notice("doctor.only_other", model=s.target.model, other=names[0])
    return "partly", notice("doctor.one_other", model=s.target.model, other=names[0])


async def context(s: ProbeSession) -> Found:
    """How large is the context window? Reported by the server, not measured."""
    size = context_size(s.listing, s.props, s.target.model)
    if size is None and s.target.protocol:
        finder = as_protocol(s.client, FindsWindow)
        known = window_known_to(s.client) if finder is None else await s.within(finder.find_context_window())
        if known is not None:
            return "yes", notice("doctor.client_size", size=known)
    if size is None:
        return "unknown", notice("doctor.not_reported")
    return "yes", notice("doctor.size", size=size[0], source=size[1])


async def template(s: ProbeSession) -> Found:
    """What can the chat template do? Reported by llama.cpp."""
    caps = template_caps(s.props)
    if not caps:
        return "unknown", notice("doctor.llama_only")
    able = [name.removeprefix("supports_").replace("_", " ") for name, value in caps.items() if value]
    verdict: Verdict = "yes" if len(able) == len(caps) else "partly" if able else "no"
    return verdict, (
        notice("doctor.supports", able=", ".join(able)) if able else notice("doctor.supports_none")
    )


async def system_message(s: ProbeSession) -> Found:
    """Is a leading system message accepted and applied?"""
    asked = await s.ask([_order("system"), *user("What is 2 + 2?")])
    moved = s.client.profile.system_role == "user"
    obeyed = _CODE_WORD in asked.text.lower()
    if moved:
        return "no", notice("doctor.prepended")
    return ("yes", notice("doctor.applied")) if obeyed else ("partly", notice("doctor.ignored_here"))


async def developer_role(s: ProbeSession) -> Found:
    """Is the role ``developer`` accepted? The package does not send it by default."""
    with s.trying(system_role=""):
        asked = await s.ask([_order("developer"), *user("What is 2 + 2?")])
        refused = s.client.profile.system_role != ""
    if refused:
        return "no", notice("doctor.not_sent")
    obeyed = _CODE_WORD in asked.text.lower()
    return ("yes", notice("doctor.applied")) if obeyed else ("partly", notice("doctor.ignored_here"))


def _order(role: str) -> Message:
    return {"role": role, "content": f"Answer every question with the single word {_CODE_WORD.upper()}."}


async def prompt_cache(s: ProbeSession) -> Found:
    """Are tokens of a repeated request read from a cache?"""
    messages = [_order("system"), *user("What is 3 + 3?")]
    await s.ask(messages, max_tokens=FEW_TOKENS)
    usage_ = (await s.ask(messages, max_tokens=FEW_TOKENS)).response.usage
    if usage_ is None or usage_.cached_tokens is None:
        return "unknown", notice("doctor.cache_unreported")
    if usage_.cached_tokens:
        counts = {"cached": usage_.cached_tokens, "sent": usage_.prompt_tokens}
        return "yes", notice("doctor.cache_read", **counts)
    return "partly", notice("doctor.cache_none", sent=usage_.prompt_tokens)


async def token_count(s: ProbeSession) -> Found:
    """Does the server count the tokens of a request without a response?"""
    counter = as_protocol(s.client, CountsTokens)
    if counter is None:
        return "unknown", notice("doctor.counts_none")
    tokens = await s.within(counter.count_tokens(user("Say hello.")))
    return "yes", notice("doctor.counted", tokens=tokens)


async def temperature(s: ProbeSession) -> Found:
    """Is ``temperature`` accepted?"""
    if "temperature" not in s.client.profile.refuses:
        await s.ask(user("Say OK."), temperature=0)
    refused = _left_out(s, "temperature")
    s.is_steady = refused is None
    return refused or ("yes", notice("doctor.accepted"))


def _left_out(s: ProbeSession, field: str) -> Found | None:
    if field in s.before.refuses:
        return "no", notice("doctor.profile_omits", name=repr(s.before.name))
    if field in s.client.profile.refuses:
        return "no", notice("doctor.server_rejects_field")
    return None


async def max_tokens(s: ProbeSession) -> Found:
    """Is the output limit accepted under its usual name, and obeyed?"""
    field, other = TOKEN_LIMITS
    wanted = s.client.profile.output_limit_field
    if wanted == other:
        return "no", notice("doctor.sent_as", other=other)
    result = _left_out(s, field) or await _limited(s, field)
    s.limit_ignored = result[0] == "partly"
    now = s.client.profile.output_limit_field
    if now == other:
        return "no", notice("doctor.sent_as", other=other)
    return _left_out(s, field) or result


async def max_completion_tokens(s: ProbeSession) -> Found:
    """Is the output limit accepted under its newer name? Used if the usual one is not obeyed."""
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
        asked = await s.ask(user("Count from 1 to 50, separated by commas."), **limit)
    except LLMError as error:
        if error.kind == "bad_request" and _LIMIT_REACHED.search(error.message):
            return "yes", notice("doctor.applied")
        raise
    return _judge_limit(asked)


def _judge_limit(asked: ProbeResponse) -> Found:
    written = asked.response.usage.completion_tokens if asked.response.usage else None
    if asked.response.finish_reason == "length" or (written is not None and written <= FEW_TOKENS + _SLACK):
        return "yes", notice("doctor.applied")
    count = "?" if written is None else written
    return "partly", notice("doctor.limit_ignored", written=count, limit=FEW_TOKENS)
