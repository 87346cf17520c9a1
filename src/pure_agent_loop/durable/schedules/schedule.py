"""What is to be run when: the description of a schedule, checked when it is made."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, fields
from datetime import datetime
from typing import Any, Literal

from pure_agent_loop.durable.schedules.delivery import Delivery
from pure_agent_loop.durable.schedules.times import Cron, Every, Times, local_zone, zone_of
from pure_agent_loop.durable.values import check_agent_name
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.sessions import check_session_id
from pure_agent_loop.support.paths import expanded

HEARTBEAT_FILE = "HEARTBEAT.md"
HEARTBEAT_OK = "HEARTBEAT_OK"
SAME = "same"
MAX_MISSED = 100
MAX_EVERY = 366 * 86_400.0
_NAME = re.compile(r"[A-Za-z0-9_-]{1,30}")
_CHOICES = {"missed": ("skip", "once", "all"), "overlap": ("skip", "queue")}


@dataclass(frozen=True, slots=True)
class Schedule:
    """An agent that is run with a prompt, again and again.

    Args:
        name: At most 30 letters, digits, ``_`` and ``-``.
        agent: Who does it, as a worker knows it.
        prompt: What to do; ``{due}`` stands for the time it is run for.
        prompt_file: The file that has the prompt, read anew for each run. If it is missing or empty, nothing
            is run. An answer that is exactly ``HEARTBEAT_OK`` is not delivered.
        cron: When, as five parts of cron: ``0 9 * * 1-5``.
        every: Or every so many seconds, 1 or more.
        timezone: The zone of `cron`; ``local`` for the one of this machine.
        missed: Times at which no worker was up: ``skip`` them, run ``once`` for all of them, or ``all``.
        max_missed: With ``all``: how many of the newest at most.
        deliver: Where the answer goes; None to only keep it.
        enabled: False for one that is paused.
        session: The session all runs go on in; ``same`` for one with the name of the schedule, None for a
            session for each run.
        overlap: While a run has not ended, the next one is left out (``skip``) or waits (``queue``).

    Raises:
        ConfigError: A value cannot be used; it names the field and says what can.
        MissingExtraError: The extra ``[durable]`` is not installed.
    """

    name: str
    agent: str
    prompt: str = ""
    _: KW_ONLY
    prompt_file: str | None = None
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
            raise ConfigError(f"name={self.name!r:.80} must be at most 30 letters, digits, '_' and '-'.")
        check_agent_name(self.agent)
        self._check_prompt()
        self._check_options()
        if (self.cron is None) == (self.every is None):
            raise ConfigError("Give either cron='0 9 * * 1-5' or every=600 (seconds), and only one of them.")
        if self.every is not None and not 1 <= self.every <= MAX_EVERY:
            raise ConfigError(f"every={self.every!r:.40} must be from 1 to {MAX_EVERY:.0f} seconds.")
        if self.timezone == "local":
            object.__setattr__(self, "timezone", local_zone())
        zone_of(self.timezone)
        self.times(0.0)

    def _check_prompt(self) -> None:
        if bool(str(self.prompt).strip()) == (self.prompt_file is not None):
            raise ConfigError(
                f"prompt={self.prompt!r:.80}: give either a text or prompt_file='{HEARTBEAT_FILE}'."
            )
        if self.prompt_file is not None:
            if not str(self.prompt_file).strip():
                raise ConfigError("prompt_file='' is no file.")
            object.__setattr__(self, "prompt_file", str(expanded(self.prompt_file).absolute()))

    def _check_options(self) -> None:
        for field, choices in _CHOICES.items():
            if getattr(self, field) not in choices:
                value = getattr(self, field)
                raise ConfigError(f"{field}={value!r:.40} is not known. Use one of: {', '.join(choices)}.")
        if not 1 <= self.max_missed <= MAX_MISSED:
            raise ConfigError(f"max_missed={self.max_missed!r:.40} must be from 1 to {MAX_MISSED}.")
        if self.session is not None:
            check_session_id(self.session)
        if self.deliver is not None and not isinstance(self.deliver, Delivery):
            raise ConfigError(
                f"deliver={self.deliver!r:.80} must be to_session(...), to_file(...) or to_command(...)."
            )

    def times(self, anchor: float) -> Times:
        """When it is due.

        Args:
            anchor: From when on `every` counts.
        """
        if self.every is not None:
            return Every(self.every, anchor)
        return Cron(self.cron or "", self.timezone)

    def session_id(self) -> str | None:
        """The session of its runs; None for one for each."""
        return f"schedule.{self.name}" if self.session == SAME else self.session

    def shown_due(self, due: float) -> str:
        """The time a run is for, in the zone of this schedule."""
        return datetime.fromtimestamp(due, zone_of(self.timezone)).isoformat(timespec="seconds")

    def to_dict(self) -> dict[str, Any]:
        """It as JSON."""
        plain = {each.name: getattr(self, each.name) for each in fields(self)}
        return {**plain, "deliver": None if self.deliver is None else self.deliver.to_dict()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Schedule:
        """The reverse of `to_dict`."""
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
    """A schedule whose prompt is in a file, which anybody may change between two runs.

    Args:
        name: See `Schedule`.
        agent: See `Schedule`.
        file: The file.
        every: Seconds between two runs.
        options: More of `Schedule`.

    Raises:
        ConfigError: A value cannot be used.
    """
    return Schedule(name, agent, prompt_file=os.fspath(file), every=every, **options)
