"""Keeping secrets out of the audit log: what a log does when nobody says how."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

Redact = Callable[[Any], Any]
_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
_SHORTEST = 8


def default_redaction() -> Redact:
    """Replaces the values of this process's secret-looking environment variables, in texts and JSON."""
    secrets = {
        value: f"[redacted: {name}]"
        for name, value in os.environ.items()
        if _SECRET_NAME.search(name) and len(value) >= _SHORTEST
    }
    if not secrets:
        return lambda value: value
    longest_first = sorted(secrets, key=len, reverse=True)
    pattern = re.compile("|".join(re.escape(value) for value in longest_first))

    def redact(value: Any) -> Any:
        if isinstance(value, str):
            return pattern.sub(lambda found: secrets[found.group()], value)
        if isinstance(value, dict):
            return {redact(key): redact(each) for key, each in value.items()}
        if isinstance(value, list):
            return [redact(each) for each in value]
        return value

    return redact
