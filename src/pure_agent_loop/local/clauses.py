"""The parts of a question that may be requests of their own. Pure: no model, no I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass

_VERBS = (
    "find|get|fetch|retrieve|search|look|show|tell|give|list|provide|check|calculate|compute|determine|"
    "estimate|predict|convert|book|reserve|order|buy|create|generate|make|play|send|set|update|add|remove|"
    "delete|analy[sz]e|compare|sort|solve|identify|recommend|schedule|plan|rent|invest|withdraw|sell|"
    "translate|write|draw|plot|run|roll|pick|simulate|do|repeat|describe|explain|summarize|locate|inform|"
    "help|measure|cook|track|monitor|view|display|open|start|please|could|can|would|what|how|who"
)
_AGAIN = (
    r"then|also|finally|lastly|next|after that|afterwards|additionally|in addition(?: to that| to this)?|"
    r"furthermore|moreover|followed by|first|firstly|second|secondly|third|thirdly|fourth|fourthly|fifth|last"
)
# No end of a sentence is the point of an initial or a title.
_SENTENCE = re.compile(
    r"(?<=[.?!])(?<!^\d\.)(?<!\n\d\.)(?<!\b[A-Z]\.)(?<!\bInc\.)(?<!\b(?:Mr|Dr|St|vs)\.)(?<!\bMrs\.)['\"”]?\s+(?=[A-Z\"'(\d])|;\s+|\n+"
)
_NUMBERING = re.compile(r"^\s*\d+[.)]\s+")
# Where inside a sentence something else begins to be asked for.
_WITHIN = re.compile(
    rf",?\s+(?:and|or|but)\s+(?=(?:(?:{_AGAIN}),?\s+)?(?:{_VERBS})\b(?!-))"
    rf"|,?\s+(?:and\s+)?(?=(?:{_AGAIN}),?\s+(?:the\s+same\s+)?(?:{_VERBS})\b(?!-))"
    r"|,?\s+(?:and\s+)?(?=(?:followed by|finally|and then|then from|then for|then in|then a)\b)"
    r"|,?\s+(?:and|as well as)\s+(?=(?:another|one (?:in|around|for|from|near|at|with))\b)"
    rf"|,\s+(?=(?:{_VERBS})\s)",
    re.IGNORECASE,
)
# How a sentence about another matter begins.
_NEXT = re.compile(rf"\W*(?:and\s+)?(?:(?:{_AGAIN}|after|later|once|now)\b|\d+[.)])", re.IGNORECASE)
_MARKED = re.compile(
    rf"\W*(?:and\s+)?(?:(?:{_AGAIN})\b|\d+[.)])|\W*(?:for|in|the)\s+the\s+(?:{_AGAIN})\b", re.IGNORECASE
)
_ORDINAL = re.compile(
    r"\W*(?:the|in the|for the|my)?\s*(?:first|second|third|fourth|fifth|last|another|other)\b", re.IGNORECASE
)
_ASKING = re.compile(
    rf"\W*(?:another|one)\b|\W*(?:(?:{_AGAIN}|and|please),?\s+)*(?:{_VERBS})\b(?!-)"
    r"|.*\b(?:I(?:'d| would|'m| am)? (?:also )?(?:like|want|need|curious|wonder|interested)"
    r"|(?:could|can|would) you|please|help me|do the same)\b",
    re.IGNORECASE | re.DOTALL,
)
# What only announces a request.
_OPENING = re.compile(
    rf"\W*(?:(?:{_AGAIN}|and|please|can|could|would|will|you|i|like|want|to|know|is)\b\W*)+", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Clause:
    """A part of a question.

    Args:
        text: As it is written.
        is_marked: It begins like another request ("then", "Second,", "2.").
        is_asking: It begins with what is to be done, or says that something is wanted.
        is_sentence: It begins where a sentence does.
    """

    text: str
    is_marked: bool
    is_asking: bool
    is_sentence: bool


def sections(question: str) -> list[str]:
    """The runs of sentences of which each begins like another matter ("Second,", "After that", "2.")."""
    found: list[str] = []
    for sentence in _split(_SENTENCE, question):
        if found and not _NEXT.match(sentence):
            found[-1] += " " + sentence
        else:
            found.append(_NUMBERING.sub("", sentence))
    return found


def clauses(question: str) -> list[Clause]:
    """The sentences of a question, and their parts that begin like requests."""
    found = []
    for sentence in _split(_SENTENCE, question):
        for i, part in enumerate(_with_openings(_split(_WITHIN, sentence))):
            marked = bool(_MARKED.match(part) or _ORDINAL.match(part))
            found.append(Clause(_NUMBERING.sub("", part), marked, bool(_ASKING.match(part)), i == 0))
    return found


def _with_openings(parts: list[str]) -> list[str]:
    """Parts that only announce the next one ("Also", "Can you") in front of it."""
    joined: list[str] = []
    opening = ""
    for part in parts:
        if _OPENING.fullmatch(part):
            opening += f"{part}, "
        else:
            joined.append(opening + part)
            opening = ""
    return [*joined, opening] if opening else joined


def _split(pattern: re.Pattern[str], text: str) -> list[str]:
    """The parts between the breaks, none of which stands between quotation marks or brackets."""
    parts, begin = [], 0
    for found in pattern.finditer(text):
        if _is_inside(text[begin : found.start()]):
            continue
        parts.append(text[begin : found.start()])
        begin = found.end()
    return [part for part in (*parts, text[begin:]) if re.search(r"\w", part)]


def _is_inside(before: str) -> bool:
    opened = before.count("(") > before.count(")") or before.count("[") > before.count("]")
    return opened or len(re.findall(r"(?<!\w)'(?=\w)", before)) > len(re.findall(r"(?<=\w)'(?!\w)", before))
