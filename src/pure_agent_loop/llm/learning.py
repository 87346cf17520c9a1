"""Base of the clients for all protocols: a refused request is changed, and sent again.

A change is kept for the client's later requests. Messages and tools are changed in the chat-completions
shape, before they are converted to a protocol, so that one rule serves every protocol.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from pure_agent_loop.errors import LLMError
from pure_agent_loop.llm.adapt import LEAST_ROOM, LIMIT_FIELDS, adapt_content, adapt_tools
from pure_agent_loop.llm.base import with_server_tools
from pure_agent_loop.llm.extra import MESSAGE_FIELDS, extra_of, extra_of_call, without_extra
from pure_agent_loop.llm.http_client import HttpClient
from pure_agent_loop.llm.messages import (
    META,
    calls_of,
    is_question,
    mark_of,
    newest_question,
    without_refused,
)
from pure_agent_loop.llm.profiles import Default, LearnedLimit, Profile, chosen_fields
from pure_agent_loop.llm.values import NOTHING, Delta, JsonFields, JsonObject, Message, Options, Tools
from pure_agent_loop.media import MEDIA_KINDS
from pure_agent_loop.support.text import shorten

if TYPE_CHECKING:
    from pure_agent_loop.llm.property_names import NameRestorer

MAX_ADAPTATIONS = 8  # maximum changes per request; each one removes something, so the retries end


@dataclass(slots=True)
class RequestAttempt:
    """A request that is being sent, changed as earlier refusals require.

    Args:
        messages: The history, in wire form or with `meta`.
        tools: Tool schemas in the chat-completions shape, without those of the option ``server_tools``.
        options: Request options.
        stream: Whether to stream the response.
        profile: The profile that the request is made for.
        limit: Output limit that a profile or a refusal has set; None for the caller's or the server's.
        body: The body, once it is written; `LearningClient._send` sets it.
    """

    messages: list[Message]
    tools: Tools | None
    options: JsonObject
    stream: bool
    profile: Profile
    limit: int | None = None
    body: JsonObject = field(default_factory=dict)
    restorer: NameRestorer | None = None

    def rename(self) -> None:
        """Replace property names that the server rejects; `restorer` then restores them in the response."""
        from pure_agent_loop.llm.property_names import PropertyNames

        form = self.options.get("response_format")
        names = PropertyNames(self.profile.property_names, [self.tools, form])
        if not names:
            return
        self.messages = [names.in_message(message) for message in self.messages]
        self.tools = names.in_schema(self.tools)
        if form is not None:
            self.options["response_format"] = type(form)(names.in_schema(form))
        self.restorer = names.restorer(also_text=form is not None)


@dataclass(slots=True)
class _Request:
    """A caller's request, and the images and files that are left out of it.

    Args:
        tries: Other sets of images and files to leave out instead, if the server rejects the request again;
            None before the first such rejection.
    """

    tools: Tools | None
    left_out: frozenset[int] = frozenset()
    tries: list[frozenset[int]] | None = None


class LearningClient(HttpClient):
    """A client that learns from refusals. A subclass sets `profile` and `origin`, and writes requests."""

    profile: Profile
    origin: str
    keeps_choices = True  # False while a server is being probed
    _is_chat: ClassVar[bool] = False
    _marks: Sequence[str] = ()  # fields that the client itself adds to message parts

    def _connect(self, *, prepared: bool) -> None:
        # Marks (see `mark_of`) of refused images and files, and of those that are sent only while they are
        # the newest.
        self._refused: frozenset[int] = frozenset()
        self._surplus: frozenset[int] = frozenset()
        self._refused_tools: list[JsonObject] = []  # rejected tools that came from toolsets
        # Marks of the messages whose signed data the server rejected; None for all messages.
        self._unsigned: frozenset[int] | None = frozenset()
        # Size of the window in tokens, and actual tokens per estimated token; None until a refusal names
        # them.
        self._window: tuple[int, float] | None = None
        super()._connect(prepared=prepared)

    def request_body(
        self, messages: list[Message], tools: Tools | None, options: Options, stream: bool
    ) -> JsonObject:
        """Build the body of a request; see `ShowsRequest`.

        Args:
            messages: The history, in wire form or with `meta`.
            tools: Tool schemas, or None.
            options: Fields of the request, and ``extra_body``, whose fields are merged in last.
            stream: Whether to stream the response; ``stream=False`` in the options overrides it.
        """
        return self._body(self._adapt(messages, tools, options, stream=stream))

    @abstractmethod
    def _body(self, attempt: RequestAttempt) -> JsonObject:
        """Write the body of an attempt."""

    @abstractmethod
    def _send(self, attempt: RequestAttempt) -> AsyncGenerator[Delta, None]:
        """Set the body of an attempt, send it once, and stream its response."""

    @abstractmethod
    def _chosen(self, attempt: RequestAttempt) -> Mapping[str, str]:
        """Return the fields that the caller set (not defaults), each mapped to advice for an error."""

    def _learn_own(self, attempt: RequestAttempt, error: LLMError) -> Delta | None:  # noqa: ARG002 - see subclasses
        """Adapt later requests by a rule for this protocol; return a notice, or None if nothing changed."""
        return None

    def _default_limit(self) -> int | None:
        """Return the output limit for requests whose caller sets none; None for the server's limit."""
        return self.profile.max_output

    async def _ask(
        self, messages: list[Message], tools: Tools | None, options: JsonObject, stream: bool
    ) -> AsyncGenerator[Delta, None]:
        """Send a request and stream its response; after a refusal that leads to a change, try again."""
        request = _Request(tools)
        if (notice := self._leave_out_media(messages)) is not None:
            yield notice
        for attempts_left in range(MAX_ADAPTATIONS + len(tools or ()), -1, -1):
            attempt, begun, notice = self._adapt(messages, tools, options, stream=stream), False, None
            restorer = attempt.restorer
            try:
                async with aclosing(self._send(attempt)) as deltas:
                    async for delta in deltas:
                        begun = begun or not delta.notice
                        yield delta if restorer is None else restorer.take(delta)
                if restorer is not None:
                    yield restorer.finish()
            except Exception as failure:
                if not begun and attempts_left and isinstance(failure, LLMError):
                    notice = self._learn(request, attempt, failure)
                if notice is None:
                    # Send the media again, because omitting them did not help.
                    self._omit(request, frozenset())
                    raise
            else:
                return
            yield notice

    # -- changes before a request is written --------------------------------------------------------------

    def _adapt(
        self, messages: list[Message], tools: Tools | None, options: Options, *, stream: bool
    ) -> RequestAttempt:
        """Return a request, changed as earlier refusals require."""
        profile, limit = self.profile, self._limit(messages, options)
        if self._refused or self._surplus:
            question = newest_question(messages)  # media of the newest question are never omitted
            newest, earlier = _newest_media(messages), self._refused | self._surplus
            messages = [
                message
                if message is question
                else without_refused(message, self._refused if message is newest else earlier)
                for message in messages
            ]
        if self._unsigned != frozenset():
            messages = [_plain(message) if self._is_unsigned(message) else message for message in messages]
        if tools:
            tools = adapt_tools(self._accepted(tools), profile)
        if limit is not None:
            given = {name: value for name, value in options.items() if name not in LIMIT_FIELDS}
            options = {**given, "max_tokens": LearnedLimit(limit)}
        messages = list(adapt_content(messages, profile))
        attempt = RequestAttempt(messages, tools, {**options}, stream, profile, limit)
        if profile.property_names:
            attempt.rename()
        return attempt

    def _is_unsigned(self, message: JsonFields) -> bool:
        """Return True for a message whose signed data is left out."""
        if not self._is_own(message):
            return False
        return self._unsigned is None or hash(_extra_text(message)) in self._unsigned

    def _is_own(self, message: JsonFields) -> bool:
        return (message.get(META) or {}).get("origin") == self.origin

    def _accepted(self, tools: Tools) -> list[JsonObject]:
        """Return the tools without refused ones from toolsets; the caller's own tools are always kept."""
        refused = self._refused_tools
        return [t for t in tools if not isinstance(t, Default) or t not in refused] if refused else tools

    def _limit(self, messages: Sequence[Message], options: Options) -> int | None:
        """Return the output limit to set in a request; None to leave the options as they are."""
        limit = self._default_limit()
        if limit is None or not (self.profile.max_output or self._window) or _own_limit(options):
            return None
        if self._window is not None:
            window, scale = self._window
            limit = min(limit, max(round(window - scale * _estimated(messages)), LEAST_ROOM))
        given = [value for name in LIMIT_FIELDS if isinstance(value := options.get(name), int)]
        return None if given and given[0] <= limit else limit

    def _leave_out_media(self, messages: list[Message]) -> Delta | None:
        """Leave out people's earlier media if the profile excludes them; return a notice about new ones."""
        if self.profile.takes is None:
            return None
        excluded = {MEDIA_KINDS[kind] for kind in MEDIA_KINDS if kind not in self.profile.takes}
        question = newest_question(messages)
        earlier = [m["content"] for m in messages if is_question(m) and m is not question]
        parts = [part for content in earlier if isinstance(content, list) for part in content]
        media = {mark_of(part) for part in parts if part["type"] in excluded} - self._refused
        if not media:
            return None
        self._refused |= media
        return Delta(notice=f"Earlier images or files are left out of requests: {self.model} rejects them.")

    # -- changes after a refusal --------------------------------------------------------------------------

    def _learn(self, request: _Request, attempt: RequestAttempt, error: LLMError) -> Delta | None:
        """Adapt later requests to a refusal; return a notice, or None if nothing changed.

        Raises:
            LLMError: The refusal names a field or a tool that the caller set.
        """
        from pure_agent_loop.llm import lessons  # loaded only after a refusal

        if not attempt.body:
            return None  # not sent
        if self.profile is not attempt.profile:
            return NOTHING  # a concurrent request has adapted the profile
        if (own := self._learn_own(attempt, error)) is not None:
            return own
        details = shorten(error.said, 200)
        tries = lessons.media_to_omit(attempt.messages, error) if request.tries is None else request.tries
        what = ""
        if not (tries and lessons.is_about_own_media(attempt.messages, error)):
            what = self._learned_limit(attempt, error) or self._learned(attempt, error)
        if what:
            return Delta(notice=f"From now on {what}, because the server rejected a request ({details}).")
        if not tries:
            return self._leave_out_tool(attempt, error, request.tools)
        newest = _newest_media(attempt.messages) or {"content": ()}
        self._omit(request, tries[0], is_surplus=tries[0].isdisjoint(map(mark_of, newest["content"])))
        request.tries = tries[1:]
        notice = f"The server rejected earlier images or files ({details}), so they are left out of requests."
        return Delta(notice=notice)

    def _omit(self, request: _Request, media: frozenset[int], *, is_surplus: bool = False) -> None:
        """Leave out these images and files in later requests, instead of those of the last try."""
        self._refused -= request.left_out
        self._surplus -= request.left_out
        request.left_out = media
        if is_surplus:
            self._surplus |= media
        else:
            self._refused |= media

    def _learned(self, attempt: RequestAttempt, error: LLMError) -> str:
        """Change the profile, or leave out signed data; return what changed, empty if nothing did."""
        from pure_agent_loop.llm import lessons

        if lessons.is_about_signed(error) and self._drop_signed(attempt.messages):
            return "the signed or encrypted data of earlier responses is left out"
        neutral = {**attempt.body, "messages": attempt.messages}
        neutral["tools"] = with_server_tools(attempt.tools, attempt.options) or ()
        neutral["response_format"] = attempt.options.get("response_format")
        request = attempt.body if self._is_chat else neutral
        chosen = self._chosen(attempt) if self.keeps_choices else {}
        lesson = lessons.learn(
            attempt.profile, request, error, chosen, is_chat=self._is_chat, marks=self._marks
        )
        if lesson is None:
            return ""
        self.profile = lesson.profile
        return lesson.what

    def _learned_limit(self, attempt: RequestAttempt, error: LLMError) -> str:
        """Lower the output limit as a refusal requires; return what changed, empty if nothing did."""
        from pure_agent_loop.llm import lessons

        own = _own_limit(attempt.options) if self.keeps_choices else ""
        limit, window = lessons.smaller_limit(attempt.body, error, own)
        if not limit or _own_limit(attempt.options):  # the caller's own limit is never lowered
            return ""
        if window:
            scale = (window - limit) / max(_estimated(attempt.messages), 1)
            self._window = (window, scale)
            return f"responses are limited to the rest of the {window:,}-token window"
        self.profile = replace(self.profile, max_output=limit)
        return f"responses are limited to {limit:,} tokens"

    def _drop_signed(self, messages: Sequence[Message]) -> bool:
        """Leave out these messages' signed data in later requests; the second time, all signed data."""
        signed = [message for message in messages if self._is_own(message) and _extra_text(message)]
        if not signed or self._unsigned is None:
            return False
        self._unsigned = None if self._unsigned else frozenset(hash(_extra_text(m)) for m in signed)
        return True

    def _leave_out_tool(self, attempt: RequestAttempt, error: LLMError, tools: Tools | None) -> Delta | None:
        """If a refusal names a tool from a toolset, omit that tool from all later requests.

        Raises:
            LLMError: The refusal names one of the caller's tools.
        """
        from pure_agent_loop.llm import lessons

        index = lessons.refused_tool(attempt.tools or (), error)
        own = self._accepted(tools) if tools else []
        if index is None or index >= len(own) or not isinstance(own[index].get("function"), Mapping):
            return None  # the refusal names no tool, or a server tool
        tool = own[index]
        name, details = tool["function"]["name"], shorten(error.said, 200)
        if not isinstance(tool, Default):
            advice = "Change its name, description or schema, or remove it."
            lessons.reject([f"the tool {name!r}"], advice, error)
        self._refused_tools.append(tool)
        return Delta(notice=f"Tool {name} is left out from now on: the server rejected it ({details}).")


