"""Cost of a compaction: what rewriting the prompt prefix costs, compared with what a shorter prompt saves.

The functions here are pure.

Costs and savings are counted in tokens at the price of an uncached input token:

    cost   = tokens after the cut x (write - read)     these tokens are written to the cache again
    saving = tokens removed x read x requests          each expected request reads fewer tokens

The expected requests are the next one, and those that follow until the history, growing at its average pace,
reaches the limit again. No more are expected to follow than there have been requests so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pure_agent_loop.budget import Price
from pure_agent_loop.llm.values import TokenUsage

# Prices relative to an uncached token. Reading a token from the cache costs 0.1 at Anthropic, Alibaba (marked
# prompts) and OpenAI (GPT-5). Writing a token to the cache costs 1.25 at Anthropic (5 minutes) and Alibaba,
# and 1 elsewhere. Sources: https://docs.anthropic.com/en/docs/build-with-claude/prompt-caching,
# https://openai.com/api/pricing, https://www.alibabacloud.com/help/en/model-studio/context-cache
CACHED_PRICE, WRITE_PRICE = 0.1, 1.25
MAX_CUTS = 100  # maximum cuts to compare, so that a long history does not take quadratic time


class Rates(NamedTuple):
    """Token prices, as shares of the price of an uncached input token.

    Args:
        read: Price of a token read from the cache.
        write: Price of a token written to the cache.
    """

    read: float = CACHED_PRICE
    write: float = 1.0


class Cut(NamedTuple):
    """A point from which a shorter history replaces the current one.

    Args:
        start: Index of the first message that changes.
        cost: Tokens that rewriting costs.
        saving: Tokens that the expected requests save.
        requests: Expected requests until the history is full again, including the next one.
    """

    start: int
    cost: float
    saving: float
    requests: float


def rates_of(usage: TokenUsage, price: Price | None) -> Rates:
    """Return the rates of a run: from the model's price if known, else estimated from usage reports."""
    read = CACHED_PRICE
    if price is not None and price.cached is not None and price.input > 0:
        read = price.cached / price.input
    return Rates(read, WRITE_PRICE if usage.cache_write_tokens else 1.0)


def cut_at(start: int, old: Sequence[int], new: Sequence[int], limit: int, rounds: int, rates: Rates) -> Cut:
    """Return the cost and the saving if messages from `start` on are those of a shorter history.

    Args:
        old: Tokens of each message of the history.
        new: Tokens of each message of the shorter history; the first `start` numbers must be those of `old`.
        limit: Maximum tokens of the messages.
        rounds: Requests so far.
    """
    before, after = sum(old), sum(new)
    requests = _requests(limit - after, before, rounds)
    cost = sum(new[start:]) * max(0.0, rates.write - rates.read)
    return Cut(start, cost, (before - after) * rates.read * requests, requests)


def _requests(room: float, before: int, rounds: int) -> float:
    growth = max(1.0, before / max(1, rounds))
    return 1 + min(max(0.0, room / growth), rounds)


def choose_cut(old: Sequence[int], new: Sequence[int], limit: int, rounds: int, rates: Rates) -> Cut | None:
    """Return the best cut, after which messages get their shorter forms; None if no cut is worth its cost.

    Among the cuts that fit the limit and cost at most as much per request as a summary, choose the one with
    the highest net saving per request. If no cut fits, replace all messages, because a later rung will
    rewrite the history anyway.

    Args:
        old: Tokens of each message.
        new: Tokens of the shorter form of each message.
        limit: Maximum tokens of the messages.
        rounds: Requests so far.
    """
    changed = [index for index, pair in enumerate(zip(old, new, strict=True)) if pair[0] != pair[1]]
    if not changed:
        return None
    places = changed[:: -(-len(changed) // MAX_CUTS)]
    cuts = [(at, [*old[:at], *new[at:]]) for at in places]
    fitting = [cut_at(at, old, sizes, limit, rounds, rates) for at, sizes in cuts if sum(sizes) <= limit]
    most = summary_cost(limit, sum(old), rounds, rates)
    if worth := [cut for cut in fitting if cut.cost <= most * cut.requests]:
        return max(worth, key=lambda cut: (cut.saving - cut.cost) / cut.requests)
    return None if fitting else cut_at(places[0], old, cuts[0][1], limit, rounds, rates)


def summary_cost(limit: int, before: int, rounds: int, rates: Rates) -> float:
    """Return a summary's cost per request: the history is read once, and half its length is cached again."""
    cost = limit + limit / 2 * max(0.0, rates.write - rates.read)
    return cost / _requests(limit / 2, before, rounds)
