"""Identity of a trial: digests of the agent, of the case with its evaluators, and the seed."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
import json
import re
import types
from collections.abc import Mapping, Sequence
from typing import Any

from pure_agent_loop.agent import Agent
from pure_agent_loop.evaluation.cases import Case, Evaluator
from pure_agent_loop.llm.base import origin_of
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.tool import Tool

PARTS = ("agent", "case", "seed")
_MAX_DEPTH = 12
_ADDRESS = re.compile("0x[0-9a-fA-F]+")
# Arguments of an agent to leave out: they do not change its answers, or `origin_of` covers them.
_IRRELEVANT = {
    *("model", "base_url", "llm", "cwd", "results_folder", "sessions", "audit", "snapshots", "budget"),
    *("retry", "first_byte_timeout", "idle_timeout", "emit_reasoning_events"),
}


class Identity:
    """Identities of the trials of an agent.

    Functions are identified by their source, closure and defaults, other objects by their type, string form,
    fields and public attributes. Code and data that a function uses from elsewhere are ignored.

    Args:
        agent: The agent.
        evaluators: Evaluators of all cases.
        cases: The cases.
        seed: Seed of the first repetition; None if no seed is sent.
    """

    def __init__(
        self, agent: Agent, evaluators: Sequence[Evaluator], cases: Sequence[Case], seed: int | None
    ) -> None:
        self._agent, self._seed, of_all = _digest(agent), seed, _digest(evaluators)
        self._cases = [_digest([of_all, case]) for case in cases]

    def of(self, case: int, repeat: int) -> list[Any]:
        """Return the identity of a trial: a value for each of `PARTS`.

        Args:
            case: Number of the case, from 0.
            repeat: Number of the repetition, from 0.
        """
        return [self._agent, self._cases[case], None if self._seed is None else self._seed + repeat]


def no_identity(case: int, repeat: int) -> list[Any]:  # noqa: ARG001 - in place of `Identity.of`
    """Return the identity of a trial whose outcome is not kept."""
    return ["", "", None]


def _digest(value: Any) -> str:
    text = json.dumps(_plain(value, ()), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _plain(value: Any, inside: tuple[int, ...]) -> Any:
    """Return a plain form that is the same in each process; `inside` holds the ids of enclosing objects."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    if id(value) in inside or len(inside) > _MAX_DEPTH:
        return "..."
    walk = functools.partial(_plain, inside=(*inside, id(value)))
    if isinstance(value, Mapping):
        return {str(key): walk(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [walk(entry) for entry in value]
    if isinstance(value, (set, frozenset)):
        return sorted(json.dumps(walk(entry), sort_keys=True) for entry in value)
    return [type(value).__qualname__, *(walk(part) for part in _parts(value))]


def _parts(value: Any) -> list[Any]:
    """Return what distinguishes an object from others of its type."""
    if isinstance(value, Agent):
        arguments = value.config.arguments
        return [origin_of(value.llm), {key: arguments[key] for key in arguments.keys() - _IRRELEVANT}]
    if isinstance(value, Tool):
        return [value.name, value.description, value.parameters, value.function if value.is_bound else None]
    if isinstance(value, types.MethodType):
        return [value.__func__, value.__self__]
    if isinstance(value, types.FunctionType):
        return _function(value)
    if callable(getattr(value, "chat", None)):
        return [origin_of(value)]
    if dataclasses.is_dataclass(value):
        return [{each.name: getattr(value, each.name) for each in dataclasses.fields(value)}]
    public = {name: each for name, each in getattr(value, "__dict__", {}).items() if name[0] != "_"}
    text = _ADDRESS.sub("", safe_str(value))  # distinguishes dates, paths, patterns and types
    call = getattr(type(value), "__call__", None)  # noqa: B004 - the method, for its source
    return [text] if isinstance(value, type) else [text, call, public]


def _function(function: types.FunctionType) -> list[Any]:
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):  # the function was made by exec, or its file no longer exists
        source = repr((function.__code__.co_code, function.__code__.co_names))
    cells = [cell.cell_contents for cell in function.__closure__ or () if cell != types.CellType()]
    held = [cells, function.__defaults__, function.__kwdefaults__]
    return [function.__qualname__, source, held, getattr(function, "__wrapped__", None)]
