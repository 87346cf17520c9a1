"""When a schedule is due: cron lines in their time zone, or every so many seconds."""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Protocol
from zoneinfo import ZoneInfo

from pure_agent_loop.errors import ConfigError, MissingExtraError

LATE_SECONDS = 60.0  # a run that begins later than this was missed
_PARTS = ("minute", "hour", "day of the month", "month", "day of the week")
_SPAN, _WIDER = 3_600.0, 8.0


class Times(Protocol):
    """The times at which something is due."""

    def after(self, moment: float) -> float:
        """The first one later than a moment, in seconds since the epoch."""
        ...

    def latest(self, first: float, last: float, most: int) -> list[float]:
        """The newest ones of a span, both ends in it, oldest first."""
        ...


class Every:
    """Due every so many seconds.

    Args:
        seconds: How many.
        anchor: From when on.
    """

    def __init__(self, seconds: float, anchor: float) -> None:
        self._seconds, self._anchor = seconds, anchor

    def after(self, moment: float) -> float:
        """The first one later than a moment."""
        count = math.floor((moment - self._anchor) / self._seconds) + 1
        while (found := self._at(count)) <= moment:  # a quotient may be rounded down
            count += 1
        return found

    def latest(self, first: float, last: float, most: int) -> list[float]:
        """The newest ones of a span."""
        count = math.floor((last - self._anchor) / self._seconds) + 1
        found = [self._at(count - back) for back in range(most + 1, -1, -1)]
        return [each for each in found if first <= each <= last][-most:]

    def _at(self, count: int) -> float:
        return round(self._anchor + count * self._seconds, 3)


class Cron:
    """Due when a cron line says so, as in Debian's cron.

    Args:
        line: Five parts.
        zone: The zone its hours are in.

    Raises:
        ConfigError: The line or the zone is not known.
        MissingExtraError: The extra ``[durable]`` is not installed.
    """

    def __init__(self, line: str, zone: str) -> None:
        self._line, self._zone = line, zone_of(zone)
        self._cronsim = _import_cronsim()
        _check(self._cronsim, line)
        try:
            self.after(datetime(2024, 1, 1, tzinfo=timezone.utc).timestamp())
        except ConfigError as error:
            raise ConfigError(f"cron={line!r} never comes: there is no such day. Change the day.") from error

    def after(self, moment: float) -> float:
        """The first one later than a moment."""
        for each in self._from(moment):
            return each
        raise ConfigError(f"cron={self._line!r} has no time after {moment:.0f}.")

    def latest(self, first: float, last: float, most: int) -> list[float]:
        """The newest ones of a span. A long span is not walked through from its start."""
        span = _SPAN
        while True:
            start = max(first, last - span)
            found = deque[float](maxlen=most)
            for each in self._from(start - 0.001):
                if each > last:
                    break
                found.append(each)
            if len(found) == most or start <= first:
                return list(found)
            span *= _WIDER

    def _from(self, moment: float) -> Iterator[float]:
        start = datetime.fromtimestamp(moment, timezone.utc).astimezone(self._zone)
        for each in self._cronsim.CronSim(self._line, start):
            found = each.timestamp()
            if found > moment:  # in an hour that comes twice it may have looked at the first one
                yield found


def due_times(times: Times, next_at: float, now: float, missed: str, most: int) -> list[float]:
    """What is to be run now, oldest first.

    Args:
        times: When it is due.
        next_at: The first time that was not looked at yet.
        missed: What happens to those that nobody was there for: ``skip``, ``once`` or ``all``.
        most: How many of those at most, with ``all``.
    """
    found = times.latest(next_at, now, most + 1)
    on_time = [each for each in found[-1:] if now - each <= LATE_SECONDS]
    late = found[: len(found) - len(on_time)]
    if missed == "all":
        return [*late[-most:], *on_time]
    if missed == "once" and not on_time:
        return late[-1:]
    return on_time


def zone_of(name: str) -> ZoneInfo:
    """The time zone of a name.

    Raises:
        ConfigError: It is not known.
    """
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"timezone={name!r:.80} is not known here. Use a name such as 'UTC' or 'Europe/Oslo', or 'local'."
        ) from error


def local_zone() -> str:
    """The name of this machine's zone. A mere offset would be wrong for half of the year.

    Raises:
        ConfigError: The machine does not say.
    """
    named = os.environ.get("TZ", "").lstrip(":")
    if named:
        return named
    link = Path("/etc/localtime")
    _, found, name = str(link.resolve()).partition("zoneinfo/")
    if found:
        return name
    file = Path("/etc/timezone")
    name = file.read_text(encoding="utf-8").strip() if file.is_file() else ""
    if not name and not link.exists():
        name = "UTC"  # what a system without that file uses
    if not name:
        raise ConfigError("timezone='local': this machine does not name its zone. Give it: 'Europe/Oslo'.")
    return name


def _check(cronsim: Any, line: Any) -> None:
    parts = line.split() if isinstance(line, str) else []
    if len(parts) != len(_PARTS):
        raise ConfigError(
            f"cron={line!r:.80} has {len(parts)} parts and needs 5: {', '.join(_PARTS)}. "
            "'0 9 * * 1-5' is nine o'clock on working days."
        )
    for number, (name, part) in enumerate(zip(_PARTS, parts, strict=True)):
        alone = ["*"] * len(_PARTS)
        alone[number] = part
        try:
            cronsim.CronSim(" ".join(alone), datetime(2024, 1, 1, tzinfo=timezone.utc))
        except (cronsim.CronSimError, ValueError) as error:
            raise ConfigError(
                f"cron={line!r:.80}: the {name} {part!r} is none. Use a number, '*', '1-5', '1,3' or '*/10'."
            ) from error
    try:
        cronsim.CronSim(line, datetime(2024, 1, 1, tzinfo=timezone.utc))
    except cronsim.CronSimError as error:
        raise ConfigError(f"cron={line!r:.80} never comes: there is no such day. Change the day.") from error


def _import_cronsim() -> Any:
    try:
        import cronsim
    except ImportError as error:
        raise MissingExtraError("A cron line", "durable") from error
    return cronsim
