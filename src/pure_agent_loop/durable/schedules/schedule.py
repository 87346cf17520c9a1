"""Definition of a schedule, checked when it is created."""

from __future__ import annotations

import math
import os
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal, Protocol
from zoneinfo import ZoneInfo

from pure_agent_loop.durable.schedules.delivery import Delivery
from pure_agent_loop.durable.values import check_agent_name
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.sessions import check_session_name
from pure_agent_loop.support.folders import expanded
from pure_agent_loop.support.language import checked_choice, notice
from pure_agent_loop.support.lazy import module_of_extra

# -- due times of schedules: cron lines in their time zone, or fixed intervals ---------------------------

LATE_SECONDS = 60.0  # a due time that is more than this late counts as missed
_PARTS = ("minute", "hour", "day of the month", "month", "day of the week")
_SPAN, _SPAN_FACTOR = 3_600.0, 8.0
_START = datetime(2024, 1, 1, tzinfo=timezone.utc)  # where testing a cron line starts
HEARTBEAT_FILE = "HEARTBEAT.md"
HEARTBEAT_OK = "HEARTBEAT_OK"
SAME = "same"
MAX_MISSED = 100
MAX_EVERY = 366 * 86_400.0
_NAME = re.compile(r"[A-Za-z0-9_-]{1,30}")
_CHOICES = {"missed": ("skip", "once", "all"), "overlap": ("skip", "queue")}


class Times(Protocol):
    """A sequence of due times."""

    def after(self, moment: float) -> float:
        """Return the first due time after a moment, in seconds since the epoch."""

    def latest(self, first: float, last: float, most: int) -> list[float]:
        """Return the newest due times within a span (ends included), oldest first."""


class Interval:
    """Due times at a fixed interval.

    Args:
        anchor: Start of the first interval.
    """

    def __init__(self, seconds: float, anchor: float) -> None:
        self._seconds, self._anchor = seconds, anchor

    def after(self, moment: float) -> float:
        """Return the first due time after a moment."""
        count = math.floor((moment - self._anchor) / self._seconds) + 1
        while (candidate := self._time_at(count)) <= moment:  # needed if the quotient was rounded down
            count += 1
        return candidate

    def latest(self, first: float, last: float, most: int) -> list[float]:
        """Return the newest due times within a span."""
        count = math.floor((last - self._anchor) / self._seconds) + 1
        times = [self._time_at(count - back) for back in range(most + 1, -1, -1)]
        return [time for time in times if first <= time <= last][-most:]

    def _time_at(self, count: int) -> float:
        return round(self._anchor + count * self._seconds, 3)


class Cron:
    """Due times of a cron line, as in Debian's cron.

    Raises:
        ConfigError: The line or the zone is invalid.
        MissingExtraError: The extra ``[durable]`` is not installed.
    """

    def __init__(self, line: str, zone: str) -> None:
        self._line, self._zone = line, zone_of(zone)
        self._cronsim = module_of_extra("cronsim", notice("library.feature_cron"), "durable")
        _check_fields(self._cronsim, line)
        try:
            self.after(_START.timestamp())
        except (ConfigError, self._cronsim.CronSimError) as error:
            raise ConfigError(notice("library.cron_never", line=line)) from error

    def after(self, moment: float) -> float:
        """Return the first due time after a moment."""
        for time in self._times_after(moment):
            return time
        raise ConfigError(notice("library.cron_no_time", line=self._line, moment=moment))

    def latest(self, first: float, last: float, most: int) -> list[float]:
        """Return the newest due times within a span, without iterating over a long span from its start."""
        span = _SPAN
        while True:
            start = max(first, last - span)
            newest = deque[float](maxlen=most)
            for time in self._times_after(start - 0.001):
                if time > last:
                    break
                newest.append(time)
            if len(newest) == most or start <= first:
                return list(newest)
            span *= _SPAN_FACTOR

    def _times_after(self, moment: float) -> Iterator[float]:
        start = datetime.fromtimestamp(moment, timezone.utc).astimezone(self._zone)
        for occurrence in self._cronsim.CronSim(self._line, start):
            time = occurrence.timestamp()
            if time > moment:  # CronSim may return an earlier time in an hour that a clock change repeats
                yield time


