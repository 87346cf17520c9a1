"""A process that serves agents to Restate, until it is killed: ``python -m tests.engines.restate_agents``."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from hypercorn.asyncio import serve
from hypercorn.config import Config
from tests.engines.restate_engine import WITHOUT_ASK, end_with_parent

from pure_agent_loop import Agent, LoopLimits, Tool, tool
from pure_agent_loop.restate import restate_app
from pure_agent_loop.testing import ScriptedLLM, call
from pure_agent_loop.testing.killed_work import file_mark, make_tools, next_answer
from pure_agent_loop.tool_context import current_call

RETRY = {"initial_interval": 0.02, "max_interval": 0.3}
MANY, IN_PARALLEL = 1000, 10
NOTHING = {"type": "object", "properties": {}}


def rounds_of(*rounds: Any) -> ScriptedLLM:
    """A model that looks only at the history: its rounds in order, then an answer."""

    def answer(messages: Any, *_: Any) -> Any:
        starts = [at for at, each in enumerate(messages) if each["role"] == "user"]
        number = sum(1 for each in messages[starts[-1] :] if each.get("tool_calls"))
        return rounds[number] if number < len(rounds) else "Done."

    return ScriptedLLM(answer)


def agents_in(folder: Path, version: str = "1") -> dict[str, Agent]:
    """The agents of the tests; their tools leave marks in a file of the folder."""
    mark = file_mark(str(folder / "marks"))

    @tool
    def slow(n: int) -> str:
        """Work until a file says that it may end."""
        mark(f"start slow {n}\n")
        while not (folder / f"go {n}").exists():
            time.sleep(0.01)
        mark(f"end slow {n}\n")
        return f"slow {n} is done"

    @tool
    def pay(n: int) -> str:
        """Pay."""
        mark(f"pay {n} version {version}\n")
        return f"paid {n} by version {version}"

    @tool
    def refuse(n: int) -> str:
        """Fail."""
        mark(f"refuse {n}\n")
        raise ValueError(f"no {n}")

    @tool
    def tell() -> None:
        """Tell the agent's name."""
        current = current_call()
        assert current is not None
        mark(f"{current.agent}\n")

    outside = Tool(None, name="outside", description="Runs elsewhere.", parameters=NOTHING, external=True)
    pairs = [[call("pay", n=at + one) for one in range(IN_PARALLEL)] for at in range(0, MANY, IN_PARALLEL)]
    limits = LoopLimits(max_steps=None, max_tokens=None, timeout=None)
    agents = {
        "work": work_agent(folder / "marks"),
        "slow": Agent(llm=rounds_of([call("slow", n=1), call("pay", n=2)]), tools=[slow, pay]),
        "ask": Agent(
            llm=rounds_of([call("pay", n=1)], [call("pay", n=2)]), tools=[pay], permission_mode="ask"
        ),
        "outside": Agent(llm=rounds_of([call("outside"), call("pay", n=1)]), tools=[outside, pay]),
        "many": Agent(llm=rounds_of(*pairs), tools=[pay], limits=limits),
        "named": Agent(llm=rounds_of([call("tell")]), tools=[tell]),
        "fails": Agent(llm=rounds_of([call("refuse", n=1)]), tools=[refuse]),
    }
    if version == WITHOUT_ASK:
        del agents["ask"]
    return agents


def work_agent(marks: Path) -> Agent:
    """An agent whose run can be cut anywhere."""
    model = ScriptedLLM(lambda messages, *_: next_answer(messages))
    return Agent(llm=model, tools=make_tools(file_mark(str(marks)), 0.001))


def serve_forever(port: int, agents: dict[str, Agent], **options: Any) -> None:
    """Serve agents on a port, and do not return."""
    config = Config()
    config.bind = [f"127.0.0.1:{port}"]
    config.loglevel = "ERROR"
    asyncio.run(serve(restate_app(agents, **{"retry": RETRY, **options}), config))


if __name__ == "__main__":
    end_with_parent()
    os.chdir(sys.argv[2])
    agents = agents_in(Path(sys.argv[2]), sys.argv[3])
    serve_forever(int(sys.argv[1]), agents, **json.loads(sys.argv[4]))
