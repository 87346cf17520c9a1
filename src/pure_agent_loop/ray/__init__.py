"""Durable runs on Ray: an actor for each session, and all states in this package's tables. Extra ``[ray]``.

    actors   the actor that executes a session's runs, and the keeper that starts these actors
    engine   `RayEngine`: submit runs, and have them executed in a Ray cluster
    cluster  Ray itself, imported lazily and connected

See docs/engines.md.
"""

from __future__ import annotations

from pure_agent_loop.ray.engine import RayEngine

__all__ = ["RayEngine"]
