"""When a schedule is due, and what of it is run late."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pure_agent_loop import ConfigError
from pure_agent_loop.durable import Schedule, heartbeat, to_command, to_file, to_session
from pure_agent_loop.durable.schedules.schedule import LATE_SECONDS, Cron, Interval, due_times


def at(text):
    return datetime.fromisoformat(text).timestamp()


def shown(moment):
    return datetime.fromtimestamp(moment, timezone.utc).strftime("%m-%d %H:%M")


def following(line, zone, start, count):
    times, found, moment = Cron(line, zone), [], at(start)
    for _ in range(count):
        moment = times.after(moment)
        found.append(shown(moment))
    return found


def test_a_line_follows_its_zone():
    assert following("0 9 * * 1-5", "UTC", "2026-01-02T09:00:00+00:00", 2) == ["01-05 09:00", "01-06 09:00"]
    assert following("0 9 * * *", "Europe/Oslo", "2026-03-27T12:00:00+00:00", 2) == [
        "03-28 08:00",
        "03-29 07:00",
    ]
    assert following("0 9 * * *", "Asia/Kolkata", "2026-03-27T12:00:00+00:00", 1) == ["03-28 03:30"]
    assert following("0 0 29 2 *", "UTC", "2025-01-01T00:00:00+00:00", 1) == ["02-29 00:00"]


def test_an_hour_that_is_left_out_does_not_leave_a_daily_run_out():
    found = following("30 2 * * *", "Europe/Oslo", "2026-03-28T00:00:00+00:00", 3)
    assert found == ["03-28 01:30", "03-29 01:00", "03-30 00:30"]  # at 3 o'clock of the short day


def test_an_hour_that_comes_twice_has_a_daily_run_once():
    found = following("30 2 * * *", "Europe/Oslo", "2026-10-24T12:00:00+00:00", 2)
    assert found == ["10-25 00:30", "10-26 01:30"]
    # also if it is looked at from inside the second of the two hours
    assert following("45 2 * * *", "Europe/Oslo", "2026-10-25T01:30:00+00:00", 1) == ["10-26 01:45"]


def test_half_hourly_schedule_fires_in_both_repeated_hours():
    found = following("*/30 * * * *", "Europe/Oslo", "2026-10-25T00:00:00+00:00", 4)
    assert found == ["10-25 00:30", "10-25 01:00", "10-25 01:30", "10-25 02:00"]


@given(
    st.sampled_from(["30 2 * * *", "*/7 * * * *", "0 1-4 * * *", "15 3 1,15 * 1"]),
    st.integers(0, 370 * 86_400),
    st.integers(0, 40 * 86_400),
    st.integers(1, 5),
)
def test_the_newest_of_a_span_are_the_last_of_all(line, offset, span, most):
    first = at("2026-01-01T00:00:00+00:00") + offset
    times, everything = Cron(line, "Europe/Oslo"), []
    moment = times.after(first - 0.001)
    while moment <= first + span and len(everything) < 3_000:
        everything.append(moment)
        moment = times.after(moment)
    assert len(everything) == len(set(everything))
    if len(everything) < 3_000:
        assert times.latest(first, first + span, most) == everything[-most:]


@given(st.floats(1, 10_000), st.floats(0, 2e9), st.floats(0, 1e8), st.integers(1, 5))
def test_every_so_many_seconds(seconds, anchor, later, most):
    times = Interval(seconds, anchor)
    moment = anchor + later
    following = times.after(moment)
    assert moment < following <= moment + seconds + 0.002
    found = times.latest(anchor, following, most)
    assert found[-1] == following
    assert len(found) <= most
    assert found == sorted(set(found))


@pytest.mark.parametrize(
    ("missed", "down", "expected"),
    [
        ("skip", 50, [0]),  # it is nearly on time
        ("skip", 1_000, []),
        ("skip", 1_230, [1_200]),
        ("once", 1_000, [900]),
        ("once", 1_230, [1_200]),  # one that is on time stands for all
        ("all", 1_000, [600, 900]),
        ("all", 1_230, [600, 900, 1_200]),
    ],
)
def test_missed_firings_run_as_configured(missed, down, expected):
    found = due_times(Interval(300, 0.0), 300.0, 300.0 + down, missed, 2)
    assert [each - 300.0 for each in found] == expected


def test_a_long_time_away_is_bounded():
    now = at("2026-06-01T00:00:30+00:00")
    found = due_times(Cron("* * * * *", "Europe/Oslo"), at("2016-01-01T00:00:00+00:00"), now, "all", 3)
    assert [now - each for each in found] == [210, 150, 90, 30]
    found = due_times(Interval(1, 0.0), 1.0, now, "all", 3)
    assert [now - each for each in found] == [3, 2, 1, 0]
    assert LATE_SECONDS == 60


BAD = [
    ({"cron": "0 9 * *"}, "4 fields, but needs 5"),
    ({"cron": "0 9 * * * *"}, "6 fields"),
    ({"cron": "61 9 * * *"}, "minute '61'"),
    ({"cron": "0 9-30 * * *"}, "hour '9-30'"),
    ({"cron": "0 9 32 * *"}, "day of the month '32'"),
    ({"cron": "0 9 * foo *"}, "month 'foo'"),
    ({"cron": "0 9 * * 9"}, "day of the week '9'"),
    ({"cron": "0 9 30 2 *"}, "never occurs"),
    ({"cron": "0 9 * * *", "every": 5}, "exclude each other"),
    ({}, "exclude each other"),
    ({"every": 0.5}, "every=0.5"),
    ({"every": float("nan")}, "every=nan"),
    ({"cron": "0 9 * * *", "timezone": "Mars/Base"}, "timezone='Mars/Base'"),
    ({"cron": "0 9 * * *", "timezone": "../../etc/passwd"}, "timezone="),
    ({"every": 5, "name": "a b"}, "name='a b'"),
    ({"every": 5, "name": "x" * 31}, "30 letters"),
    ({"every": 5, "agent": "a b"}, "is not a valid agent name"),
    ({"every": 5, "prompt": " "}, "prompt=' '"),
    ({"every": 5, "prompt_file": "a.md"}, "either a prompt or prompt_file"),
    ({"every": 5, "media": "a.png"}, "media='a.png' must be a list of paths"),
    ({"every": 5, "media": [b"x"]}, "must be a list of paths"),
    ({"every": 5, "missed": "some"}, "skip, once, all"),
    ({"every": 5, "overlap": "both"}, "skip, queue"),
    ({"every": 5, "max_missed": 0}, "max_missed=0"),
    ({"every": 5, "session": "a\nb"}, "session"),
    ({"every": 5, "deliver": "a.md"}, "deliver='a.md'"),
]


@pytest.mark.parametrize(("options", "words"), BAD)
def test_unrunnable_schedule_is_rejected_by_name(options, words):
    given = {"name": "a", "agent": "worker", "prompt": "go", **options}
    with pytest.raises(ConfigError) as found:
        Schedule(**given)
    assert words in str(found.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda folder: to_session("a\nb"),
        lambda folder: to_file(""),
        lambda folder: to_file(folder / "a\0"),
        lambda folder: to_file(folder),
        lambda folder: to_file(folder / "missing" / "a"),
        lambda folder: to_command("ls -l"),
        lambda folder: to_command([]),
        lambda folder: to_command(["ls", "a\0b"]),
        lambda folder: to_command(["ls"], 0),
        lambda folder: to_command(["ls"], retries=-1),
        lambda folder: to_command(["ls"], cwd=folder / "missing"),
    ],
)
def test_a_delivery_that_cannot_work_is_refused(make, tmp_path):
    with pytest.raises(ConfigError):
        make(tmp_path)


def test_it_is_kept_as_json(tmp_path, monkeypatch):
    monkeypatch.setenv("TZ", "Europe/Oslo")
    monkeypatch.chdir(tmp_path)
    whole = heartbeat("b", "worker", timezone="local", deliver=to_command(["cat"], 5, idempotent=True))
    assert whole.timezone == "Europe/Oslo"
    assert whole.prompt_file == str(tmp_path / "HEARTBEAT.md")
    assert Schedule.from_dict(whole.to_dict()) == whole
