"""Whether a question calls for one of the tools offered, and for which. Pure: no model, no I/O.

The smallest models cannot tell a tool that helps from one that does not; shared words can, for tools never
seen before. A tool scores for the words of its name and of its description that the question uses, weighed
by how few of the offered tools share them, and for the values it offers that stand in the question. It loses
where it requires more numbers than the question has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pure_agent_loop.local.examples import ToolSpec
from pure_agent_loop.local.spans import has_cjk, numbers
from pure_agent_loop.local.turns import as_mapping

THRESHOLD = 0.9
_NAME, _DESCRIPTION, _SHARED, _ARGUMENTS = 1.0, 1.0, 0.35, 0.3
_VALUES, _NO_NUMBERS = 0.4, 2.0
_OTHERS, _CHOICES, _VERB = 0.2, 0.5, 0.3
_MOST_SHARED, _MOST_CHOICES = 3, 2
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
        "format string integer float boolean note provided true false set "
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


def stem(word: str) -> str:
    """A word without the endings that differ between a question and a description."""
    word = word.lower()
    for ending, instead in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM and not word.endswith("ss"):
            word = word[: -len(ending)] + instead
            break
    return word.rstrip("e") if len(word) > _SHORTEST_STEM + 1 else word


# Verbs that people and tools use for one another; which of them is meant, the rest of the words must tell.
_FINDING = (
    "find search look lookup discover retrieve get fetch show list see query "
    "want need know check what which tell recommend suggest"
)
_DOING = tuple(
    frozenset(stem(word) for word in verbs.split())
    for verbs in (
        _FINDING,
        "book booking reserve reservation schedule arrange make appointment",
        "buy purchase order",
        "create add new make generate set",
        "delete remove cancel clear",
        "update change modify edit replace switch",
        "play start stream listen open watch",
        "send share transfer pay",
        "calculate compute",
    )
)


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


@dataclass(frozen=True, slots=True)
class _Words:
    """What a tool says of itself, as stems.

    Args:
        name: Of its name.
        description: Of the first sentence of its description.
        arguments: Of the names and descriptions of its arguments.
        details: Of the whole description.
    """

    name: tuple[str, ...]
    description: tuple[str, ...]
    arguments: tuple[str, ...]
    details: tuple[str, ...]

    @property
    def subject(self) -> tuple[str, ...]:
        """What it is about: name and first sentence, each word once."""
        return tuple(dict.fromkeys((*self.name, *self.description)))


def relevance(question: str, tools: Sequence[ToolSpec]) -> list[float]:
    """How much each tool seems to be what the question needs; from `THRESHOLD` on it probably is."""
    told = [_told(tool) for tool in tools]
    asked = content_words(question)
    has_values = bool(_NAMED.search(question))
    scores = []
    for tool, words in zip(tools, told, strict=True):
        subjects = _rarity(words.subject, [(*w.name, *w.description) for w in told])
        score = _NAME * _share(words.name, asked, subjects) + _DESCRIPTION * _share(
            words.description, asked, subjects
        )
        about = _found(subjects, asked)
        score += _SHARED * min(about, _MOST_SHARED) + _ARGUMENTS * _share(words.arguments, asked, {})
        for others, all_others in (
            (words.arguments, [w.arguments for w in told]),
            (words.details, [w.details for w in told]),
        ):
            rest = _rarity([w for w in others if w not in subjects], all_others)
            score += _OTHERS * min(_found(rest, asked), _MOST_SHARED)
        choices = _CHOICES * min(_named_choices(question, tool), _MOST_CHOICES)
        score += choices + _VALUES * has_values - _NO_NUMBERS * missing_numbers(question, tool)
        scores.append(score if about or choices else min(score, 0.0))
    return scores


def _rarity(words: Iterable[str], of_tools: Sequence[Sequence[str]]) -> dict[str, float]:
    """Each word's weight: one, divided by how many of the tools have it."""
    return {word: 1 / sum(word in each for each in of_tools) for word in words}


def _found(weights: Mapping[str, float], asked: Sequence[str]) -> float:
    """The weight of the words that the question uses."""
    return sum(likeness(word, asked) * weight for word, weight in weights.items())


def _named_choices(question: str, tool: ToolSpec) -> int:
    """How many of the values that a tool offers for its arguments stand in the question."""
    properties = [as_mapping(p) for p in tool.properties.values()]
    offered = [p.get("enum") or as_mapping(p.get("items")).get("enum") or () for p in properties]
    return sum(mentions(question, value) for values in offered for value in values)


def mentions(question: str, value: Any) -> bool:
    """True if a text stands in a question, in whatever case, with spaces for underscores, or as a plural."""
    if not isinstance(value, str) or not value:
        return False
    spaced = re.escape(value.replace("_", " "))
    return bool(re.search(rf"(?<!\w){spaced}(?:s|es)?(?!\w)", question.replace("_", " "), re.IGNORECASE))


def _fit_of_verbs(question: str, name: str) -> int:
    """By a tool's name: 1 if it does what is asked, -1 if something else, 0 if the name says nothing."""
    done, asked = _kinds_of_doing(name), _kinds_of_doing(question)
    return 0 if not done else 1 if done & asked else -1


def _kinds_of_doing(text: str) -> frozenset[int]:
    split = re.sub(r"([a-z])([A-Z])", r"\1 \2", text)
    stems = {stem(word) for word in re.findall(r"[A-Za-z]+", split)}
    return frozenset(i for i, verbs in enumerate(_DOING) if verbs & stems)


def best_tool(question: str, tools: Sequence[ToolSpec]) -> ToolSpec | None:
    """The tool a question calls for, or None if none seems to help."""
    scores = relevance(question, tools)
    # What is done ("find", "book") tells tools for one matter apart, but not whether the matter is theirs.
    fits = [score + _VERB * _fit_of_verbs(question, t.name) for score, t in zip(scores, tools, strict=True)]
    best = max(range(len(tools)), key=fits.__getitem__, default=None)
    return tools[best] if best is not None and scores[best] >= THRESHOLD else None


def _told(tool: ToolSpec) -> _Words:
    arguments = " ".join(f"{n} {as_mapping(p).get('description', '')}" for n, p in tool.properties.items())
    texts = (tool.name, tool.description, arguments.replace("_", " "), tool.details)
    return _Words(*map(content_words, texts))


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
