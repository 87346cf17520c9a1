"""Run several compactors in order."""

from __future__ import annotations

from pure_agent_loop.kernel.kit import Compactor, Kit, KitAware, compact_now
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.support.abilities import as_protocol, check_method


class Chain:
    """Run several compactors in order.

    Args:
        compactors: Compactors in order, such as ``MemoryOverflow(folder)``, ``Ladder()``.
    """

    def __init__(self, *compactors: Compactor) -> None:
        for compactor in compactors:
            check_method("Chain: each of its compactors", compactor, "compact", "state")
        self.compactors = compactors

    def with_kit(self, kit: Kit) -> Chain:
        """Return the chain for one run."""
        known = [(compactor, as_protocol(compactor, KitAware)) for compactor in self.compactors]
        return Chain(
            *(compactor if knowing is None else knowing.with_kit(kit) for compactor, knowing in known)
        )

    async def compact(self, state: QueryState) -> None:
        """Run each compactor in turn."""
        for compactor in self.compactors:
            await compactor.compact(state)

    async def force(self, state: QueryState) -> None:
        """Apply each compactor in turn, regardless of the history's length."""
        for compactor in self.compactors:
            await compact_now(compactor, state)
