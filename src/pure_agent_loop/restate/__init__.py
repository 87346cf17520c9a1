"""Agents as a Restate service: the engine's log is the journal of each run. Needs the extra ``[restate]``.

    entries  an invocation's log as the records of a run
    service  the session handlers: run, answer, cancel, status

See docs/engines.md to get started.
"""

from pure_agent_loop.restate.service import restate_app

__all__ = ["restate_app"]
