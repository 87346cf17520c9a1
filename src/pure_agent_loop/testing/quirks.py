"""Former names of quirks for `ScriptedServer`. Needs the conformance kit: ``pip install ./conformance``."""

from __future__ import annotations

from typing import Any, ClassVar, cast

from llm_client_conformance.quirks import Expected, Quirk, RawBody
from pure_agent_loop.testing.exchange import Exchange
from pure_agent_loop.testing.faults import ServerFault

__all__ = ["AsItIs", "Expected", "Quirk"]


class AsItIs(ServerFault):
    """Script item: the body of a quirk, byte for byte; see `RawBody` of the kit."""

    ends_with_done: ClassVar[bool] = False

    def __init__(self, quirk: Quirk) -> None:
        self._item = RawBody(quirk)

    async def play(self, out: Exchange) -> bool:
        """Send the body and end the answer."""
        # `Exchange` of the conformance kit has the same methods.
        return await self._item.play(cast("Any", out))
