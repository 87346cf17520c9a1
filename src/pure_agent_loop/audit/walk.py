"""Going along the chain of an audit log, line by line, in one pass."""

from __future__ import annotations

import hashlib
from typing import Any

from pure_agent_loop.audit.seal import GENESIS, Sealer

LONGEST_LINE = 4 << 20  # read at once; a writer's lines are much shorter


class BrokenChain(ValueError):  # noqa: N818 - it is said of the log
    """Here the chain does not go on.

    Args:
        what: What is wrong, in half a sentence.
        at: How many lines back from the one just read.
    """

    def __init__(self, what: str, at: int = 0) -> None:
        self.at = at
        super().__init__(what)


class Rest:
    """Bytes behind the last good line: the unfinished line of a writer that was killed, or damage."""

    def __init__(self) -> None:
        self.size = 0
        self.lines = 0
        self.why = ""
        self.ends_line = False
        self._digest = hashlib.sha256()

    def add(self, data: bytes, why: str = "") -> None:
        """Take more bytes."""
        self.why = self.why or why
        self.size += len(data)
        self.lines += 1
        self.ends_line = data.endswith(b"\n")
        self._digest.update(data)

    def mark(self) -> dict[str, Any]:
        """What the next line has to say about them, so that they are known to be no line."""
        return {"bytes": self.size, "sha256": self._digest.hexdigest()}


class Walk:
    """A place in the chain.

    Args:
        sealer: Opens the lines.
        count: The number of the line before.
        last: Its hash.
    """

    def __init__(self, sealer: Sealer, count: int = 0, last: str = GENESIS) -> None:
        self._sealer = sealer
        self.count = count
        self.last = last
        self.rest = Rest()
        self.torn = 0

    def step(self, line: bytes) -> dict[str, Any] | None:
        """Go one line further.

        Returns:
            Its fields; None if it cannot be read, which the next line may explain.

        Raises:
            BrokenChain: The line is whole, but is not the one that has to stand here.
        """
        try:
            fields, digest = self._sealer.open(line)
        except ValueError as error:
            self.rest.add(line, str(error))
            return None
        if self.rest.size:
            if fields.get("kind") != "torn" or not self.rest.mark().items() <= fields.items():
                raise BrokenChain(self.rest.why, self.rest.lines)
            self.torn += 1
        self._check(fields)
        self.count, self.last, self.rest = self.count + 1, digest, Rest()
        return fields

    def _check(self, fields: dict[str, Any]) -> None:
        number, due = fields.get("n"), self.count + 1
        if number != due or isinstance(number, bool):
            raise BrokenChain(f"it is number {number!r:.40}, but number {due} has to be here")
        if fields.get("prev") != self.last:
            raise BrokenChain(
                f"it does not follow line number {self.count}: that one was changed or replaced"
            )
