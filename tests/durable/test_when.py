"""Times of schedules in words, in both languages, and back."""

from __future__ import annotations

import pytest

from pure_agent_loop.durable import Schedule, read_when
from pure_agent_loop.durable.schedules.when import when_words
from pure_agent_loop.errors import ConfigError


@pytest.mark.parametrize(
    ("words", "cron", "shown"),
    [
        ("every day at 9", "0 9 * * *", "every day at 9:00"),
        ("Daily at 12am", "0 0 * * *", "every day at 0:00"),
        ("weekdays at 18:30", "30 18 * * 1-5", "weekdays at 18:30"),
        ("every weekend at 7:05 pm", "5 19 * * 0,6", "weekends at 19:05"),
        ("every Monday and Thursday at 9:00", "0 9 * * 1,4", "Mondays, Thursdays at 9:00"),
        ("每天9点", "0 9 * * *", "every day at 9:00"),
        ("每周一、周四 9:00", "0 9 * * 1,4", "Mondays, Thursdays at 9:00"),
        ("0 9 1 * *", "0 9 1 * *", "0 9 1 * *"),
        ("0 9 * * mon-fri", "0 9 * * mon-fri", "0 9 * * mon-fri"),
    ],
)
def test_days_and_a_time_are_a_cron_line(words, cron, shown):
    assert read_when(words) == {"cron": cron}
    assert when_words(cron, None)["en"] == shown
    Schedule("a", "b", "c", **read_when(words))
    again = when_words(cron, None)
    assert [read_when(text) for text in again.values()] == [
        {"cron": cron}
    ] * 2  # both languages are read back


@pytest.mark.parametrize(
    ("words", "seconds", "shown"),
    [
        ("every 15 minutes", 900, ["every 15 minutes", "每 15 分钟"]),
        ("every hour", 3_600, ["every hour", "每小时"]),
        ("每 2 天", 172_800, ["every 2 days", "每 2 天"]),
        ("every day", 86_400, ["every 24 hours", "每 24 小时"]),
        ("every 90 seconds", 90, ["every 90 seconds", "每 90 秒"]),
    ],
)
def test_an_interval_is_seconds(words, seconds, shown):
    assert read_when(words) == {"every": seconds}
    assert [*when_words(None, seconds).values()] == shown
    assert [read_when(text) for text in shown] == [{"every": seconds}] * 2


@pytest.mark.parametrize(
    "words",
    [
        "",
        "tomorrow",
        "every day at 25",
        "daily at 13pm",
        "every 0 minutes",
        "at 9",
        "monday and weekdays at 9",
    ],
)
def test_other_words_are_refused_with_examples(words):
    with pytest.raises(ConfigError, match=r"when=.*Examples: every day at 9, weekdays at 18:30"):
        read_when(words)
