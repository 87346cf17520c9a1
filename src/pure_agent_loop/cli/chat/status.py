"""The one line that says how things stand, cut sensibly where the terminal is narrow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pure_agent_loop.cli.chat.calls import seconds
from pure_agent_loop.cli.chat.safe import Ink, one_line
from pure_agent_loop.cli.chat.words import Words

if TYPE_CHECKING:
    from rich.text import Text

    from pure_agent_loop.kernel.state import QueryState

LEAST_NAME = 10  # columns that the name of a model keeps
FULL = 0.8  # of the window: from here on it is worth a warning


@dataclass(frozen=True, slots=True)
class Facts:
    """What the line says. What is empty, None or 0 is not said.

    Args:
        model: Its name.
        mode: What the agent may do.
        note: Words of the application, such as what is queued.
        step: The step at hand.
        used: Tokens in the context.
        window: Tokens that fit.
        tokens: Tokens of the run.
        cost: Money spent.
        seconds: How long it took so far.
    """

    model: str = ""
    mode: str = ""
    note: str = ""
    step: int = 0
    used: int = 0
    window: int = 0
    tokens: int = 0
    cost: float | None = None
    seconds: float | None = None


def status_line(facts: Facts, ink: Ink, words: Words, width: int) -> Text:
    """The line: as much as fits, the least important left out first.

    Args:
        facts: What to say.
        ink: Makes lines for the terminal.
        words: Says our words.
        width: Columns.
    """
    fields = _fields(facts, ink, words)
    # Where there is no room: first what is nice to know, then what a person chose and knows.
    for name in ("tokens", "step", "cost", "model", "seconds", "note", "context", "mode"):
        over = _line(fields, ink).cell_len - width
        if over <= 0:
            break
        role, words_shown = fields.pop(name, ("", ""))
        if name == "model":
            shorter = max(len(words_shown) - over, LEAST_NAME)
            fields = {name: (role, _shortened(words_shown, shorter)), **fields}
    return ink.fit(_line(fields, ink), width)


def _fields(facts: Facts, ink: Ink, words: Words) -> dict[str, tuple[str, str]]:
    model, mode = one_line(facts.model.rpartition("/")[2], 60), one_line(facts.mode, 30)
    if ink.reader:
        model, mode = (
            words(key, name=name) if name else "" for key, name in (("model", model), ("mode", mode))
        )
    full = facts.used / facts.window if facts.window else 0.0
    used = f"{full:.0%}" if facts.window else short(facts.used)
    fields = {
        "model": ("bold", model),
        "mode": ("label", mode),
        "note": ("warning", one_line(facts.note, 60)),
        "step": ("dim", words("step", number=facts.step) if facts.step else ""),
        "context": ("warning" if full >= FULL else "dim", words("context", used=used) if facts.used else ""),
        "tokens": ("dim", words("tokens", count=short(facts.tokens)) if facts.tokens else ""),
        "cost": ("dim", f"${facts.cost:.2f}" if facts.cost else ""),
        "seconds": ("dim", "" if facts.seconds is None else seconds(int(facts.seconds))),
    }
    return {name: field for name, field in fields.items() if field[1]}


def _line(fields: dict[str, tuple[str, str]], ink: Ink) -> Text:
    line = ink.text()
    for field in fields.values():
        if line:
            line.append(", " if ink.reader else " · ", ink.styles["dim"])
        line.append_text(ink.text(field))
    return line


def _shortened(name: str, length: int) -> str:
    return name if len(name) <= length else name[: length - 1] + "…"


def short(count: int) -> str:
    """Such as ``950``, ``4.1k``, ``38k`` or ``1.2M``."""
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if count >= size:
            value = count / size
            return f"{value:.1f}{letter}" if value < 10 else f"{value:.0f}{letter}"
    return str(count)


def context_rows(state: QueryState, known: Mapping[str, Any], width: int) -> str:
    """What fills the context window, a row a part.

    Args:
        state: The conversation.
        known: ``tokens`` of the last request and the ``window``, as far as they are known.
        width: Of the bars; 0 for none.
    """
    from pure_agent_loop.llm.tokens import estimate_message, estimate_tokens

    sizes = {"system": estimate_tokens(state.system_prompt)}
    for message in state.messages:
        role = str(message.get("role"))
        sizes[role] = sizes.get(role, 0) + estimate_message(message)
    used, window = known.get("tokens") or sum(sizes.values()), known.get("window")
    sizes["tools"] = max(0, used - sum(sizes.values()))
    whole = max(window or used, 1)
    rows = [f"{name:<10} {_bar(size, whole, width)}{size}" for name, size in sizes.items()]
    return "\n".join([*rows, f"{'':<10} {_bar(used, whole, width)}{used} / {window or '?'}"])


def _bar(size: int, whole: int, width: int) -> str:
    filled = min(width, round(width * size / whole))
    return "█" * filled + "░" * (width - filled) + " " * bool(width)
