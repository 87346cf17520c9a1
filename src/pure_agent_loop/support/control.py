"""Patterns of control sequences (ECMA-48): those that terminals send, and those that programs write."""

from __future__ import annotations

import re

ESC = "\x1b"
_PARAMETERS = r"[0-?]*[ -/]*"
# OSC, DCS, SOS, PM and APC introduce a string, which any control character ends.
_STRING = r"(?:\x1b[]PX^_]|[\x90\x98\x9d-\x9f])[^\x00-\x1f\x9c]*(\x07|\x1b\\|\x9c)?"
# In each pattern, only the end of a sequence is a group, so an unfinished sequence has no `lastindex`.
# Terminals also send sequences outside the grammar: CSI M and three characters (old mouse), CSI [ A (Linux).
SENT = re.compile(
    rf"(?:\x1b\[|\x9b)(?:M[^\x00-\x1f]{{0,2}}([^\x00-\x1f])?|\[?{_PARAMETERS}([@-~])?)"
    rf"|(?:\x1bO|\x8f)[0-?]*([@-~])?|{_STRING}"
)
WRITTEN = re.compile(rf"(?:\x1b\[|\x9b){_PARAMETERS}([@-~])?|{_STRING}|\x1b[ -/]*([0-~])?")


def without_reports(line: str) -> str:
    """Return a typed line without the escape sequences that the terminal sent."""
    return SENT.sub("", line)
