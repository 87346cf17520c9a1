"""How a model without tool support is brought to choose a tool and its arguments. Pure: no I/O.

Two short requests instead of one long answer:

1.  *Which.* The model sees a line per option, two example turns for each, and the question; its next token is
    read as a vote: log-probabilities of the options' labels, less what the model gives each label on other
    example questions (small models love one label whatever the question), plus how much the question
    resembles the option's examples. The last part decides where the model has no opinion; a better model's
    votes are much stronger than it.
2.  *With what.* See `arguments`.

Tools for which no examples were written are chosen by `relevance` instead, without a request.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pure_agent_loop.local.arguments import Arguments, arguments_for, parse_answer
from pure_agent_loop.local.examples import TALK, Example, ToolSpec, chinese_for, examples_for
from pure_agent_loop.local.spans import features, has_cjk, name_words, similarity
from pure_agent_loop.local.turns import Message, few_shot

__all__ = [
    "Arguments",
    "Choice",
    "Message",
    "Option",
    "arguments_for",
    "choice_for",
    "mean_votes",
    "parse_answer",
]

VOTES = 300  # how many of the most likely next tokens are looked at
RESEMBLANCE_WEIGHT = 8.0
CLEAR_RESEMBLANCE = 0.7  # so much like a written example that no tool without any is preferred
_SHOTS = 2
_PROBES = 2
_FLOOR = -12.0
_LABEL_HEAD = 3
_TALK_LABELS = ("talk", "answer", "chat", "words")


@dataclass(frozen=True, slots=True)
class Option:
    """Something that can be done next.

    Args:
        tool: The tool, or None for answering in words.
        label: The word that stands for it.
        hint: What it is for.
        examples: Questions that ask for it.
    """

    tool: ToolSpec | None
    label: str
    hint: str
    examples: tuple[Example, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice between options: its prompt, and the reading of the model's vote.

    Args:
        options: What there is to choose from; the last one is to answer in words.
    """

    options: tuple[Option, ...]

    @property
    def key(self) -> str:
        """The same for choices that are put to the model in the same words."""
        return json.dumps(self.messages(""))

    @property
    def shots(self) -> list[tuple[str, str]]:
        """Example turns, a round of all options at a time. The same for every question: they stay cached."""
        return [
            (option.examples[i].text, option.label)
            for i in range(_SHOTS)
            for option in self.options
            if i < len(option.examples)
        ]

    @property
    def probes(self) -> list[str]:
        """Other examples, as many for each option, to learn what the model votes whatever it is asked."""
        return [e.text for option in self.options for e in option.examples[_SHOTS : _SHOTS + _PROBES]]

    def messages(self, question: str) -> list[Message]:
        """The request whose next token is the vote."""
        hints = "; ".join(f"{option.label} = {option.hint}" for option in self.options)
        return few_shot(f"You choose what to do next. Say one word: {hints}.", self.shots, question)

    def votes(self, raw: Any) -> list[float]:
        """The log-probability of each option's label in an answer of the server."""
        found = [_FLOOR] * len(self.options)
        for token, logprob in _top_tokens(raw):
            word = token.strip().lower()
            for i, option in enumerate(self.options):
                if word and option.label.startswith(word):
                    found[i] = max(found[i], logprob)
        total = math.log(sum(math.exp(value) for value in found))
        return [value - total for value in found]

    def resemblance(self, question: str) -> list[float]:
        """How much the question looks like the examples of each option, from 0 to 1."""
        wanted, chinese = features(question), has_cjk(question)
        return [
            max((similarity(wanted, features(e.text)) for e in _compared(option, chinese)), default=0.0)
            for option in self.options
        ]

    def decide(self, question: str, votes: Sequence[float], bias: Sequence[float]) -> Option:
        """The option with the highest score."""
        alike = self.resemblance(question)
        scores = [v - b + RESEMBLANCE_WEIGHT * r for v, b, r in zip(votes, bias, alike, strict=True)]
        return self.options[max(range(len(scores)), key=scores.__getitem__)]


def mean_votes(votes: Sequence[Sequence[float]]) -> list[float]:
    """The mean vote for each option over several questions."""
    return [sum(column) / len(column) for column in zip(*votes, strict=True)]


def choice_for(tools: Sequence[ToolSpec]) -> Choice:
    """The choice between some tools and answering in words."""
    options: list[Option] = []
    used: set[str] = set()
    for tool in tools:
        label = _label([*name_words(tool.name), *name_words(tool.description)], used)
        hint = (tool.description or tool.name.replace("_", " ")).lower()
        options.append(Option(tool, label, hint, examples_for(tool)))
    talk = _label(_TALK_LABELS, used)
    return Choice((*options, Option(None, talk, "answer without a tool", TALK)))


def _label(words: Sequence[str], used: set[str]) -> str:
    """The first word whose beginning tells it from the other labels, else a letter."""
    letters = [chr(ord("a") + i % 26) * (1 + i // 26) for i in range(len(used) + 26)]
    for word in [w for w in words if len(w) >= _LABEL_HEAD] + letters:
        if word[:_LABEL_HEAD] not in used:
            used.add(word[:_LABEL_HEAD])
            return word
    return "other"


def _compared(option: Option, chinese: bool) -> Sequence[Example]:
    return (chinese and chinese_for(option.tool.name if option.tool else None)) or option.examples


def _top_tokens(raw: Any) -> list[tuple[str, float]]:
    """The candidates for the first token in a completion with ``logprobs``; empty if it has none."""
    try:
        entries = raw["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
        return [(str(e["token"]), max(_FLOOR * 3, float(e["logprob"]))) for e in entries]
    except (LookupError, TypeError, ValueError):
        return []
