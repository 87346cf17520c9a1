"""Amazon's own formats: the signature of a request (Signature Version 4), and messages of an event stream.

Source of both: ``botocore`` 1.44, modules ``auth`` and ``eventstream``.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
import urllib.parse
import zlib
from collections.abc import Mapping, Sequence

from llm_client_conformance.scripted.request import ServerRequest


def signature_of(request: ServerRequest, names: Sequence[str], secret: str, region: str) -> str:
    """Return the expected signature of a request to Bedrock, computed from the received request.

    Args:
        request: The request.
        names: Names of the signed headers, in order.
        secret: Secret key.
        region: Region.
    """
    path, _, query = request.path.partition("?")
    headers = "".join(f"{name}:{' '.join(request.headers.get(name, '').split())}\n" for name in names)
    payload = request.headers.get("x-amz-content-sha256") or hashlib.sha256(request.raw).hexdigest()
    lines = [request.method, urllib.parse.quote(path, safe="/~"), query, headers, ";".join(names), payload]
    time = request.headers["x-amz-date"]
    scope = f"{time[:8]}/{region}/bedrock/aws4_request"
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), "sha256").digest()
    text = f"AWS4-HMAC-SHA256\n{time}\n{scope}\n{digest}"
    return hmac.new(key, text.encode(), "sha256").hexdigest()


def amazon_message(headers: Mapping[str, str], payload: bytes) -> bytes:
    """Return one message of Amazon's event stream.

    Args:
        headers: Header values by name.
        payload: Body of the message.
    """
    fields = b"".join(
        struct.pack(f"!B{len(name)}sBH{len(text)}s", len(name), name.encode(), 7, len(text), text.encode())
        for name, text in {**headers, ":content-type": "application/json"}.items()
    )
    prelude = struct.pack("!II", len(fields) + len(payload) + 16, len(fields))
    prelude += struct.pack("!I", zlib.crc32(prelude))
    message = prelude + fields + payload
    return message + struct.pack("!I", zlib.crc32(message))
