"""A small server on real sockets that says exactly what a test wants, and counts who comes."""

from __future__ import annotations

import contextlib
import gzip
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self

Respond = Callable[[bytes], bytes | Iterable[bytes]]


def page(
    body: bytes | str, kind: str = "text/html; charset=utf-8", status: str = "200 OK", **headers: str
) -> bytes:
    """A whole answer."""
    body = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def moved(to: str, status: str = "302 Found") -> bytes:
    return page(b"", status=status, Location=to)


def packed(body: bytes) -> bytes:
    return page(gzip.compress(body), Content_Encoding="gzip")


class WebServer:
    """Answers each connection with what `respond` gives for its request."""

    def __init__(
        self, respond: Respond | bytes, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
    ) -> None:
        self._respond: Respond = respond if callable(respond) else lambda _: respond
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.socket(family, socket.SOCK_STREAM)
        self._listener.bind((host, 0))
        self._listener.listen(50)
        self.port = self._listener.getsockname()[1]
        self.address = f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"
        self._tls = tls
        self.connections = 0
        self.requests: list[bytes] = []
        self.over = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def url(self, path: str = "/") -> str:
        return f"{'https' if self._tls else 'http'}://{self.address}{path}"

    def _serve(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._answer, args=(sock,), daemon=True).start()

    def _answer(self, sock: Any) -> None:
        with contextlib.suppress(OSError, ValueError), sock:
            if self._tls is not None:
                sock = self._tls.wrap_socket(sock, server_side=True)
            data = b""
            while b"\r\n\r\n" not in data:
                piece = sock.recv(65536)
                if not piece:
                    return
                data += piece
            self.requests.append(data)
            answer = self._respond(data)
            for piece in [answer] if isinstance(answer, bytes) else answer:
                sock.sendall(piece)
            sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.over.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)


def certificate(folder: Path, name: str) -> tuple[ssl.SSLContext, str]:
    """A server's TLS context with a new self-signed certificate for a name, and the file to trust it by."""
    key, cert = folder / f"{name}.key", folder / f"{name}.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ]
    command += ["-keyout", str(key), "-out", str(cert), "-days", "2", "-subj", f"/CN={name}"]
    command += ["-addext", f"subjectAltName=DNS:{name}"]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return context, str(cert)
