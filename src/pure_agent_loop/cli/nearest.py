"""What somebody may have meant."""

from __future__ import annotations

from collections.abc import Iterable

CUTOFF = 0.7


def nearest(word: str, known: Iterable[str], cutoff: float = CUTOFF, most: int = 1) -> list[str]:
    """The known words that are most like another one, the nearest first.

    Args:
        known: What could have been meant; of a name with dots also its last part counts.
        cutoff: How alike, from 0 to 1.
    """
    import difflib  # it is only needed where something is wrong

    by_word = {part: name for name in known for part in (name.rpartition(".")[2], name)}
    return [by_word[each] for each in difflib.get_close_matches(word, by_word, n=most, cutoff=cutoff)]


def did_you_mean(word: str, known: Iterable[str], cutoff: float = CUTOFF, most: int = 1) -> str:
    """A question with the nearest known words, after a blank; empty if there is none; see `nearest`."""
    found = nearest(word, known, cutoff, most)
    return f" Did you mean {' or '.join(dict.fromkeys(found))}?" if found else ""
