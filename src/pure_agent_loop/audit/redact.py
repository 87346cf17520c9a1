"""Keeping secrets out of the audit log: what a log does when nobody says how."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pure_agent_loop.support.secrets.redaction import Redactor

Redact = Callable[[Any], Any]


def default_redaction() -> Redact:
    """Removes the secrets of this process's environment from any JSON."""
    return Redactor().redact_value
