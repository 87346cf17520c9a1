"""Plain requests through the SDK's HTTP library, without the SDK, which is slow to import."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.llm.http.plain import LARGE, HttpTimeouts, PlainRequest, PlainTransport
from pure_agent_loop.llm.http.pool import HttpxResponse, StackedTransport, library, tls_for

if TYPE_CHECKING:
    from pure_agent_loop.llm.http import HttpResponse

CHUNK_BYTES = 65_536


class DirectTransport(PlainTransport):
    """See `PlainTransport`."""

    follows = False

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        try:
            self._address = library.URL(self.url)
        except library.InvalidURL as error:
            raise ConfigError(f"base_url is invalid: {error}") from error
        self._fields = library.Headers(self.headers)
        self._sender = StackedTransport(tls_for(self._address.scheme))

    async def _send(self, request: PlainRequest) -> tuple[int, HttpResponse]:
        fields, body = self._fields if request.headers is None else request.headers, request.body
        content: bytes | AsyncIterator[bytes] = body
        if len(body) >= LARGE:
            fields, content = {**fields, "content-length": str(len(body))}, _pieces(body)
        sent = library.Request(
            "POST",
            library.URL(f"{self.url}?{request.query}") if request.query else self._address,
            headers=fields,
            content=content,
            extensions={"timeout": _timeout(request.timeouts)},
        )
        response = await self._answered(sent)
        return response.status_code, HttpxResponse(response)

    async def _answered(self, request: library.Request) -> library.Response:
        try:
            return await self._sender.handle_async_request(request)
        except library.TimeoutException as error:
            raise TimeoutError(str(error)) from error
        except library.LocalProtocolError as error:
            raise ValueError from error

    async def _read(self, answer: HttpResponse) -> bytes:
        assert isinstance(answer, HttpxResponse)
        return await answer.response.aread()

    async def get(self, url: str, seconds: float) -> Any:
        """See `Transport`."""
        timeout = _timeout(HttpTimeouts(seconds, seconds))
        request = library.Request("GET", url, headers=self._fields, extensions={"timeout": timeout})
        response = await self._answered(request)
        data = await response.aread()
        if response.status_code != 200:
            raise ValueError(f"status {response.status_code}")
        return json.loads(data)

    async def _close(self) -> None:
        await self._sender.aclose()


async def _pieces(body: bytes) -> AsyncIterator[bytes]:
    """Yield pieces of a body: the library's write timeout applies to each piece."""
    for start in range(0, len(body), CHUNK_BYTES):
        yield body[start : start + CHUNK_BYTES]


def _timeout(timeouts: HttpTimeouts) -> dict[str, float | None]:
    reading, connecting = timeouts
    return {"connect": connecting, "read": reading, "write": reading, "pool": reading}
