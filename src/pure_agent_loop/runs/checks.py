"""Checks of what an agent is given, so that a mistake is told where it was made."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from pure_agent_loop.budget import Budget, price_for
from pure_agent_loop.compaction import Ladder
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.kernel.kit import Compactor, Kit, NoCompaction, Subagents
from pure_agent_loop.limits import LoopLimits
from pure_agent_loop.llm.base import model_of
from pure_agent_loop.llm.profiles import DEFAULT_MODEL, Profile
from pure_agent_loop.tool import ToolLike, ToolRegistry, Toolset

T = TypeVar("T")
Word = TypeVar("Word", bound=str)


def checked_compactor(value: Any) -> Compactor:
    """What shortens the history, from what was given as ``compaction``.

    Raises:
        ConfigError: It is something else.
    """
    if isinstance(value, bool):
        return Ladder() if value else NoCompaction()
    if not callable(getattr(value, "compact", None)):
        raise ConfigError(f"compaction must be True, False or a compactor; it is {value!r:.80}.")
    compactor: Compactor = value
    return compactor


def checked_number(name: str, value: Any) -> Any:
    """A positive whole number, or None.

    Raises:
        ConfigError: It is something else.
    """
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise ConfigError(f"{name} must be a positive whole number; it is {value!r:.80}.")
    return value


def checked_retries(value: Any) -> int:
    """How often an answer is corrected.

    Raises:
        ConfigError: It is no whole number, 0 or more.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ConfigError(f"output_retries={value!r} must be a whole number, 0 or more.")
    return value


def checked_function(name: str, function: Any) -> Any:
    """A function, or None.

    Raises:
        ConfigError: It is something else.
    """
    if function is not None and not callable(function):
        raise ConfigError(f"{name} must be a function; it is {function!r:.80}.")
    return function


def check_price(kit: Kit) -> None:
    """A limit of money without a price would never be reached."""
    model = model_of(kit.client)
    asked: dict[str, LoopLimits | Budget | None] = {"limits": kit.limits, "budget": kit.budget}
    for name, each in asked.items():
        if each is not None and each.max_cost is not None and price_for(each.prices, model) is None:
            raise ConfigError(
                f"{name}.max_cost is set, but {name}.prices has no price for the model {model!r}. "
                f"Add one: prices={{{model!r}: Price(input=..., output=...)}}."
            )


def checked_choice(name: str, value: Word | None, choices: Collection[Word]) -> Word:
    """One of some words.

    Raises:
        ConfigError: It is another; the message names them.
    """
    if value is None or value not in choices:
        raise ConfigError(f"{name}={value!r} is not known. Use one of: {', '.join(choices)}.")
    return value


def check_only_client(
    llm: object, model: str | None, api_key: str | None, base_url: str | None, profile: Profile | None
) -> None:
    """Refuse a client that comes with what would make another one, or cannot answer.

    Raises:
        ConfigError: So it is.
    """
    if (model is not None and model is not DEFAULT_MODEL) or api_key or base_url or profile:
        raise ConfigError(
            "llm and model (or api_key, base_url, profile) were both given. "
            "Pass llm=... for a client of your own, or model=... to have one built."
        )
    check_client(llm)


def all_tools(
    tools: Iterable[ToolLike | Toolset] | ToolRegistry | None, subagents: Subagents | None
) -> ToolRegistry:
    """The tools that were given, and those that give tasks to subagents, where the name is free.

    Raises:
        ConfigError: Something is no tool, or `subagents` brings none.
    """
    registry = tools if isinstance(tools, ToolRegistry) else ToolRegistry(tools or ())
    if subagents is None:
        return registry
    if not callable(getattr(subagents, "for_sessions", None)):
        raise ConfigError(f"subagents must be a SubagentManager; it is {subagents!r:.80}.")
    registry = ToolRegistry(registry)  # the one that was given may serve other agents
    registry.register_many(tool for tool in subagents.tools() if tool.name not in registry)
    return registry


def read_again(given: T) -> T | list[Any]:
    """What can be read only once, as a list; anything else as it is."""
    return list(given) if isinstance(given, Iterator) else given


def check_types(**arguments: tuple[object, type]) -> None:
    """Refuse what could not work, before anything depends on it.

    Args:
        arguments: By name: the value and the type it must have, unless it is None.

    Raises:
        ConfigError: One of them is something else; the message says which.
    """
    for name, (value, kind) in arguments.items():
        if value is not None and not isinstance(value, kind):
            what = "text" if kind is str else f"a {kind.__name__}"
            raise ConfigError(f"{name} must be {what}; it is {value!r:.80}.")


def checked_folder(name: str, value: object) -> str:
    """The absolute path of a folder that is there; empty for None.

    Raises:
        ConfigError: It is none.
    """
    if value is None:
        return ""
    path = Path(value).expanduser() if isinstance(value, (str, os.PathLike)) else None
    if path is None or not path.is_dir():
        raise ConfigError(f"{name}={value!r:.80} must be a folder that exists.")
    return str(path.resolve())


def check_client(llm: object) -> None:
    """Refuse a model client that cannot answer.

    Raises:
        ConfigError: It has no method `chat`, or is an agent, whose `chat` is another one.
    """
    if callable(getattr(llm, "prepare", None)) and hasattr(llm, "llm"):
        raise ConfigError(
            f"A model client is wanted here, and {type(llm).__name__} is an agent with a loop of its own. "
            "Call that one's run(), or pass its client: agent.llm."
        )
    if not callable(getattr(llm, "chat", None)):
        raise ConfigError(
            f"llm must have an async method chat(messages, tools=None, **kwargs), like BaseLLMClient; "
            f"{type(llm).__name__} has none."
        )
