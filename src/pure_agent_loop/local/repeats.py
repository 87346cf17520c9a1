"""A question that asks one thing of several values, as one question for each. Pure: no model, no I/O.

"The area of circles with radius 5, 10 and 15" is three questions, "for X at 3 % over 5 years and for Y at
4 % over 10 years" is two. A question is taken apart only if it has more values of a kind than one call of the
tool takes, if they stand in a row or in groups of one build, and if each call then still gets what it needs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise, product

from pure_agent_loop.local.clauses import clauses
from pure_agent_loop.local.demand import Demand, demand_of
from pure_agent_loop.local.examples import ToolSpec
from pure_agent_loop.local.marks import Kind, Mark, marks
from pure_agent_loop.local.relevance import content_words

MOST_CALLS = 10
_LONGEST_GROUP, _MOST_MARKS = 8, 40
# What may stand between two values of a row.
_ROW = re.compile(
    r"\W{0,4}?(?:\s?[a-zA-Z°%²³/]{1,12})?"  # a unit
    r"(?:\s*[,;/&]\s*(?:and\s+|also\s+)?|\s+and\s+)(?:then\s+|also\s+|another\s+)?"
    r"(?:(?:in|for|of|at|on|by|with)\s+)?(?:the\s+|an?\s+)?\W{0,2}",
    re.IGNORECASE,
)
# Where one group of values can end and the next begin.
_BREAK = re.compile(
    r"[.?!]['\"”]?\s+(?=[A-Z\"'])|;\s*|\n+|,?\s+(?:and|as well as)\s+(?:then\s+|also\s+|finally\s+)?"
    r"|,\s+(?:then\s+)?|\s+then\s+|\s+versus\s+"
)
_ORDER = frozenset(re.findall(r"\w+", "first second third fourth fifth last another other next then also"))
_REFERS = re.compile(r"\b(?:same|another|again|it|its|this|that|these|those)\b", re.IGNORECASE)
_RESPECTIVELY = re.compile(r"\brespectively\b", re.IGNORECASE)


def repeats(question: str, tool: ToolSpec) -> list[str]:
    """One question for each call of the tool; the question itself if it is one."""
    by_values = _by_values(question, tool)
    if len(by_values) > 1 and not any(_is_too_much(text, tool) for text in by_values):
        return by_values
    by_clauses = [text for part in _by_clauses(question, tool) for text in _by_values(part, tool)]
    found = by_clauses if len(by_clauses) > 1 else by_values
    return found if len(found) <= MOST_CALLS else [question]


def _found(question: str, tool: ToolSpec, demand: Demand) -> list[Mark]:
    """The values that the tool could take."""
    kinds = set(demand.takes) - demand.row_kinds
    return [m for m in marks(question) if m.kind in kinds and not _is_of_tool(m, tool)]


def _is_too_much(question: str, tool: ToolSpec) -> bool:
    """True if a question has more values than one call takes."""
    demand = demand_of(tool, question)
    return _has_excess(_found(question, tool, demand), demand)


def _by_clauses(question: str, tool: ToolSpec) -> list[str]:
    """The question in parts that each ask for something and bring values of their own."""
    demand = demand_of(tool, question)
    if demand.has_object or not _is_too_much(question, tool):
        return [question]
    before, parts = "", list[str]()
    known: set[str] = set()
    for clause in clauses(question):
        own = [m for m in _found(clause.text, tool, demand) if demand.needs.get(m.kind)]
        values, kinds = {m.text for m in own}, {m.kind for m in own}
        is_enough = kinds >= set(demand.needs) - demand.row_kinds - {"list"} or _REFERS.search(clause.text)
        if (clause.is_marked or clause.is_asking) and values - known and is_enough:
            parts.append(before + clause.text if not parts else clause.text)
        elif parts:
            parts[-1] += (" " if clause.is_sentence else ", and ") + clause.text
        else:
            before += clause.text + " "
        known |= values
    return parts or [question]


def _by_values(question: str, tool: ToolSpec) -> list[str]:
    """The question with one value of each row, or one group of values, at a time."""
    demand = demand_of(tool, question)
    found = _found(question, tool, demand)
    if demand.has_object or not 2 <= len(found) <= _MOST_MARKS or not _has_excess(found, demand):
        return [question]
    together = bool(_RESPECTIVELY.search(question))
    rows = [row for row in _rows(question, found) if _may_split(row, found, demand, together)]
    groups = _groups(question, found, demand)
    in_rows, in_groups = sum(map(len, rows)), sum(map(len, groups))
    if rows and (in_rows > in_groups - (len(rows) == 1) or together):
        texts = _of_rows(question, rows)
    else:
        texts = _of_groups(question, groups) if groups else [question]
    return texts if len(texts) <= MOST_CALLS else [question]


def _is_of_tool(mark: Mark, tool: ToolSpec) -> bool:
    """True for a name that is no value but what the tool is about ("BMI")."""
    words = content_words(mark.text)
    about = content_words(f"{tool.name.replace('_', ' ')} {tool.description}")
    return mark.kind == "text" and bool(words) and all(word in about for word in words)


def _has_excess(found: Sequence[Mark], demand: Demand) -> bool:
    counts = Counter(mark.kind for mark in found)
    return any(counts[kind] > demand.takes[kind] for kind in counts)


def _rows(question: str, found: Sequence[Mark]) -> list[list[Mark]]:
    """The runs of values of one kind with nothing but commas, "and" and units between them."""
    rows: list[list[Mark]] = []
    for mark in found:
        last = rows[-1][-1] if rows else None
        if last and last.kind == mark.kind and _ROW.fullmatch(question[last.end : mark.start]):
            rows[-1].append(mark)
        else:
            rows.append([mark])
    return [row for row in rows if len(row) > 1]


def _may_split(row: Sequence[Mark], found: Sequence[Mark], demand: Demand, together: bool) -> bool:
    """True if a call takes one value of the row, and the others it needs stand elsewhere."""
    kind = row[0].kind
    others = sum(mark.kind == kind for mark in found) - len(row)
    if kind in demand.row_kinds or len({mark.text for mark in row}) < len(row):
        return False
    needs, takes = demand.needs.get(kind, 0), demand.takes[kind]
    if together and takes > 1 and others + len(row) == len(row) * takes:
        return True
    if kind == "text" and not demand.has_pair:
        return needs > 0 and others < takes  # what else it needs may be written without capitals
    return needs > 0 and needs - 1 <= others < takes and (kind == "number" or len(row) > takes)


def _of_rows(question: str, rows: Sequence[Sequence[Mark]]) -> list[str]:
    """The question with one value in place of each row: pairs of them, or every combination."""
    together = _RESPECTIVELY.search(question) and len({len(row) for row in rows}) == 1
    chosen = zip(*rows, strict=True) if together else product(*rows)
    return [_with_one_each(question, rows, each) for each in chosen]


def _with_one_each(question: str, rows: Sequence[Sequence[Mark]], chosen: Sequence[Mark]) -> str:
    for row, mark in reversed(list(zip(rows, chosen, strict=True))):
        question = question[: row[0].start] + mark.text + question[row[-1].end :]
    return question


def _groups(question: str, found: Sequence[Mark], demand: Demand) -> list[Sequence[Mark]]:
    """Neighbouring groups of values of one build, each enough for a call; of several ways the widest."""
    best: list[Sequence[Mark]] = []
    for start, size in product(range(len(found)), range(1, _LONGEST_GROUP + 1)):
        groups: list[Sequence[Mark]] = [found[start : start + size]]
        for at in range(start + size, len(found) - size + 1, size):
            following = found[at : at + size]
            if not _is_alike(groups[0], following) or not _boundary(question, groups[-1], following):
                break
            if _says_else(question, found, at, start, size):
                break
            groups.append(following)
        if sum(map(len, groups)) > sum(map(len, best)) and _are_calls(groups, found, demand):
            best = groups
    return best


def _is_alike(a: Sequence[Mark], b: Sequence[Mark]) -> bool:
    return [mark.kind for mark in a] == [mark.kind for mark in b]


def _says_else(question: str, found: Sequence[Mark], at: int, start: int, size: int) -> bool:
    """True if what stands before two numbers says that they are different things ("width", "height")."""
    for i in range(size):
        if found[start + i].kind != "number":
            if size == 1 and _word_before(question, found[start]) != _word_before(question, found[at]):
                return True
            continue
        first, second = (_said_before(question, found, k) for k in (start + i, at + i))
        if first and second and not set(first) & set(second):
            return True
    return False


def _word_before(question: str, mark: Mark) -> str:
    words = re.findall(r"[A-Za-z]+", question[: mark.start])
    words = [w for w in words[-3:] if w.lower() not in ("the", "a", "an", "also", "then", "another")]
    return words[-1].lower() if words else ""


def _said_before(question: str, found: Sequence[Mark], index: int) -> tuple[str, ...]:
    """The words between a value and the one before it, from the last break on."""
    begin = found[index - 1].end if index else 0
    text = re.split(r"[,;.?!]\s|\band\b", question[begin : found[index].start])[-1]
    return content_words(" ".join(w for w in text.split() if w.lower() not in _ORDER))


def _boundary(question: str, before: Sequence[Mark], after: Sequence[Mark]) -> re.Match[str] | None:
    """Where between two groups the one ends: the clearest break between them."""
    breaks = list(_BREAK.finditer(question, before[-1].end, after[0].start))
    return max(
        breaks, key=lambda found: (bool(re.search(r"[.?!;\n]", found[0])), found.start()), default=None
    )


def _are_calls(groups: Sequence[Sequence[Mark]], found: Sequence[Mark], demand: Demand) -> bool:
    """True if a group with what stands around the groups is one call, and all together are more than one."""
    if len(groups) < 2 or len({tuple(mark.text for mark in group) for group in groups}) < len(groups):
        return False
    each, around = _counted(groups[0]), _counted(found)
    around.subtract({kind: count * len(groups) for kind, count in each.items()})
    if any(kind in demand.row_kinds for kind in each):
        return False
    if not any(demand.needs.get(kind) and n * len(groups) > demand.takes[kind] for kind, n in each.items()):
        return False
    has_needs = all(each[kind] + around[kind] >= n for kind, n in demand.needs.items() if kind != "text")
    texts = each["text"] + around["text"] >= demand.needs.get("text", 0) or (
        not each["text"] or (len(groups[0]) > 1 and not demand.has_pair)
    )
    return has_needs and texts and all(n <= demand.takes[kind] for kind, n in each.items())


def _counted(found: Sequence[Mark]) -> Counter[Kind]:
    """How many values of each kind; a name with where it is can be two."""
    return Counter(mark.kind for mark in found)


def _of_groups(question: str, groups: Sequence[Sequence[Mark]]) -> list[str]:
    """The question with one group each: what stands before all of them, the group, what follows all."""
    breaks = [b for b in (_boundary(question, *pair) for pair in pairwise(groups)) if b]
    starts = [_start(question, groups[0][0], question[breaks[0].end() : groups[1][0].start], breaks[0][0])]
    starts += [b.end() for b in breaks]
    ends = [*(b.start() for b in breaks), len(question)]
    before, after = question[: starts[0]], question[groups[-1][-1].end :]
    texts = []
    for group, start, end in zip(groups, starts, ends, strict=True):
        own = question[group[-1].end : end]
        rest = "" if end == len(question) else _rest(after, bool(re.search(r"[A-Za-z]", own)))
        texts.append(before + question[start:end] + rest)
    return texts


def _start(question: str, first: Mark, own: str, at_break: str) -> int:
    """Where the first group begins: with its clause if the others have clauses of their own."""
    if not content_words(own):
        return first.start
    begun = [b.end() for b in _BREAK.finditer(question, 0, first.start) if re.search(r"[.,;:?!\n]", b[0])]
    return begun[-1] if begun else 0 if re.search(r"[.;?!\n]", at_break) else first.start


def _rest(after: str, has_unit: bool) -> str:
    """What follows the last group, for the others: without the last one's unit if they have their own."""
    if not has_unit:
        return after
    found = re.search(r"[.?!,;]\s|\s(?:for|with|at|in|using|over)\s", after)
    return after[found.start() :] if found else ""
