"""Engine: durable runs that a Ray cluster executes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pure_agent_loop.agent import Agent
from pure_agent_loop.durable.client import RunningClient
from pure_agent_loop.durable.database import default_database
from pure_agent_loop.durable.table_carrier import StatesDatabase, TableCarrier
from pure_agent_loop.durable.values import MAX_ATTEMPTS, check_settings
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.ray.actors import Keeper, SessionActor, Setup
from pure_agent_loop.ray.cluster import connect, import_ray
from pure_agent_loop.sessions import SessionStore
from pure_agent_loop.support.checks import require

RESERVED = ("name", "namespace", "lifetime", "get_if_exists", "max_restarts", "max_task_retries")
START_SECONDS = 120.0


class RayEngine(RunningClient):
    """Durable runs on Ray: one actor for each session with a run to execute.

        engine = RayEngine("sqlite:///work.sqlite", agents=make_agents)
        with engine:
            print(engine.submit("helper", "What is 2 + 3?").result().content)

    Without `agents` the engine is only a client: it does not need Ray, and any process that has the
    database's URL can submit, answer, cancel and list runs.

    Args:
        database: ``sqlite:///PATH`` (then all actors are on this machine) or ``postgresql://...``; None for
            ``PAL_DATABASE``, or else a file in the data folder. `Engine` needs a different database.
        agents: Function that returns agents by name; each actor calls it in its own process.
        deps: Function that makes the deps for each attempt; see `Engine`.
        address: ``local`` for a new cluster on this machine, which ends with the engine; ``auto`` or
            ``HOST:PORT`` to join one. If the program has called ``ray.init`` itself, its cluster
            is used, and an address other than ``local`` is rejected.
        namespace: Ray namespace of the actors.
        concurrency: Maximum number of sessions with an actor.
        actor_options: Ray options for these actors, such as ``num_cpus`` (0 by default, for agents that
            mostly wait for a model), ``memory``, ``resources`` or ``runtime_env``.
        max_attempts: Maximum number of attempts without progress; see `Engine`.
        lease: Seconds without a heartbeat after which a writer on PostgreSQL may be replaced.
        grace: Seconds for running tools to finish in `stop`.

    Raises:
        ConfigError: An argument is invalid.
    """

    def __init__(
        self,
        database: str | None = None,
        *,
        agents: Callable[[], Mapping[str, Agent]] | None = None,
        deps: Callable[..., Any] | None = None,
        address: str = "local",
        namespace: str = "pal",
        concurrency: int = 16,
        actor_options: Mapping[str, Any] | None = None,
        max_attempts: int = MAX_ATTEMPTS,
        lease: float = 10.0,
        grace: float = 20.0,
    ) -> None:
        is_function = agents is None or callable(agents)
        require(is_function, "agents", agents, "a function that returns agents by name")
        check_settings({"concurrency": concurrency, "max_attempts": max_attempts}, lease=lease, grace=grace)
        if not namespace:
            raise ConfigError("namespace must not be empty: an unnamed namespace hides the actors.")
        if taken := {*RESERVED} & {*(actor_options or {})}:
            raise ConfigError(
                f"actor_options: {', '.join(sorted(taken))} cannot be set; this engine sets them."
            )
        states = StatesDatabase(default_database() if database is None else database)
        super().__init__(states, carrier=TableCarrier(states, self._poke))
        self._make_agents, self._grace, self._address = agents, grace, address
        self._setup = Setup(
            states.url,
            agents or dict,
            namespace,
            deps,
            max_attempts,
            lease,
            concurrency,
            dict(actor_options or {}),
        )
        self._keeper: Any = None
        self._has_cluster = False

    @property
    def _has_agents(self) -> bool:
        return self._make_agents is not None

    @property
    def sessions(self) -> SessionStore:
        """A new session store for this database; close it after use."""
        return self.database.sessions(lease=self._setup.lease)

    def start(self) -> None:
        """Connect to the cluster, and start executing runs there with the agents of this engine.

        This replaces the agents of an earlier engine; running actors keep the former agents.

        Raises:
            ConfigError: There are no agents, or the program is already connected, but not through `address`.
            DurableError: The database is unavailable.
            MissingExtraError: The extra ``[ray]`` is not installed.
        """
        if self._make_agents is None:
            raise ConfigError("RayEngine has no agents; pass agents=FUNCTION.")
        ray = import_ray()
        _ = self.queue.carrier  # raises DurableError if the database is unavailable
        self._has_cluster = connect(self._address, self._setup.namespace) or self._has_cluster
        setup, options = self._setup, dict[str, Any]()
        if setup.url.startswith("sqlite:"):  # the database file is on this machine, so the actors must be too
            here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
                ray.get_runtime_context().get_node_id(), soft=False
            )
            options["scheduling_strategy"] = here
            setup = replace(setup, actor_options={"scheduling_strategy": here, **setup.actor_options})
        trial = ray.remote(SessionActor).options(**{"num_cpus": 0, **setup.actor_options}).remote("")
        self.queue.register_agents(ray.get(trial.agents.remote(setup), timeout=START_SECONDS))
        ray.kill(trial)
        place = {"name": setup.actor_name(), "namespace": setup.namespace}
        with contextlib.suppress(ValueError):  # there may be no keeper
            ray.kill(ray.get_actor(**place))
        keeper = ray.remote(Keeper).options(
            **place, **options, num_cpus=0, lifetime="detached", max_restarts=-1, get_if_exists=True
        )
        self._keeper = keeper.remote(setup)
        ray.get(self._keeper.status.remote(), timeout=START_SECONDS)

    def stop(self) -> None:
        """Stop starting runs in the cluster: running tools may finish, and runs are handed back."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            ray = import_ray()
            with contextlib.suppress(ray.exceptions.RayError):
                ray.get(keeper.stop.remote(self._grace), timeout=self._grace + START_SECONDS)
            ray.kill(keeper)

    def actor(self, session_id: str = "") -> Any:
        """Return a session's actor, for calls such as ``ray.get(actor.status.remote())``.

        Args:
            session_id: The session; empty for the keeper.

        Raises:
            ValueError: The session has no actor, because none of its runs is being executed.
        """
        return import_ray().get_actor(self._setup.actor_name(session_id), namespace=self._setup.namespace)

    def close(self) -> None:
        """Close the connections. Stop the cluster if this engine started it; otherwise, runs continue."""
        if self._has_cluster:
            self.stop()
            import_ray().shutdown()
        self._keeper, self._has_cluster = None, False
        super().close()

    def _poke(self, what: str, run_id: str) -> None:
        """Have the keeper check for runs now. If this call is lost, the keeper checks within a second."""
        if self._keeper is not None:
            with contextlib.suppress(Exception):
                self._keeper.poke.remote(what, run_id)
