"""HTTP transports: aiohttp, the SDK's HTTP library, or the SDK for options that only it supports.

`choice` selects one. `plain` is the base of `aio` and `direct`, `pool` keeps connections for `direct` and
`sdk`, `errors` translates exceptions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Headers(Protocol):
    """Response headers with case-insensitive names."""

    def get(self, name: str, default: str, /) -> str:
        """Return a header, or the default."""
        ...


class HttpResponse(Protocol):
    """A successful response whose body has not been read."""

    @property
    def headers(self) -> Headers:
        """Response headers."""
        ...

    @property
    def at_end(self) -> bool:
        """True if the body is known to be read to its end."""
        ...

    async def read(self) -> bytes:
        """Wait for the next piece of the body, decompressed; empty at the end."""
        ...

    def buffered(self) -> bytes:
        """Return the bytes received before `read` failed, once."""
        ...

    async def aclose(self) -> None:
        """Release the connection; close it if the body was not read to its end."""
        ...


class Transport(Protocol):
    """The connections of one event loop to one server. Created anywhere, then used by that loop only."""

    async def post(self, body: bytes, options: Mapping[str, Any]) -> HttpResponse:
        """Send a request.

        Args:
            options: ``extra_headers``, ``extra_query`` and ``timeout`` of the request, among others.

        Raises:
            Exception: An error that `errors.translate_error` handles.
        """
        ...

    async def get(self, url: str, seconds: float) -> Any:
        """Get JSON from another URL of the server. Raises any error."""
        ...

    async def close(self) -> None:
        """Close the connections; one in use closes with its response."""
        ...
