"""Render the status line, shortened to the width of the terminal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pure_agent_loop.cli.chat.calls import (
    seconds,
)
from pure_agent_loop.cli.chat.styling import Styler, one_line
from pure_agent_loop.cli.chat.words import Words
from pure_agent_loop.cli.output import money

if TYPE_CHECKING:
    from rich.text import Text


MIN_NAME = 10  # minimum columns for the model name
FULL = 0.8  # share of the context window in use at which a warning is shown
MODE_KEY = "⇧⇥"  # Shift+Tab


@dataclass(frozen=True, slots=True)
class Facts:
    """The fields of the status line; an empty, None or 0 field is not shown.

    Args:
        note: A notice, for example that the run is stopping.
        used: Tokens of the next request.
        window: Size of the context window, in tokens.
        speed: Tokens per second of the answer that is being written.
    """

    model: str = ""
    mode: str = ""
    note: str = ""
    used: int = 0
    window: int = 0
    cost: float | None = None
    currency: str = "USD"
    seconds: float | None = None
    speed: int = 0


def status_line(facts: Facts, styler: Styler, words: Words, width: int) -> Text:
    """Render the status line, dropping the least important fields until it fits."""
    fields = _fields(facts, styler, words)
    # The least useful fields are dropped first, the fields that the user chose last.
    for name in ("speed", "seconds", "shorten", "key", "cost", "model", "context", "note", "mode"):
        over = _line(fields, styler).cell_len - width
        if over <= 0:
            break
        role, model = fields.get("model", ("", ""))
        if name != "shorten":
            fields.pop(name, None)
        elif model and not styler.reader:
            fields["model"] = (role, _shortened(model, max(len(model) - over, MIN_NAME)))
    return styler.fit(_line(fields, styler), width)


def _fields(facts: Facts, styler: Styler, words: Words) -> dict[str, tuple[str, str]]:
    model, mode = one_line(facts.model.rpartition("/")[2], 60), one_line(facts.mode, 30)
    if styler.reader:
        model, mode = (
            words(key, name=name) if name else "" for key, name in (("model", model), ("mode", mode))
        )
    full = facts.used / facts.window if facts.window else 0.0
    used = f"{full:.0%}" if facts.window else short(facts.used)
    fields = {
        "mode": (facts.mode if facts.mode in styler.styles else "label", mode),
        "key": ("dim", "" if styler.reader or not mode else MODE_KEY),
        "note": ("warning", one_line(facts.note, 60)),
        "model": ("dim", model),
        "context": ("warning" if full >= FULL else "dim", words("context", used=used) if facts.used else ""),
        "cost": ("dim", money(facts.cost, facts.currency) if facts.cost else ""),
        "seconds": ("dim", "" if facts.seconds is None else seconds(int(facts.seconds))),
        "speed": ("dim", words("speed", count=facts.speed) if facts.speed else ""),
    }
    return {name: field for name, field in fields.items() if field[1]}


def _line(fields: dict[str, tuple[str, str]], styler: Styler) -> Text:
    line = styler.text()
    for name, field in fields.items():
        if line:
            line.append(", " if styler.reader else " " if name == "key" else " · ", styler.styles["dim"])
        line.append_text(styler.text(field))
    return line


def _shortened(name: str, length: int) -> str:
    return name if len(name) <= length else name[: length - 1] + "…"


def short(count: int) -> str:
    """Format a count, such as ``950``, ``4.1k``, ``38k`` or ``1.2M``."""
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if count >= size:
            value = count / size
            return f"{value:.1f}{letter}" if value < 10 else f"{value:.0f}{letter}"
    return str(count)