def due_times(times: Times, next_at: float, now: float, missed: str, limit: int) -> list[float]:
    """Return the due times for which a run must start now, oldest first.

    Args:
        next_at: First due time that has not been checked yet.
        missed: Treatment of missed times: ``skip``, ``once`` or ``all``.
        limit: Maximum number of missed times, for ``all``.
    """
    due = times.latest(next_at, now, limit + 1)
    on_time = [time for time in due[-1:] if now - time <= LATE_SECONDS]
    late = due[: len(due) - len(on_time)]
    if missed == "all":
        return [*late[-limit:], *on_time]
    return late[-1:] if missed == "once" and not on_time else on_time


def zone_of(name: str) -> ZoneInfo:
    """Return the time zone with this name.

    Raises:
        ConfigError: The name is unknown.
    """
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(notice("library.timezone", name=name)) from error


def local_zone() -> str:
    """Return the name of this machine's time zone. A fixed offset would be wrong for half of the year.

    Raises:
        ConfigError: The machine does not configure one.
    """
    if named := os.environ.get("TZ", "").lstrip(":"):
        return named
    link = Path("/etc/localtime")
    _, separator, name = str(link.resolve()).partition("zoneinfo/")
    if separator:
        return name
    file = Path("/etc/timezone")
    name = file.read_text(encoding="utf-8").strip() if file.is_file() else ""
    if not name and not link.exists():
        name = "UTC"  # a system without any configuration uses UTC
    if not name:
        raise ConfigError(notice("library.timezone_local"))
    return name


def _check_fields(cronsim: Any, line: Any) -> None:
    parts = line.split() if isinstance(line, str) else []
    if len(parts) != len(_PARTS):
        raise ConfigError(notice("library.cron_fields", line=line, count=len(parts), parts=", ".join(_PARTS)))
    for number, (name, part) in enumerate(zip(_PARTS, parts, strict=True)):
        fields = ["*"] * len(_PARTS)
        fields[number] = part
        try:
            cronsim.CronSim(" ".join(fields), _START)
        except (cronsim.CronSimError, ValueError) as error:
            raise ConfigError(notice("library.cron_part", line=line, name=name, part=part)) from error


