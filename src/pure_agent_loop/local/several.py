"""How many calls a question asks for, of which tools and with which part of it. Pure: no model, no I/O."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pure_agent_loop.local.clauses import Clause, clauses, sections
from pure_agent_loop.local.demand import demand_of, kinds_of
from pure_agent_loop.local.examples import ToolSpec
from pure_agent_loop.local.marks import Kind, marks
from pure_agent_loop.local.relevance import best_tool, content_words, missing_numbers
from pure_agent_loop.local.repeats import MOST_CALLS, repeats

_REFERS = re.compile(
    r"\b(?:same|it|its|this|that|these|those|them|their|again|there|both|each)\b", re.IGNORECASE
)
_SAME = re.compile(r"\bsame (\w+)", re.IGNORECASE)
_REFERRED: frozenset[Kind] = frozenset(("text", "list", "date"))
# Where a second thing begins that may be another tool's matter.
_PHRASE = re.compile(
    r",?\s+(?:and|as well as|along with|plus)\s+(?=(?:an?|the|for|in|at|of|from|to)\s)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Request:
    """One call that a question asks for.

    Args:
        tool: What is called.
        text: The question for it alone.
        lacking: The required arguments that this text says nothing of; the calls before it or the whole
            question do.
    """

    tool: ToolSpec
    text: str
    lacking: tuple[str, ...] = ()


def requests_in(question: str, tools: Sequence[ToolSpec], best: ToolSpec) -> list[Request]:
    """The calls a question asks for, in its order.

    Args:
        question: What the user asked.
        tools: Those it may call.
        best: The one that fits the whole question; the only one if the question is not taken apart.
    """
    bare = _bare(question)
    parts = _parts(bare, tools) if len(tools) > 1 else []
    if len({part.tool.name for part in parts}) < 2:
        parts = [Request(best, bare)]
    found = [Request(part.tool, text) for part in parts for text in repeats(part.text, part.tool)]
    if not 1 < len(found) <= MOST_CALLS:
        return [Request(best, question)]
    return [Request(each.tool, each.text, lacking(each.tool, each.text)) for each in found]


def lacking(tool: ToolSpec, text: str) -> tuple[str, ...]:
    """The required arguments for which a part of a question has no value of its own."""
    has = {mark.kind for mark in marks(text)}
    missing: set[Kind] = {"number"} if missing_numbers(text, tool) >= 1 else set()
    if _REFERS.search(text):
        missing |= _REFERRED - has
    same = set(content_words(" ".join(_SAME.findall(text))))
    kinds = kinds_of(tool, tool.to_fill)
    about = {name: set(content_words(name.replace("_", " "))) for name in kinds}
    return tuple(name for name, kind in kinds.items() if kind in missing or about[name] & same)


def _bare(question: str) -> str:
    """A question without the quotation marks that stand around the whole of it."""
    text = question.strip()
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
    return text[1:-1].strip() if is_quoted else question


def _tool_for(text: str, tools: Sequence[ToolSpec]) -> ToolSpec | None:
    """The tool that a part of a question calls for; one that it names goes first."""
    plain = re.sub(r"[.]\b", "_", text)
    named = [t for t in tools if re.search(r"[a-z][_A-Z]", t.name) and t.name in plain]
    return named[0] if len(named) == 1 else best_tool(text, tools)


def _parts(question: str, tools: Sequence[ToolSpec]) -> list[Request]:
    """The question in parts for one tool each; what fits no tool stays with what stands before it."""
    parts: list[Request] = []
    before = ""
    for section in sections(question):
        found = _parts_of(section, tools)
        if not found and parts:
            parts[-1] = Request(parts[-1].tool, f"{parts[-1].text} {section}")
        elif not found:
            before += section + " "
        else:
            found[0] = Request(found[0].tool, before + found[0].text)
            parts, before = parts + found, ""
    return _joined(parts)


def _parts_of(section: str, tools: Sequence[ToolSpec]) -> list[Request]:
    """The parts of a run of sentences about one matter; mostly it is one part."""
    parts: list[Request] = []
    before = ""
    for clause in _finer(clauses(section), tools):
        tool = _tool_for(clause.text, tools) if clause.is_asking or clause.is_marked else None
        if tool and parts and not clause.is_marked and not is_complete(tool, clause.text):
            tool = None
        if tool is not None:
            parts.append(Request(tool, before + clause.text))
            before = ""
        elif parts:
            parts[-1] = Request(parts[-1].tool, f"{parts[-1].text}{_joint(clause)}{clause.text}")
        else:
            before += clause.text + " "
    whole = _tool_for(section, tools)
    return [Request(whole, section)] if len(_joined(parts)) < 2 and whole else _joined(parts)


def _joined(parts: Sequence[Request]) -> list[Request]:
    """The parts, with neighbours for one tool as one."""
    joined: list[Request] = []
    for part in parts:
        if joined and joined[-1].tool == part.tool:
            joined[-1] = Request(part.tool, f"{joined[-1].text} {part.text}")
        else:
            joined.append(part)
    return joined


def _finer(found: Sequence[Clause], tools: Sequence[ToolSpec]) -> list[Clause]:
    """The clauses, with those cut in two whose halves are complete requests for different tools."""
    return [part for clause in found for part in _halves(clause, tools)]


def _halves(clause: Clause, tools: Sequence[ToolSpec]) -> list[Clause]:
    for found in _PHRASE.finditer(clause.text):
        first, second = clause.text[: found.start()], clause.text[found.end() :]
        one, other = _tool_for(first, tools), _tool_for(second, tools)
        if one and other and one != other and is_complete(one, first) and is_complete(other, second):
            rest = _halves(Clause(second, True, True, False), tools)
            return [Clause(first, clause.is_marked, clause.is_asking, clause.is_sentence), *rest]
    return [clause]


def is_complete(tool: ToolSpec, text: str) -> bool:
    """True if a text has a value for all that a tool requires, as far as that can be seen."""
    needs = demand_of(tool, text).needs
    has = Counter(mark.kind for mark in marks(text))
    return not missing_numbers(text, tool) and all(
        has[kind] for kind, count in needs.items() if kind != "number" and count
    )


def _joint(clause: Clause) -> str:
    return " " if clause.is_sentence else ", and "
