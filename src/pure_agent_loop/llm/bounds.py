"""Bounds on what is kept of a server's response. Pure: no I/O."""

from __future__ import annotations

from pure_agent_loop.errors import LLMError

MAX_ERROR_BYTES = 1_000_000
# One event, or a whole document, after decompression. Answers hold pictures and sounds as base64, and go back
# in the next request: Anthropic and gateways accept requests of at most 32 MB, so no longer answer could be
# continued. The sum of a stream's events has no bound here.
MAX_PART_BYTES = 32_000_000


def check_size(size: int, what: str, limit: int = MAX_PART_BYTES) -> None:
    """Reject a part of a response that is larger than its bound.

    Args:
        size: Bytes received so far.
        what: Name of the part, for the error.
        limit: Maximum bytes.

    Raises:
        LLMError: The part is too large. Not transient: the same request would get it again.
    """
    if size > limit:
        raise LLMError(
            f"The server's {what} is larger than {limit / 1_000_000:g} MB, the most that is read of it."
            " Check base_url, and what stands between this program and the server.",
            kind="bad_request",
        )
