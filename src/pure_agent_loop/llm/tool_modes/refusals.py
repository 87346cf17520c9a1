"""Recognize refusals of tools and of response formats, and remember which formats a server accepts."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

from pure_agent_loop.errors import LLMError
from pure_agent_loop.llm.values import NOTHING, Delta, JsonFields
from pure_agent_loop.support.lazy import lazy_pattern

# Words in errors from servers or models that do not support tools.
REFUSES_TOOLS = lazy_pattern(
    r"not support (?:this )?(?:tools?\b|tool[_ -]?(?:us|call|choice)|functions?\b|function[_ -]?call)"
    r"|(?:tools?|tool[_ -]?(?:us\w*|call\w*|choice)|function[_ -]?call\w*) (?:is|are) "
    r"(?:not (?:supported|enabled|available|allowed)|unsupported|disabled)"
    r"|support tool use|tool-call-parser|enable-auto-tool-choice|tools param requires"
    r"|(?:unsupported|unknown|unrecognized|unexpected|invalid)\b.{0,60}\W(?:tools|functions)(?:['\"`]|\s*$)"
    r"|\btools\b.{0,10}extra inputs|extra inputs.{0,60}\btools\b",
    re.I | re.S,
)
# Words that occur in errors about an unsupported response format, but not in other 400 errors.
REFUSES_FORMAT = lazy_pattern(
    r"response[_ ]?format|json[_ ]?(?:schema|object|mode)|structured[_ ]output|guided"
    r"|grammar|sampler|\bschema\b|(?:invalid|unsupported|unknown|output) format",
    re.I,
)
REFUSES_STOP = lazy_pattern(r"\bstop\b", re.I)
_REFUSAL_KINDS = ("bad_request", "not_found", "overloaded", "unknown")
MAX_FORMATS = 3


def is_refusal(error: LLMError, words: re.Pattern[str]) -> bool:
    """Return True if an error is a refusal that matches a pattern."""
    return error.kind in _REFUSAL_KINDS and words.search(error.said) is not None


class Formats:
    """Finds and remembers the first response format in a list that the server accepts."""

    def __init__(self) -> None:
        self.refused = 0

    async def ask(
        self,
        ask: Callable[[int], AsyncGenerator[Delta, None]],
        formats: Sequence[JsonFields | None],
    ) -> AsyncGenerator[Delta, None]:
        """Stream a response with the first format that the server accepts.

        Args:
            ask: Sends the request with the format of the given index.
            formats: The formats, best first; None for a request without a format, which cannot be refused.
        """
        refusal: LLMError | None = None
        shown = False
        for number in range(self.refused, len(formats)):
            answer = ask(number)
            try:
                async with aclosing(answer) as deltas:
                    async for delta in deltas:
                        if refusal is not None:
                            yield self._remember(number, formats, refusal)
                            refusal = None
                        yield delta
                        shown = shown or delta != NOTHING
            except LLMError as error:
                if formats[number] is None or shown or not is_refusal(error, REFUSES_FORMAT):
                    raise
                refusal = error
            else:
                return

    def _remember(self, number: int, formats: Sequence[JsonFields | None], refusal: LLMError) -> Delta:
        """Remember the accepted format; return a notice."""
        self.refused = max(self.refused, number)
        accepted = formats[number]
        name = f"response_format {accepted['type']!r}" if accepted else "no response_format"
        return Delta(
            notice=f"From now on, JSON is requested with {name}: the server rejected a stricter format "
            f"({refusal.said[:200]})."
        )


async def drops_tools(client: object) -> bool:
    """Return True if the server reports a chat template without tools."""
    ask = getattr(client, "template_supports_tools", None)
    try:
        return ask is not None and await ask() is False
    except Exception:  # noqa: BLE001 - a failed probe proves nothing
        return False
