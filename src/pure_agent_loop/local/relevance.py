"""Whether a question calls for one of the tools offered, and for which. Pure: no model, no I/O.

The smallest models cannot tell a tool that helps from one that does not; shared words can, for tools never
seen before. A tool scores for the words of its name and of its description that the question uses, weighed
by how few of the offered tools share them, and loses where it requires more numbers than the question has.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from pure_agent_loop.local.examples import ToolSpec
from pure_agent_loop.local.spans import has_cjk, numbers
from pure_agent_loop.local.turns import as_mapping

THRESHOLD = 0.8
_NAME, _DESCRIPTION, _SHARED, _ARGUMENTS = 1.0, 1.0, 0.35, 0.3
_VALUES, _NO_NUMBERS = 0.4, 2.0
_MOST_SHARED = 3
_HEAD, _HEAD_SHARE, _HEAD_SCORE = 5, 0.6, 0.7
_COMMON = frozenset(
    re.findall(
        r"\w+",
        "a an the of to is are was were be been being in on at it its me my i we you your our us he she "
        "they them his her their this that these those there here what which who whom whose how many "
        "much why when where do does did doing done can could will would shall should may might must "
        "please and or not no nor for with from by about into as if than then so such any all some each "
        "every between during within per via up out over under new own also only just like both more "
        "most very too same other another has have had having want wants need needs know let give tell "
        "show find get fetch retrieve return returns provide provides determine calculate compute check "
        "look search locate identify list create make using use used uses based given specific specified "
        "certain particular various different information info details data value values number amount "
        "name type result results function tool example eg default defaults optional required parameter "
        "format string integer float boolean python java javascript syntax note provided true false set "
        "one first following including include help current currently time",
    )
)
_ENDINGS = (("ies", "y"), ("sses", "ss"), ("ations", "at"), ("ation", "at"), ("ating", "at"), ("ated", "at"),
            ("ate", "at"), ("ing", ""), ("ers", "er"), ("ed", ""), ("es", "e"), ("s", ""))  # fmt: skip
_SHORTEST_STEM = 3
_NUMBER_WORDS = re.compile(
    r"\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozen|hundred|thousand|million|"
    r"half|twice|double|both|pair|next|last|today|tomorrow|year|week|month)\b",
    re.IGNORECASE,
)
_NAMED = re.compile(r"(?<=[\w,;] )[A-Z]\w+|\"[^\"]+\"|'[^']+'|\d")
_SYNTAX_NOTE = re.compile(r"Note that the provided function is in [^.]*\.")


def stem(word: str) -> str:
    """A word without the endings that differ between a question and a description."""
    word = word.lower()
    for ending, instead in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM and not word.endswith("ss"):
            word = word[: -len(ending)] + instead
            break
    return word.rstrip("e") if len(word) > _SHORTEST_STEM + 1 else word


@lru_cache(maxsize=2048)
def content_words(text: str) -> tuple[str, ...]:
    """The stems of a text's words, each once, without those that say nothing about the matter."""
    split = re.sub(r"([a-z])([A-Z])", r"\1 \2", text)
    stems = [stem(w) for w in re.findall(r"[A-Za-z]{2,}", split) if w.lower() not in _COMMON]
    if has_cjk(text):
        for run in re.findall(r"[\u3400-\u9fff]+", text):
            stems += [run[i : i + 2] for i in range(max(1, len(run) - 1))]
    return tuple(dict.fromkeys(stems))


def likeness(word: str, words: Sequence[str]) -> float:
    """1 if the word is among the words, a little less if one of them begins the same way."""
    if word in words:
        return 1.0
    return _HEAD_SCORE if any(_same_head(word, other) for other in words) else 0.0


def _same_head(a: str, b: str) -> bool:
    same = 0
    while same < min(len(a), len(b)) and a[same] == b[same]:
        same += 1
    return same >= _HEAD and same >= _HEAD_SHARE * max(len(a), len(b))


def relevance(question: str, tools: Sequence[ToolSpec]) -> list[float]:
    """How much each tool seems to be what the question needs; from `THRESHOLD` on it probably is."""
    told = [_told(tool) for tool in tools]
    asked = content_words(question)
    scores = []
    for tool, (name, description, arguments) in zip(tools, told, strict=True):
        rare = {w: 1 / sum(w in n or w in d for n, d, _ in told) for w in (*name, *description)}
        score = _NAME * _share(name, asked, rare) + _DESCRIPTION * _share(description, asked, rare)
        both = sum(likeness(w, asked) * rare[w] for w in dict.fromkeys((*name, *description)))
        score += _SHARED * min(both, _MOST_SHARED) + _ARGUMENTS * _share(arguments, asked, {})
        score += _VALUES * bool(_NAMED.search(question)) - _NO_NUMBERS * missing_numbers(question, tool)
        scores.append(score if both else min(score, 0.0))
    return scores


def best_tool(question: str, tools: Sequence[ToolSpec]) -> ToolSpec | None:
    """The tool a question calls for, or None if none seems to help."""
    scores = relevance(question, tools)
    best = max(range(len(tools)), key=scores.__getitem__, default=None)
    return tools[best] if best is not None and scores[best] >= THRESHOLD else None


def _told(tool: ToolSpec) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    arguments = " ".join(f"{n} {as_mapping(p).get('description', '')}" for n, p in tool.properties.items())
    description = _SYNTAX_NOTE.sub("", tool.description)
    return content_words(tool.name), content_words(description), content_words(arguments.replace("_", " "))


def _share(words: Sequence[str], asked: Sequence[str], rare: Mapping[str, float]) -> float:
    """How much of the words' weight is in the question."""
    weights = [rare.get(w, 1.0) for w in words]
    found = sum(likeness(w, asked) * weight for w, weight in zip(words, weights, strict=True))
    return found / (sum(weights) or 1.0)


def missing_numbers(question: str, tool: ToolSpec) -> float:
    """The share of the numbers a tool requires that the question does not have."""
    wanted = [n for n in tool.to_fill if as_mapping(tool.properties[n]).get("type") in ("integer", "number")]
    has = len(numbers(question)) + len(_NUMBER_WORDS.findall(question))
    return max(0, len(wanted) - has) / (len(wanted) or 1)
