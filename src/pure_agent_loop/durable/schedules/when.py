"""Schedule times in words: parsed from what a person writes, and shown in each language."""

from __future__ import annotations

from functools import reduce
from typing import Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.language import in_each_language, notice
from pure_agent_loop.support.lazy import lazy_pattern

# Day field of a cron line -> the words that people write for it, without "every". In the message catalogue,
# the first three fields are named as in `_NAMES`, and each day of the week by its number.
_DAYS = {
    "*": ("day", "daily", "days", "天", "日"),
    "1-5": ("weekday", "weekdays", "working day", "working days", "工作日"),
    "0,6": ("weekend", "weekends", "周末"),
    "0": ("sun", "sunday", "sundays", "周日", "周天", "星期日", "星期天"),
    "1": ("mon", "monday", "mondays", "周一", "星期一"),
    "2": ("tue", "tuesday", "tuesdays", "周二", "星期二"),
    "3": ("wed", "wednesday", "wednesdays", "周三", "星期三"),
    "4": ("thu", "thursday", "thursdays", "周四", "星期四"),
    "5": ("fri", "friday", "fridays", "周五", "星期五"),
    "6": ("sat", "saturday", "saturdays", "周六", "星期六"),
}
_FIELD_OF = {word: field for field, words in _DAYS.items() for word in words}
_NAMES = {"*": "all", "1-5": "work", "0,6": "rest"}
_UNITS = {"day": 86_400, "hour": 3_600, "minute": 60, "second": 1}
_UNIT_WORDS = {
    "天": "day",
    "小时": "hour",
    "分钟": "minute",
    "秒": "second",
    "min": "minute",
    "sec": "second",
}
_EVERY = lazy_pattern(r"(?:every\s+|每\s*个?)")
_INTERVAL = lazy_pattern(rf"([1-9]\d{{0,5}})?\s*({'|'.join([*_UNITS, *_UNIT_WORDS])})s?")
_AT = lazy_pattern(r"(.+?)\s*(?:\bat\b)?\s*(\d{1,2})(?:[:：点](\d\d)?分?)?\s*(am|pm)?")
_AND = lazy_pattern(r"\s*(?:,|，|、|\band\b|和)\s*")
_DAILY = lazy_pattern(r"(\d{1,2}) (\d{1,2}) \* \* (\S+)")
_CRON_FIELDS = 5


def read_when(when: str) -> dict[str, Any]:
    """Return the arguments of `Schedule` for a time in words, such as ``weekdays at 18:30``, or a cron line.

    Raises:
        ConfigError: The words are not understood.
    """
    words = " ".join(when.casefold().split())
    rest = words[every.end() :] if (every := _EVERY.match(words)) else words
    if every and (interval := _INTERVAL.fullmatch(rest)):
        return {"every": float(interval[1] or 1) * _UNITS[_UNIT_WORDS.get(interval[2], interval[2])]}
    if at := _AT.fullmatch(rest):
        fields = [_FIELD_OF.get(_EVERY.sub("", day)) for day in _AND.split(at[1])]
        hour = int(at[2]) % 12 + 12 * (at[4] == "pm") if at[4] else int(at[2])
        if hour < 24 and int(at[3] or 0) < 60 and (not at[4] or 1 <= int(at[2]) <= 12):
            if len(fields) == 1 and fields[0] is not None:
                return {"cron": f"{int(at[3] or 0)} {hour} * * {fields[0]}"}
            if all(field is not None and field.isdecimal() for field in fields):
                return {"cron": f"{int(at[3] or 0)} {hour} * * {','.join(map(str, fields))}"}
    if len(words.split()) == _CRON_FIELDS and not words[0].isalpha():
        return {"cron": when.strip()}
    raise ConfigError(notice("library.schedule_when", when=when))


def when_words(cron: str | None, every: float | None) -> dict[str, str]:
    """Describe due times in words, by language; a cron line that no words fit is shown as it is."""
    if every is not None:
        unit = next(unit for unit, size in _UNITS.items() if not every % size or unit == "second")
        count = every / _UNITS[unit]
        return in_each_language(f"library.every_{'one_' if count == 1 else ''}{unit}", count=f"{count:g}")
    match = _DAILY.fullmatch(cron or "")
    days = [] if match is None else [match[3]] if match[3] in _DAYS else match[3].split(",")
    if match is None or not all(day in _DAYS for day in days):
        return in_each_language("library.when_cron", cron=cron)
    names = [notice(f"library.day_{_NAMES.get(day, day)}") for day in days]
    named = reduce(lambda first, second: notice("library.day_and", first=first, second=second), names)
    return in_each_language("library.when_at", days=named, time=f"{int(match[2])}:{int(match[1]):02}")
