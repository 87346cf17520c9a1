"""A bare HTTP client for these tests: shows exactly what came over the wire, broken or not."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

HELLO = [{"role": "user", "content": "hello"}]


@dataclass
class Reply:
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    data: bytes = b""
    broken: Exception | None = None

    @property
    def json(self) -> Any:
        return json.loads(self.data)

    @property
    def payloads(self) -> list[bytes]:
        lines = self.data.split(b"\n\n")
        return [line[6:] for line in lines if line.startswith(b"data: ")]

    @property
    def chunks(self) -> list[Any]:
        return [json.loads(payload) for payload in self.payloads if payload != b"[DONE]"]

    @property
    def done(self) -> bool:
        return b"[DONE]" in self.payloads

    @property
    def text(self) -> str:
        return "".join(c["choices"][0]["delta"].get("content") or "" for c in self.chunks if c.get("choices"))

    @property
    def finish_reasons(self) -> list[str]:
        found = [choice["finish_reason"] for chunk in self.chunks for choice in chunk.get("choices", ())]
        return [reason for reason in found if reason]


class Probe:
    """One connection, kept alive between requests."""

    def __init__(self, base_url: str) -> None:
        parts = urlsplit(base_url)
        self.path = parts.path
        self.connection = http.client.HTTPConnection(parts.netloc, timeout=20)

    def send(self, body: Any = None, **options: Any) -> None:
        if body is None:
            body = {"model": "m", "messages": HELLO, **options}
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "Authorization": "Bearer k"}
        self.connection.request("POST", self.path + "/chat/completions", data, headers)

    def receive(self) -> Reply:
        reply = Reply()
        try:
            response = self.connection.getresponse()
            reply.status, reply.headers = response.status, {k.lower(): v for k, v in response.getheaders()}
            while piece := response.read1(65536):
                reply.data += piece
            response.read()  # nothing is left, but only this gives the connection free
        except (OSError, http.client.HTTPException) as error:
            reply.broken = error
        return reply

    def ask(self, body: Any = None, **options: Any) -> Reply:
        self.send(body, **options)
        return self.receive()

    def get(self, path: str) -> Reply:
        self.connection.request("GET", self.path + path)
        return self.receive()

    def close(self) -> None:
        self.connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def ask(base_url: str, body: Any = None, **options: Any) -> Reply:
    with Probe(base_url) as probe:
        return probe.ask(body, **options)
