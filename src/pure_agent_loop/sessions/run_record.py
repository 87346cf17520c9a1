"""Describe a run's configuration for its record, and rebuild a kit without side effects from the record.

The user's functions are not recorded, only their number: the recorded effects have their results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any, NoReturn

from pure_agent_loop.budget import Price
from pure_agent_loop.compaction import Chain, Ladder, MemoryOverflow
from pure_agent_loop.hooks import Hooks
from pure_agent_loop.kernel.journal import Journal
from pure_agent_loop.kernel.kit import Compactor, Kit, NoCompaction, ResultLimits, Timeouts
from pure_agent_loop.kernel.request import window_of
from pure_agent_loop.kernel.run_tools import RunTools, flags_of
from pure_agent_loop.limits import LoopLimits
from pure_agent_loop.llm.base import BaseLLMClient, model_of, origin_of, takes_meta
from pure_agent_loop.permissions import PermissionPolicy, PermissionRules
from pure_agent_loop.prompts import CHINESE, ENGLISH, Prompts
from pure_agent_loop.tool import StepContext, Tool, ToolRegistry

_WORDS = {"en": ENGLISH, "zh": CHINESE}
_SECRET_OPTIONS = ("extra_headers", "extra_query")  # options whose values may be API keys
_BEHAVIORS = ("deny", "ask", "allow")


def describe(kit: Kit) -> dict[str, Any]:
    """Return the configuration of a run for its record."""
    rules, output, budget = kit.permissions.rules, kit.output, kit.budget
    return {
        "model": model_of(kit.client),
        "agent": kit.name,
        "takes_meta": takes_meta(kit.client),
        "origin": origin_of(kit.client),
        "tools": kit.tools.to_openai_schema(kit.prompts),
        "tool_flags": {tool.name: flags_of(tool) for tool in kit.tools},
        "tool_timeout": kit.timeouts.tool,
        "options": {name: value for name, value in kit.options.items() if name not in _SECRET_OPTIONS},
        "limits": asdict(kit.limits),
        "window": window_of(kit),
        "max_result_chars": kit.results.max_chars,
        "max_error_chars": kit.results.max_error_chars,
        "compaction": _plain_compactor(kit.compactor),
        "prompts": next(
            (name for name, words in _WORDS.items() if words == kit.prompts), asdict(kit.prompts)
        ),
        "output": None if output is None else {"retries": output.retries, "form": output.response_format},
        "lead": None if kit.lead is None else ("step" if kit.lead_each_step else "run"),
        "metadata": dict(kit.metadata),
        "tool_rounds": kit.tool_rounds,
        "after_tools": kit.after_tools,
        **({} if kit.facts is None else {"facts": True}),
        "permissions": {"mode": kit.permissions.mode, **{b: list(getattr(rules, b)) for b in _BEHAVIORS}},
        "functions": {
            "can_use_tool": kit.can_use_tool is not None,
            "on_ask": kit.on_ask is not None,
            **{name: len(getattr(kit.hooks, name)) for name in ("before_tool", "after_tool", "on_stop")},
            "max_stops": kit.hooks.max_stops,
        },
        "budget": budget
        if budget is None
        else {"prices": {name: asdict(price) for name, price in budget.prices.items()}},
    }


class RecordedTools(RunTools):
    """Tools for a replay; the tool lists of toolsets come from the recording."""

    async def _listed(self, context: StepContext, journal: Journal) -> Sequence[Tool]:
        tools, number = self._in_step, 0
        while journal.recorded(key := f"{context.step}:tools:{number}"):
            plain: list[dict[str, Any]] = await journal.effect(key, never)
            tools = [stub_tool(item, {item["name"]: item["flags"]}) for item in plain]
            number += 1
        return tools


class _RecordedOutput:
    """Output check for a replay; its decisions come from the recording."""

    def __init__(self, plain: Mapping[str, Any]) -> None:
        self.retries = int(plain["retries"])
        self.response_format = plain["form"]

    def partial(self) -> None:
        """Do nothing: a replay has no observers."""

    async def judge(self, text: str) -> NoReturn:  # noqa: ARG002 - never called
        """Fail: decisions come from the recording."""
        await never()

    def load(self, plain: Any) -> Any:
        """Return the plain form."""
        return plain


def _plain_compactor(compactor: Compactor) -> dict[str, Any] | None:
    if isinstance(compactor, Ladder):
        return asdict(compactor)
    if isinstance(compactor, MemoryOverflow):
        return {"max_history": compactor.max_history, "keep": compactor.keep}
    if isinstance(compactor, Chain):
        return {"chain": [_plain_compactor(item) for item in compactor.compactors]}
    return None


def _compactor(plain: Mapping[str, Any] | None) -> Compactor:
    """Rebuild a compactor. Summaries come from the recording: a replay generates none."""
    if plain is None:
        return NoCompaction()
    if "chain" in plain:
        return Chain(*map(_compactor, plain["chain"]))
    return MemoryOverflow(".", **plain) if "max_history" in plain else Ladder(**plain)


def rebuild(run: Mapping[str, Any]) -> Kit:
    """Rebuild a kit from a description. The functions of this kit must not be called.

    Raises:
        KeyError: The description lacks a key.
        TypeError: A value has the wrong type.
        ValueError: A value is invalid.
        ConfigError: A value is invalid.
    """
    functions, flags = run["functions"], run["tool_flags"]
    rules = {name: run["permissions"][name] for name in _BEHAVIORS}
    known = {limit_field.name for limit_field in fields(LoopLimits)}  # a later version may have more limits
    limits = {name: _limit_value(value) for name, value in run["limits"].items() if name in known}
    limits["prices"] = read_prices(limits["prices"])
    prompts = run["prompts"]
    words = _WORDS[prompts] if isinstance(prompts, str) else Prompts(**{"system_prompt": "", **prompts})
    return Kit(
        client=NoClient(str(run["model"]), run.get("origin", ""), takes_meta=run["takes_meta"]),
        tools=RecordedTools(ToolRegistry(stub_tool(tool["function"], flags) for tool in run["tools"]), words),
        limits=LoopLimits(**limits),
        prompts=words,
        options=run["options"],
        permissions=PermissionPolicy(run["permissions"]["mode"], PermissionRules(**rules)),
        can_use_tool=never if functions["can_use_tool"] else None,
        on_ask=never if functions["on_ask"] else None,
        hooks=Hooks(
            before_tool=[never] * functions["before_tool"],
            after_tool=[never] * functions["after_tool"],
            on_stop=[never] * functions["on_stop"],
            max_stops=functions["max_stops"],
        ),
        output=None if run["output"] is None else _RecordedOutput(run["output"]),
        lead=None if run["lead"] is None else never,
        lead_each_step=run["lead"] == "step",
        tool_rounds=run["tool_rounds"],
        after_tools=run["after_tools"],
        facts=never if run.get("facts") else None,
        timeouts=Timeouts(tool=_limit_value(run["tool_timeout"])),
        context_window=run["window"],
        results=ResultLimits(run["max_result_chars"], run["max_error_chars"]),
        compactor=_compactor(run["compaction"]),
    )


def read_prices(prices: Mapping[str, Any]) -> dict[str, Price]:
    """Rebuild a price table from its plain form."""
    return {name: Price.from_dict(price) for name, price in prices.items()}


def stub_tool(function: Mapping[str, Any], flags: Mapping[str, Mapping[str, Any]]) -> Tool:
    """Return a tool that can be described but not called."""
    name = function["name"]
    options = {flag: _limit_value(value) for flag, value in flags.get(name, {}).items()}
    if options.pop("judge", False):
        options["judge"] = never  # the judge's decisions come from the recording
    if options.get("destructive") == "depends":
        options["destructive"] = never
    return Tool(
        never,
        name=name,
        description=function["description"],
        parameters=function["parameters"],
        **options,
    )


def _limit_value(value: Any) -> Any:
    """Restore infinity, which JSON cannot express."""
    return float("inf") if value == "inf" else value


async def never(*_: Any, **__: Any) -> NoReturn:
    """Replace a function whose results come from the recording."""
    raise AssertionError("A replay must not call functions.")


class NoClient(BaseLLMClient):
    """Replacement for the model client, whose responses come from the recording."""

    def __init__(self, model: str, origin: str = "", *, takes_meta: bool) -> None:
        self.model = model
        self.origin = origin
        self.takes_meta = takes_meta

    async def chat(
        self,
        messages: list[dict[str, Any]],  # noqa: ARG002 - never called
        tools: list[dict[str, Any]] | None = None,  # noqa: ARG002 - never called
        **kwargs: Any,  # noqa: ARG002 - never called
    ) -> NoReturn:
        """Fail: responses come from the recording."""
        await never()
