"""What a run worked with, as its record says it; and a kit made from that, which can touch nothing.

Functions are not written down, only how many there were: what they said is among the recorded effects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any, NoReturn

from pure_agent_loop.budget import Price
from pure_agent_loop.compaction import Chain, Ladder, MemoryOverflow
from pure_agent_loop.hooks import Hooks
from pure_agent_loop.kernel.journal import Journal
from pure_agent_loop.kernel.kit import Compactor, Kit, NoCompaction
from pure_agent_loop.kernel.settings import ResultLimits, Timeouts
from pure_agent_loop.kernel.tools.run_tools import RunTools, flags_of
from pure_agent_loop.kernel.window import window_of
from pure_agent_loop.limits import LoopLimits
from pure_agent_loop.llm.base import BaseLLMClient, model_of, takes_meta
from pure_agent_loop.permissions import PermissionPolicy, PermissionRules
from pure_agent_loop.prompts import CHINESE, ENGLISH, Prompts
from pure_agent_loop.prompts.words import say
from pure_agent_loop.tool import StepContext, Tool, ToolRegistry

_WORDS = {"en": ENGLISH, "zh": CHINESE}
_HOOKS = ("before_tool", "after_tool", "on_stop")
_SECRET = ("extra_headers", "extra_query")  # keys may stand there
_BEHAVIORS = ("deny", "ask", "allow")


def describe(kit: Kit) -> dict[str, Any]:
    """What the record of a run says about what it works with."""
    rules, output, budget = kit.permissions.rules, kit.output, kit.budget
    return {
        "model": model_of(kit.client),
        "takes_meta": takes_meta(kit.client),
        "tools": kit.tools.to_openai_schema(kit.prompts),
        "tool_flags": {each.name: flags_of(each) for each in kit.tools},
        "tool_timeout": kit.timeouts.tool,
        "options": {name: value for name, value in kit.options.items() if name not in _SECRET},
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
        "permissions": {"mode": kit.permissions.mode, **{b: list(getattr(rules, b)) for b in _BEHAVIORS}},
        "functions": {
            "can_use_tool": kit.can_use_tool is not None,
            "on_ask": kit.on_ask is not None,
            **{name: len(getattr(kit.hooks, name)) for name in _HOOKS},
            "max_stops": kit.hooks.max_stops,
        },
        "budget": budget
        if budget is None
        else {"prices": {name: asdict(price) for name, price in budget.prices.items()}},
    }


class RecordedTools(RunTools):
    """The tools of a replay: what toolsets listed is recorded."""

    async def _listed(self, context: StepContext, journal: Journal) -> Sequence[Tool]:
        tools, number = self._in_step, 0
        while journal.recorded(key := f"{context.step}:tools:{number}"):
            plain: list[dict[str, Any]] = await journal.effect(key, _recorded)
            tools = [stub_tool(each, {each["name"]: each["flags"]}) for each in plain]
            number += 1
        return tools


class _RecordedOutput:
    """What the answers had to be; what was said about them is recorded."""

    def __init__(self, plain: Mapping[str, Any]) -> None:
        self.retries = int(plain["retries"])
        self.response_format = plain["form"]

    def partial(self) -> None:
        """Nobody watches."""

    async def judge(self, text: str) -> NoReturn:  # noqa: ARG002 - nobody is asked
        """Refuse."""
        await never()

    def load(self, plain: Any) -> Any:
        """The plain form."""
        return plain

    def complaint(self, why: str) -> str:
        """What the model was told."""
        return say("correct_answer", why=why)


def _plain_compactor(compactor: Compactor) -> dict[str, Any] | None:
    if isinstance(compactor, Ladder):
        return asdict(compactor)
    if isinstance(compactor, MemoryOverflow):
        return {"max_history": compactor.max_history, "keep": compactor.keep}
    if isinstance(compactor, Chain):
        return {"chain": [_plain_compactor(each) for each in compactor.compactors]}
    return None


def _compactor(plain: Mapping[str, Any] | None) -> Compactor:
    """The reverse. What it wrote is recorded: in a replay it writes nothing."""
    if plain is None:
        return NoCompaction()
    if "chain" in plain:
        return Chain(*map(_compactor, plain["chain"]))
    return MemoryOverflow(".", **plain) if "max_history" in plain else Ladder(**plain)


def rebuild(run: Mapping[str, Any]) -> Kit:
    """A kit like the one that was described. Nothing in it can be called.

    Raises:
        KeyError: Something is missing in the description.
        TypeError: Something in it cannot be right.
        ValueError: The same.
        ConfigError: The same.
    """
    functions, flags = run["functions"], run["tool_flags"]
    rules = {name: run["permissions"][name] for name in _BEHAVIORS}
    known = {each.name for each in fields(LoopLimits)}  # a later version may have written more
    limits = {name: _number(value) for name, value in run["limits"].items() if name in known}
    limits["prices"] = read_prices(limits["prices"])
    said = run["prompts"]
    words = _WORDS[said] if isinstance(said, str) else Prompts(**{"system_prompt": "", **said})
    return Kit(
        client=NoClient(str(run["model"]), takes_meta=run["takes_meta"]),
        tools=RecordedTools(ToolRegistry(stub_tool(each["function"], flags) for each in run["tools"]), words),
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
        timeouts=Timeouts(tool=_number(run["tool_timeout"])),
        context_window=run["window"],
        results=ResultLimits(run["max_result_chars"], run["max_error_chars"]),
        compactor=_compactor(run["compaction"]),
    )


def read_prices(prices: Mapping[str, Any]) -> dict[str, Price]:
    """A price table from its plain form."""
    return {name: Price(**price) for name, price in prices.items()}


def stub_tool(function: Mapping[str, Any], flags: Mapping[str, Mapping[str, Any]]) -> Tool:
    """A tool that can be described and not called."""
    name = function["name"]
    given = {flag: _number(value) for flag, value in flags.get(name, {}).items()}
    if given.pop("judge", False):
        given["judge"] = never  # what it said is recorded
    if given.get("destructive") == "depends":
        given["destructive"] = never
    return Tool(
        never,
        name=name,
        description=function["description"],
        parameters=function["parameters"],
        **given,
    )


def _number(value: Any) -> Any:
    """What had no JSON form: no limit."""
    return float("inf") if value == "inf" else value


async def _recorded() -> Any:
    await never()


async def never(*_: Any, **__: Any) -> NoReturn:
    """Stands where a function was; what that said is recorded."""
    raise AssertionError("Nothing is called in a replay.")


class NoClient(BaseLLMClient):
    """Stands where the model was; its answers are recorded."""

    def __init__(self, model: str, *, takes_meta: bool) -> None:
        self.model = model
        self.takes_meta = takes_meta

    async def chat(
        self,
        messages: list[dict[str, Any]],  # noqa: ARG002 - nobody is asked
        tools: list[dict[str, Any]] | None = None,  # noqa: ARG002 - nobody is asked
        **kwargs: Any,  # noqa: ARG002 - nobody is asked
    ) -> NoReturn:
        """Refuse."""
        await never()
