"""How a model without tool support is brought to choose a tool and its arguments. Pure: no I/O.

Two short requests instead of one long answer:

1.  *Which.* The model sees a line per option, two example turns for each, and the question; its next token is
    read as a vote: log-probabilities of the options' labels, less what the model gives each label on other
    example questions (small models love one label whatever the question), plus how much the question
    resembles the option's examples. The last part decides where the model has no opinion; a better model's
    votes are much stronger than it.
2.  *With what.* The arguments as JSON under a schema; for the smallest models each argument can only be a
    piece of the question. Where that leaves one choice, the model is not asked at all.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pure_agent_loop.local.examples import TALK, Example, ToolSpec, chinese_for, examples_for
from pure_agent_loop.local.spans import (
    features,
    has_cjk,
    numbers,
    paths,
    phrases,
    similarity,
    sum_pattern,
    written_sum,
)
from pure_agent_loop.local.turns import as_mapping

Message = dict[str, Any]
VOTES = 300  # how many of the most likely next tokens are looked at
RESEMBLANCE_WEIGHT = 8.0
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


def few_shot(system: str, shots: Sequence[tuple[str, str]], question: str) -> list[Message]:
    """A conversation in which the shots have already happened."""
    messages: list[Message] = [{"role": "system", "content": system}]
    for asked, said in shots:
        messages += [{"role": "user", "content": asked}, {"role": "assistant", "content": said}]
    return [*messages, {"role": "user", "content": question}]


def choice_for(tools: Sequence[ToolSpec]) -> Choice:
    """The choice between some tools and answering in words."""
    options: list[Option] = []
    used: set[str] = set()
    for tool in tools:
        label = _label([*_words(tool.name), *_words(tool.description)], used)
        hint = (tool.description or tool.name.replace("_", " ")).lower()
        options.append(Option(tool, label, hint, examples_for(tool)))
    talk = _label(_TALK_LABELS, used)
    return Choice((*options, Option(None, talk, "answer without a tool", TALK)))


def _words(text: str) -> list[str]:
    split = re.sub(r"([a-z])([A-Z])", r"\1 \2", text)
    return [word.lower() for word in re.findall(r"[A-Za-z]+", split)]


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


@dataclass(frozen=True, slots=True)
class Arguments:
    """The question for a tool's arguments.

    Args:
        tool: The tool.
        question: What the user asked.
        schema: What the arguments may be, narrowed to this question.
    """

    tool: ToolSpec
    question: str
    schema: dict[str, Any]

    @property
    def only_choice(self) -> dict[str, Any] | None:
        """The arguments, if the schema leaves just one possibility."""
        values = {name: prop.get("enum") for name, prop in self.schema["properties"].items()}
        if any(not isinstance(v, list) or len(v) != 1 for v in values.values()):
            return None
        return {name: v[0] for name, v in values.items() if v}

    def messages(self) -> list[Message]:
        """The request for them."""
        names = ", ".join(self.tool.to_fill)
        system = f"Write the {names} for the tool {self.tool.name}, as JSON."
        if self.tool.description:
            system += f" The tool: {self.tool.description.lower()}."
        shots = [(e.text, json.dumps(dict(e.arguments))) for e in examples_for(self.tool) if e.arguments]
        return few_shot(system, shots, self.question)

    def response_format(self) -> dict[str, Any]:
        """The field of a request that holds the model to the schema."""
        return {"type": "json_schema", "json_schema": {"name": "arguments", "schema": self.schema}}


def arguments_for(tool: ToolSpec, question: str, copy_only: bool) -> Arguments:
    """Narrow a tool's schema to a question.

    Args:
        tool: The tool.
        question: What the user asked.
        copy_only: Texts and numbers must be pieces of the question, if it has any that fit.
    """
    properties = {name: as_mapping(tool.properties[name]) for name in tool.to_fill}
    if copy_only:
        properties = {name: _narrowed(tool, name, p, question) for name, p in properties.items()}
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: dict(p) for name, p in properties.items()},
        "required": list(properties),
        "additionalProperties": False,
    }
    if "$defs" in tool.parameters:
        schema["$defs"] = tool.parameters["$defs"]
    return Arguments(tool, question, schema)


def _narrowed(tool: ToolSpec, name: str, prop: Mapping[str, Any], question: str) -> Mapping[str, Any]:
    kind = prop.get("type")
    if "enum" in prop or "const" in prop:
        return prop
    if kind in ("integer", "number"):
        values = [json.loads(n.lstrip("0") or "0") if "." not in n else float(n) for n in numbers(question)]
        fitting = [v for v in values if kind == "number" or isinstance(v, int)]
        return {"enum": fitting} if fitting else prop
    return _narrowed_text(tool, name, prop, question) if kind == "string" else prop


def _narrowed_text(tool: ToolSpec, name: str, prop: Mapping[str, Any], question: str) -> Mapping[str, Any]:
    about = _words(f"{name} {prop.get('title') or ''}")
    default = prop.get("default")
    default = default if isinstance(default, str) else None
    if {"expression", "expr", "formula"} & set(about):
        written, pattern = written_sum(question), sum_pattern(question)
        return {"enum": [written]} if written else {"type": "string", "pattern": pattern} if pattern else prop
    if {"path", "file", "filename", "dir", "directory", "folder"} & set(about):
        folders = bool({"dir", "directory", "folder"} & {*about, *_words(tool.name)})
        found = paths(question, default, folders)
    else:
        found = phrases(question) + ([default] if default is not None else [])
    return {"enum": found} if found else prop


def parse_answer(text: str | None) -> dict[str, Any] | str:
    """The arguments a model wrote; the text itself if it is no JSON object (cut off, for instance)."""
    try:
        value = json.loads(text or "")
    except (ValueError, RecursionError):
        return text or ""
    return value if isinstance(value, dict) else text or ""
