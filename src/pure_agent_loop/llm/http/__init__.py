"""How a request travels: through aiohttp or the SDK's HTTP library, and through the SDK if only it knows how.

`choice` decides. `plain` is what `aio` and `direct` have in common, `pool` keeps connections for `direct` and
`sdk`; `errors` says what it means when something goes wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Headers(Protocol):
    """Header fields of an answer, by names in any case."""

    def get(self, name: str, default: str, /) -> str:
        """A field, or the default."""
        ...


class Answer(Protocol):
    """An answer with a status of success, whose body has not been read."""

    @property
    def headers(self) -> Headers:
        """Its header fields."""
        ...

    @property
    def at_end(self) -> bool:
        """True if the body is known to have been read to its end."""
        ...

    async def read(self) -> bytes:
        """What has come of its body since, unpacked; waits for the next piece, and is empty at the end."""
        ...

    def left(self) -> bytes:
        """What had come of its body before `read` failed, once."""
        ...

    async def aclose(self) -> None:
        """Give the connection back; one whose body was not read to its end is closed."""
        ...


class Transport(Protocol):
    """The connections of one event loop to one server. Made anywhere, then used by that loop alone."""

    async def post(self, body: bytes, options: Mapping[str, Any]) -> Answer:
        """Ask for an answer.

        Args:
            body: The request as JSON.
            options: ``extra_headers``, ``extra_query`` and ``timeout`` of the request, among others.

        Raises:
            Exception: One that `errors.translate_error` knows.
        """
        ...

    async def get(self, url: str, seconds: float) -> Any:
        """JSON from another address of the server. Raises whatever goes wrong."""
        ...

    async def close(self) -> None:
        """Close the connections; one in use when its answer is."""
        ...