@dataclass(frozen=True, slots=True)
class Schedule:
    """A prompt that an agent runs repeatedly.

    Args:
        name: At most 30 letters, digits, ``_`` and ``-``.
        agent: Name of the agent, as registered by a worker.
        prompt: Prompt of the runs; ``{due}`` is replaced by the due time.
        prompt_file: File with the prompt, read for each run. If the file is missing or empty, no run starts.
            An answer that is exactly ``HEARTBEAT_OK`` is not delivered.
        media: Files that are sent with the prompt (pictures, PDFs, sounds), read for each run.
        cron: Due times as five cron fields: ``0 9 * * 1-5``.
        every: Interval in seconds, 1 or more, instead of `cron`.
        timezone: Time zone of `cron`; ``local`` for the time zone of this machine.
        missed: Due times that no worker fired in time: ``skip`` them, run the newest (``once``), or run
            ``all``. Due times without a run are recorded as one firing with the state ``skipped``.
        max_missed: Maximum number of missed due times to run for ``all``; the newest ones are run.
        deliver: Target of the answer; None to only store it.
        enabled: False to pause the schedule.
        session: Session of all runs; ``same`` for a session named after the schedule, None for a new session
            per run.
        overlap: If the previous run has not ended, ``skip`` the next one or ``queue`` it.

    Raises:
        ConfigError: A value is invalid; the message names the field and the valid values.
        MissingExtraError: The extra ``[durable]`` is not installed.
    """

    name: str
    agent: str
    prompt: str = ""
    _: KW_ONLY
    prompt_file: str | None = None
    media: Sequence[str] = ()
    cron: str | None = None
    every: float | None = None
    timezone: str = "UTC"
    missed: Literal["skip", "once", "all"] = "skip"
    max_missed: int = 10
    deliver: Delivery | None = None
    enabled: bool = True
    session: str | None = None
    overlap: Literal["skip", "queue"] = "skip"

    def __post_init__(self) -> None:
        name: Any = self.name
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ConfigError(notice("library.schedule_name", name=self.name))
        check_agent_name(self.agent)
        self._check_prompt()
        self._check_options()
        if (self.cron is None) == (self.every is None):
            raise ConfigError(notice("library.cron_or_every"))
        if self.every is not None and not 1 <= self.every <= MAX_EVERY:
            raise ConfigError(notice("library.every_range", every=self.every, max_every=MAX_EVERY))
        if self.timezone == "local":
            object.__setattr__(self, "timezone", local_zone())
        zone_of(self.timezone)
        self.times(0.0)

    def _check_prompt(self) -> None:
        if bool(str(self.prompt).strip()) == (self.prompt_file is not None):
            raise ConfigError(
                notice("library.prompt_or_file", prompt=self.prompt, heartbeat_file=HEARTBEAT_FILE)
            )
        if self.prompt_file is not None:
            if not str(self.prompt_file).strip():
                raise ConfigError("prompt_file='' must be the path of a file.")
            object.__setattr__(self, "prompt_file", str(expanded(self.prompt_file).absolute()))
        files: Any = self.media
        if not isinstance(files, (list, tuple)) or not all(
            isinstance(file, (str, os.PathLike)) for file in files
        ):
            raise ConfigError(f"media={files!r:.80} must be a list of paths; each run reads the files again.")
        object.__setattr__(self, "media", tuple(str(expanded(file).absolute()) for file in files))

    def _check_options(self) -> None:
        for field, choices in _CHOICES.items():
            checked_choice(field, getattr(self, field), choices)
        if not 1 <= self.max_missed <= MAX_MISSED:
            raise ConfigError(f"max_missed={self.max_missed!r:.40} must be from 1 to {MAX_MISSED}.")
        if self.session is not None:
            check_session_name(self.session)
        if self.deliver is not None and not isinstance(self.deliver, Delivery):
            raise ConfigError(
                f"deliver={self.deliver!r:.80} must be to_session(...), to_file(...) or to_command(...)."
            )

    def times(self, anchor: float) -> Times:
        """Return the due times.

        Args:
            anchor: Start of the first `every` interval.
        """
        return (
            Interval(self.every, anchor) if self.every is not None else Cron(self.cron or "", self.timezone)
        )

    def session_id(self) -> str | None:
        """Return the session for the runs; None for a new session per run."""
        return f"schedule.{self.name}" if self.session == SAME else self.session

    def shown_due(self, due: float) -> str:
        """Return a due time in the time zone of the schedule."""
        return datetime.fromtimestamp(due, zone_of(self.timezone)).isoformat(timespec="seconds")

    def to_dict(self) -> dict[str, Any]:
        """Return the plain JSON form."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        if not self.media:  # omit an empty field, because workers of earlier versions reject the field
            del plain["media"]
        return {**plain, "deliver": None if self.deliver is None else self.deliver.to_dict()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Schedule:
        """Rebuild a schedule from `to_dict`."""
        deliver = data.get("deliver")
        return cls(**{**data, "deliver": None if deliver is None else Delivery.from_dict(deliver)})


def heartbeat(
    name: str,
    agent: str,
    file: str | os.PathLike[str] = HEARTBEAT_FILE,
    *,
    every: float = 1_800.0,
    **options: Any,
) -> Schedule:
    """Return a schedule whose prompt is in a file that can be edited between runs.

    Args:
        name: See `Schedule`.
        agent: See `Schedule`.
        file: Path of the file.
        every: Seconds between two runs.
        options: Further options of `Schedule`.

    Raises:
        ConfigError: A value is invalid.
    """
    return Schedule(name, agent, prompt_file=os.fspath(file), every=every, **options)