def _plain(message: Message) -> Message:
    """Return a message without the fields that its server added, as if it came from another server."""
    meta = {name: value for name, value in message[META].items() if name != "origin"}
    return {**without_extra(message), META: meta}


def _newest_media(messages: Sequence[Message]) -> Message | None:
    """Return the newest message with images or files."""
    kinds = MEDIA_KINDS.values()
    for message in reversed(messages):
        content = message.get("content")
        if isinstance(content, list) and any(part["type"] in kinds for part in content):
            return message
    return None


def _extra_text(message: JsonFields) -> str:
    """Return the fields that a server added to a message and its calls, as text; empty if there are none."""
    parts = [extra_of(message, {*MESSAGE_FIELDS, META}), *map(extra_of_call, calls_of(message))]
    return repr(parts) if any(parts) else ""


def _estimated(messages: Sequence[Message]) -> int:
    from pure_agent_loop.llm.tokens import estimate_message  # rarely needed

    return sum(map(estimate_message, messages))


def _own_limit(options: Options) -> str:
    """Return the name by which the caller set an output limit; empty if the caller set none."""
    chosen = {*chosen_fields(options), *(options.get("generationConfig") or ())}
    return next((name for name in LIMIT_FIELDS if name in chosen), "")


def leave_out_advice(name: str) -> str:
    """Return advice on a caller's setting that a server rejects."""
    return f"Remove {name}, or use a model that accepts it."
