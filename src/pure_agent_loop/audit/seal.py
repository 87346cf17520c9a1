"""One line of an audit log: JSON that ends with a hash over all of its bytes.

    {"n":7,"time":1767225600.5,"kind":"call", ... ,"key":null,"prev":"<hash of line 6>","hash":"<64 digits>"}

The hash covers the bytes as they stand, so there is no second way to write the same line. With a key it is
an HMAC: who cannot read the key cannot write a line that fits.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
from typing import Any

from pure_agent_loop.errors import ConfigError

KEY_VARIABLE = "PURE_AGENT_LOOP_AUDIT_KEY"
GENESIS = "0" * 64  # the hash before the first line
_SHORTEST_KEY = 16
_END = re.compile(rb',"hash":"([0-9a-f]{64})"\}\n')
_END_LENGTH = len(b',"hash":""}\n') + 64


class Sealer:
    """Seals lines, and opens them again.

    Args:
        key: A secret of at least 16 characters; None takes ``PURE_AGENT_LOOP_AUDIT_KEY`` if it is set, and
            "" none at all.

    Raises:
        ConfigError: The key is too short.
    """

    def __init__(self, key: str | bytes | None = None) -> None:
        given = os.environ.get(KEY_VARIABLE, "") if key is None else key
        self._key = given.encode("utf-8", "surrogateescape") if isinstance(given, str) else given
        if self._key and len(self._key) < _SHORTEST_KEY:
            raise ConfigError(
                f"key: {len(self._key)} characters are too few for an audit key ({KEY_VARIABLE}); "
                f"use at least {_SHORTEST_KEY}, such as from: openssl rand -hex 32"
            )
        # Names the key without telling it, so that a wrong key is not taken for damage.
        self.key_id = self._digest(b"name of the key of an audit log")[:12] if self._key else None

    def _digest(self, body: bytes) -> str:
        if self._key:
            return hmac.new(self._key, body, hashlib.sha256).hexdigest()
        return hashlib.sha256(body).hexdigest()

    def seal(self, fields: dict[str, Any]) -> tuple[bytes, str]:
        """Write fields (plain JSON) as a line of printable ASCII with a newline; also give its hash."""
        text = json.dumps(fields, separators=(",", ":"), allow_nan=False)
        body = text[:-1].replace("\x7f", "\\u007f").encode("ascii")
        digest = self._digest(body)
        return b'%b,"hash":"%b"}\n' % (body, digest.encode()), digest

    def open(self, line: bytes) -> tuple[dict[str, Any], str]:
        """Read a line with its newline: the fields, and its hash.

        Raises:
            ValueError: It is not exactly what `seal` wrote; the message says why.
        """
        at = len(line) - _END_LENGTH
        end = _END.fullmatch(line, at) if at > 0 else None
        if end is None:
            raise ValueError("it is no whole line of an audit log")
        if not hmac.compare_digest(self._digest(line[:at]), end[1].decode()):
            raise ValueError(self._why(line))
        fields = _parse(line)
        if fields.get("key") != self.key_id:
            raise ValueError(self._why(line))
        return fields, end[1].decode()

    def _why(self, line: bytes) -> str:
        try:
            key_id = _parse(line).get("key")
        except ValueError:
            return "its hash does not fit: it was changed"
        if key_id == self.key_id:
            return "its hash does not fit: it was changed"
        if key_id is None:
            return "it was written without a key, so anybody could have written it"
        if self.key_id is None:
            return f"it was written with the key {str(key_id)[:12]!r}; set {KEY_VARIABLE} to check it"
        return f"it was written with another key ({str(key_id)[:12]!r}, given is {self.key_id!r})"


def _parse(line: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError("it is no JSON object") from error
    if not isinstance(fields, dict):
        raise ValueError("it is no JSON object")  # noqa: TRY004 - what is wrong is the text
    return fields
