"""What a cut of the history costs and saves, as properties."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pure_agent_loop import Price, TokenUsage
from pure_agent_loop.compaction.cost import Cut, Rates, choose_cut, cut_at, rates_of, summary_cost

PAIRS = st.tuples(st.integers(1, 2_000), st.integers(1, 100)).map(lambda pair: (pair[0], min(pair)))
HISTORIES = st.lists(PAIRS, min_size=1, max_size=40)
LIMITS, ROUNDS = st.integers(1, 20_000), st.integers(1, 50)
RATES = st.builds(Rates, st.floats(0, 1), st.floats(1, 2))


def after(start: int, old: list[int], new: list[int]) -> list[int]:
    return [*old[:start], *new[start:]]


def cuts_of(old: list[int], new: list[int], limit: int, rounds: int, rates: Rates) -> list[Cut]:
    """All cuts that fit."""
    starts = [n for n, pair in enumerate(zip(old, new, strict=True)) if pair[0] != pair[1]]
    sizes = [(n, after(n, old, new)) for n in starts]
    return [cut_at(n, old, size, limit, rounds, rates) for n, size in sizes if sum(size) <= limit]


@given(HISTORIES, LIMITS, ROUNDS, RATES)
def test_no_cut_costs_more_per_request_than_a_summary_unless_the_limit_forces_it(
    history: list[tuple[int, int]], limit: int, rounds: int, rates: Rates
) -> None:
    old, new = (list(sizes) for sizes in zip(*history, strict=True))
    cut = choose_cut(old, new, limit, rounds, rates)
    fitting = cuts_of(old, new, limit, rounds, rates)
    most = summary_cost(limit, sum(old), rounds, rates)
    if cut is None:  # nothing changes, or the next rung is cheaper
        assert old == new or all(each.cost > most * each.requests for each in fitting)
        assert old == new or fitting
    elif fitting:
        assert cut in fitting
        assert cut.cost <= most * cut.requests
    else:  # a later rung has to follow, and rewrites the history anyway
        assert sum(after(cut.start, old, new)) > limit


@given(HISTORIES, LIMITS, ROUNDS, RATES)
def test_of_all_cuts_that_fit_the_best_is_chosen(
    history: list[tuple[int, int]], limit: int, rounds: int, rates: Rates
) -> None:
    old, new = (list(sizes) for sizes in zip(*history, strict=True))
    cut = choose_cut(old, new, limit, rounds, rates)
    fitting = cuts_of(old, new, limit, rounds, rates)
    if cut is not None and fitting:
        most = summary_cost(limit, sum(old), rounds, rates)
        worth = [
            (each.saving - each.cost) / each.requests for each in fitting if each.cost <= most * each.requests
        ]
        assert (cut.saving - cut.cost) / cut.requests == max(worth)


@given(HISTORIES, LIMITS, ROUNDS, RATES)
def test_costs_and_savings_are_not_negative(
    history: list[tuple[int, int]], limit: int, rounds: int, rates: Rates
) -> None:
    old, new = (list(sizes) for sizes in zip(*history, strict=True))
    for cut in cuts_of(old, new, limit, rounds, rates):
        assert min(cut.cost, cut.saving) >= 0
        assert 1 <= cut.requests <= rounds + 1


def test_small_gain_early_in_the_history_keeps_the_cached_prefix() -> None:
    old, new = [100, 1_000, 8_000, 8_000], [100, 900, 8_000, 50]
    cut = choose_cut(old, new, 12_000, 4, Rates())
    assert cut is not None
    assert (cut.start, round(cut.cost)) == (3, 45)


def test_where_reading_costs_as_much_as_writing_all_is_cut() -> None:
    old, new = [100, 1_000, 8_000, 8_000], [100, 900, 8_000, 50]
    cut = choose_cut(old, new, 12_000, 4, Rates(read=1.0))
    assert cut is not None
    assert (cut.start, cut.cost) == (1, 0)


def test_a_cut_after_which_the_next_would_be_due_at_once_is_left_to_a_summary() -> None:
    old, new = [100, 1_000, *[900] * 10], [100, 50, *[900] * 10]
    assert choose_cut(old, new, 9_200, 10, Rates()) is None
    assert choose_cut(old, new, 9_000, 10, Rates()) is not None  # it does not fit: a later rung follows


def test_rates_come_from_the_price_and_the_servers_report() -> None:
    usage = TokenUsage(10, 1, 11)
    assert rates_of(usage, None) == (0.1, 1.0)
    assert rates_of(TokenUsage(10, 1, 11, cache_write_tokens=5), None) == (0.1, 1.25)
    assert rates_of(usage, Price(input=2.0, output=8.0, cached=0.5)) == (0.25, 1.0)
    assert rates_of(usage, Price(input=2.0, output=8.0)) == (0.1, 1.0)
