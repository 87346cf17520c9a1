"""Verify a syntax tree: its words and operators must cover the line as bash would read it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pure_agent_loop.support.language import model_text

Tile = tuple[int, int, str]

_BEGINS = frozenset(
    {";", "\n", "&&", "||", "|", "|&", "(", "{", "!", "if", "then", "else", "elif", "while", "until", "do"}
)
_ENDS = frozenset({")", "}", "fi", "done"})


def check_tiles(
    source: str, tiles: Sequence[Tile], start: int, end: int, trouble: Callable[[str], None]
) -> None:
    """Check that bash, reading from left to right, would begin commands at the same places as the tree."""
    beginning, before, ended = True, "", start
    for at, until, kind in tiles:
        gap = source[ended:at]
        if at < ended or gap.strip(" \t\n"):
            return trouble(model_text("shell_text_between"))
        if "\n" in gap:
            beginning, before = True, "\n"
        elif _need_blank(kind, before, source[at:until]) and not gap:
            return trouble(model_text("shell_words_touch"))
        beginning = _next(kind, beginning, trouble)
        before, ended = kind, until
    if source[ended:end].strip(" \t\n"):
        trouble(model_text("shell_text_after"))
    return None


def _next(kind: str, beginning: bool, trouble: Callable[[str], None]) -> bool:
    if kind in _BEGINS:
        return True
    if kind == "name" or kind in ("for", "assignment"):
        if not beginning:
            trouble(model_text("shell_command_unseen"))
        return kind == "assignment"
    if kind == "word" or kind == "in":
        if beginning:
            trouble(model_text("shell_word_for_command"))
        return False
    if kind in _ENDS:
        return False
    if kind not in ("redirect", "comment"):
        trouble(model_text("shell_operator", kind=kind))
    return beginning


def _need_blank(kind: str, before: str, text: str) -> bool:
    """Return True if bash needs a blank between two neighbouring parts."""
    if kind == "comment":
        return before not in _BEGINS and before != ""
    if before in ("{", "!"):
        return True
    wordlike = kind.isalpha() and (kind != "redirect" or text[:1].isdigit())
    return wordlike and before.isalpha()
