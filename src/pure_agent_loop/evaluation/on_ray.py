"""Trials of an evaluation in a Ray cluster: one actor per concurrent trial; no trial is repeated."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from pure_agent_loop.agent import Agent
from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.evaluation.cases import Case, Trial
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.ray.cluster import connect, import_ray
from pure_agent_loop.result import AgentResult
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.text import safe_str

MakeAgent = Callable[[], Agent]
Try = Callable[[Case, Agent, "dict[str, Any]"], Any]


class TrialActor:
    """Creates the agent in a separate process, and runs it on cases, one after another."""

    def __init__(self) -> None:
        self._agent: Agent | None = None

    async def run(
        self, make_agent: MakeAgent, attempt: Try, case: Case, settings: dict[str, Any]
    ) -> tuple[AgentResult, float]:
        """Run the agent on a case; return the result and its duration in seconds."""
        self._agent = self._agent or make_agent()
        trial: Trial = await attempt(case, self._agent, settings)
        return trial.result, trial.seconds


class RayTrials:
    """Actors for trials.

    Args:
        make_agent: Function that creates the agent in the process of each actor.
        attempt: Function that runs an agent on a case.
        width: Number of actors.
    """

    def __init__(self, make_agent: MakeAgent, attempt: Try, width: int) -> None:
        self._ray, self._make_agent, self._attempt = import_ray(), make_agent, attempt
        self._kind = self._ray.remote(TrialActor).options(num_cpus=0, max_restarts=0, max_task_retries=0)
        self._idle: asyncio.Queue[Any] = asyncio.Queue()
        for _ in range(width):
            self._idle.put_nowait(None)  # None stands for an actor that is started when needed

    async def run(self, case: Case, agent: Agent, settings: dict[str, Any]) -> Trial:
        """Run a trial in an actor. If the actor's process dies, the trial fails: its effects are unknown."""
        idle = await self._idle.get()
        actor = self._kind.remote() if idle is None else idle
        # Send the case without its evaluators, which stay in this process.
        bare = Case(case.input, name=case.name, messages=case.messages)
        try:
            return Trial(case, *await self._result(actor, agent, bare, settings))
        except self._ray.exceptions.RayActorError as error:
            actor, reason = None, safe_str(error).split("\n", 1)[0]
            failure = PureAgentLoopError(notice("library.trial_lost", reason=reason))
            state = QueryState(stop_reason="error", failure=failure)
            return Trial(case, AgentResult.from_state(state, []), agent)
        finally:
            self._idle.put_nowait(actor)

    async def _result(self, actor: Any, agent: Agent, case: Case, settings: dict[str, Any]) -> Any:
        result, seconds = await actor.run.remote(self._make_agent, self._attempt, case, settings)
        return result, agent, seconds

    def close(self) -> None:
        """End the actors."""
        while not self._idle.empty():
            actor = self._idle.get_nowait()
            if actor is not None:
                self._ray.kill(actor)


@asynccontextmanager
async def ray_trials(make_agent: MakeAgent, attempt: Try, width: int) -> AsyncIterator[RayTrials]:
    """Yield actors in the cluster that the program is connected to, else in a local one for this block."""
    is_own = await asyncio.to_thread(connect, "local", "pal")
    trials = RayTrials(make_agent, attempt, width)
    try:
        yield trials
    finally:
        trials.close()
        if is_own:
            await asyncio.to_thread(import_ray().shutdown)
