"""Which texts fit a few words best: BM25, over words of letters and over pairs of Chinese characters."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

_PIECES = re.compile(r"[^\W\d_\u3040-\u30ff\u3400-\u9fff]+|\d+|[\u3040-\u30ff\u3400-\u9fff]+")
_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_STEM = 5  # letters: words that begin alike are related, such as `create` and `created`
_K, _B = 1.2, 0.75  # the usual values: how soon repetition tires, how much length counts


def terms_of(text: str) -> Iterator[str]:
    """The words of a text, their beginnings, and single and paired characters of what has no spaces."""
    for found in _PIECES.findall(_HUMPS.sub(" ", text)):
        piece = found.lower()
        if "\u3040" <= piece[0] <= "\u9fff":
            yield from piece
            yield from map("".join, pairwise(piece))
        else:
            yield piece
            if len(piece) > _STEM:
                yield f"{piece[:_STEM]}*"
            elif len(piece) == _STEM:
                yield f"{piece}*"


class Ranking:
    """Texts that can be searched.

    Args:
        texts: In any order; equals keep it.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._counts = [Counter(terms_of(text)) for text in texts]
        self._lengths = [sum(counts.values()) for counts in self._counts]
        self._mean = sum(self._lengths) / len(texts) if texts else 0.0
        holding = Counter(term for counts in self._counts for term in counts)
        total = len(texts)
        self._weights = {
            term: math.log(1 + (total - number + 0.5) / (number + 0.5)) for term, number in holding.items()
        }

    def best(self, query: str, most: int) -> list[int]:
        """The numbers of the texts that fit best, the best first; none that shares nothing with the query."""
        wanted = [term for term in dict.fromkeys(terms_of(query)) if term in self._weights]
        scored = [(self._score(number, wanted), -number) for number in range(len(self._counts))]
        return [-number for score, number in sorted(scored, reverse=True)[:most] if score > 0]

    def _score(self, number: int, wanted: Sequence[str]) -> float:
        counts, room = self._counts[number], 1 - _B + _B * self._lengths[number] / (self._mean or 1.0)
        return sum(
            self._weights[term] * counts[term] * (_K + 1) / (counts[term] + _K * room)
            for term in wanted
            if term in counts
        )
