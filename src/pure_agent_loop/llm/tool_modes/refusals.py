"""How servers say that something does not work with them, and asking for JSON in another way then."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from pure_agent_loop.errors import LLMError
from pure_agent_loop.llm.values import NOTHING, Delta
from pure_agent_loop.support.lazy import lazy_pattern

# How servers say that tools do not work with them or with this model.
REFUSES_TOOLS = lazy_pattern(
    r"not support (?:this )?(?:tools?\b|tool[_ -]?(?:us|call|choice)|functions?\b|function[_ -]?call)"
    r"|(?:tools?|tool[_ -]?(?:us\w*|call\w*|choice)|function[_ -]?call\w*) (?:is|are) "
    r"(?:not (?:supported|enabled|available|allowed)|unsupported|disabled)"
    r"|support tool use|tool-call-parser|enable-auto-tool-choice|tools param requires"
    r"|(?:unsupported|unknown|unrecognized|unexpected|invalid)\b.{0,60}\W(?:tools|functions)(?:['\"`]|\s*$)"
    r"|\btools\b.{0,10}extra inputs|extra inputs.{0,60}\btools\b",
    re.I | re.S,
)
# How they say that they do not know a response format. A 400 for another reason is no answer to that.
REFUSES_FORMAT = lazy_pattern(
    r"response[_ ]?format|json[_ ]?(?:schema|object|mode)|structured[_ ]output|guided"
    r"|grammar|sampler|\bschema\b|(?:invalid|unsupported|unknown|output) format",
    re.I,
)
REFUSES_STOP = lazy_pattern(r"\bstop\b", re.I)
_REFUSAL_KINDS = ("bad_request", "not_found", "overloaded", "unknown")


def is_refusal(error: LLMError, words: re.Pattern[str]) -> bool:
    """True if a server refuses what the words are about."""
    return error.kind in _REFUSAL_KINDS and words.search(error.said) is not None


class Formats:
    """Which response format a server takes: the first of a list that it does not refuse, from then on."""

    def __init__(self) -> None:
        self.refused = 0

    async def ask(
        self,
        ask: Callable[[int], AsyncGenerator[Delta, None]],
        formats: Sequence[Mapping[str, Any] | None],
    ) -> AsyncGenerator[Delta, None]:
        """Ask with one after the other.

        Args:
            ask: Asks with the format of that number.
            formats: The best one first; None where nothing of ours could be refused.
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

    def _remember(self, number: int, formats: Sequence[Mapping[str, Any] | None], refusal: LLMError) -> Delta:
        """The server took this format after it had refused better ones."""
        self.refused = max(self.refused, number)
        wanted = formats[number]
        instead = f"response_format {wanted['type']!r}" if wanted else "no response_format"
        return Delta(
            notice=f"The model is asked for JSON with {instead} from now on: the server refuses a better one "
            f"({refusal.said[:200]})."
        )


async def drops_tools(client: object) -> bool:
    """True if the server says that its template has no place for tools."""
    ask = getattr(client, "template_supports_tools", None)
    try:
        return ask is not None and await ask() is False
    except Exception:  # noqa: BLE001 - a probe that fails, in whatever way, has found nothing out
        return False
