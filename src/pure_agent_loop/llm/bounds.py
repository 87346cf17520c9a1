"""Size limits for the parts of a server's response. Pure: no I/O."""

from __future__ import annotations

from pure_agent_loop.errors import LLMError

MAX_ERROR_BYTES = 1_000_000
# One event, or a whole document, after decompression. Responses contain images and audio as base64 and are
# sent back in the next request. Anthropic and gateways accept at most 32 MB per request, so a larger response
# could not be continued. The total size of a stream is not limited here.
MAX_PART_BYTES = 32_000_000


def check_size(size: int, what: str, limit: int = MAX_PART_BYTES) -> None:
    """Reject a part of a response that is larger than its bound.

    Args:
        size: Bytes received so far.
        what: Name of the part, for the error.
        limit: Maximum bytes.

    Raises:
        LLMError: The part is too large. The error is not transient: a retry would get the same part again.
    """
    if size > limit:
        raise LLMError(
            f"The server's {what} is larger than {limit / 1_000_000:g} MB, the limit."
            " Check base_url, and any proxy or gateway in front of the server.",
            kind="bad_request",
        )
