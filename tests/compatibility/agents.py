"""Agents whose runs are recorded once, by an old version, and resumed by this one; public names only."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from pure_agent_loop import Agent, tool
from pure_agent_loop.audit import AuditLog
from pure_agent_loop.permissions import PermissionRules
from pure_agent_loop.subagents import AgentDefinition, SubagentManager
from pure_agent_loop.testing import ScriptedLLM, call

MARKS: list[str] = []


@dataclass
class Sum:
    """A typed answer."""

    value: int
    why: str


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    MARKS.append(f"add {a} {b}")
    return a + b


@tool
def pay(amount: int) -> str:
    """Pay an amount."""
    MARKS.append(f"pay {amount}")
    return f"{amount} paid"


@tool
def crash(n: int) -> str:
    """End the process in the middle of a call, where the environment says so."""
    if os.environ.get("CRASH"):
        os._exit(7)
    MARKS.append(f"crash {n}")
    return f"{n} survived"


@tool(external=True)
def elsewhere(n: int) -> str:
    """Done by another program."""
    raise AssertionError(n)


def steps_done(messages: list[Any]) -> int:
    """Count the responses since the last task."""
    tasks = [at for at, message in enumerate(messages) if str(message.get("content")).startswith("Task:")]
    return sum(1 for message in messages[tasks[-1] if tasks else 0 :] if message.get("tool_calls"))


def scripted(*responses: Any) -> ScriptedLLM:
    """A model that answers by the number of responses since the last task, in whichever process."""
    return ScriptedLLM(lambda messages, *_: responses[min(steps_done(messages), len(responses) - 1)])


def finished(**options: Any) -> Agent:
    """Two calls in one step, one after it, then text."""
    model = scripted([call("add", a=2, b=3), call("add", a=4, b=5)], call("pay", amount=14), "14 are paid.")
    return Agent(llm=model, tools=[add, pay], **options)


def typed(**options: Any) -> Agent:
    """An answer with a type."""
    model = scripted(call("add", a=2, b=3), '{"value": 5, "why": "2 + 3"}')
    return Agent(llm=model, tools=[add], output_type=Sum, **options)


def waiting(**options: Any) -> Agent:
    """One call that is allowed, and two that a person decides."""
    model = scripted(
        [call("add", a=2, b=3), call("pay", amount=5), call("pay", amount=7)], "All of it is decided."
    )
    return Agent(
        llm=model,
        tools=[add, pay],
        permission_mode="ask",
        permission_rules=PermissionRules(allow=["add"]),
        **options,
    )


def external(**options: Any) -> Agent:
    """A call whose result comes from elsewhere."""
    return Agent(
        llm=scripted([call("add", a=2, b=3), call("elsewhere", n=1)], "It came."),
        tools=[add, elsewhere],
        **options,
    )


def killed(**options: Any) -> Agent:
    """The process ends during the third step."""
    model = scripted(call("add", a=2, b=3), call("pay", amount=5), call("crash", n=1), "It went on.")
    return Agent(llm=model, tools=[add, pay, crash], **options)


def compacted(**options: Any) -> Agent:
    """Long results, so that the history is shortened."""
    long = [call("add", a=n, b=1) for n in range(12)]
    model = scripted(*long, "Added.")
    return Agent(llm=model, tools=[add], context_window=1_500, **options)


def delegating(**options: Any) -> Agent:
    """A task for another agent."""
    model = scripted(call("task", agent="adder", prompt="Task: add"), "The adder did it.")
    adder = AgentDefinition(
        name="adder",
        description="Adds.",
        prompt="Add.",
        tools=[add],
        llm=scripted(call("add", a=2, b=3), "5"),
    )
    return Agent(llm=model, subagents=SubagentManager([adder]), **options)


def audited(folder: str, **options: Any) -> Agent:
    """An audit log."""
    return finished(audit=AuditLog(folder, notes={"mode": "auto"}, user="recorder"), name="payer", **options)
