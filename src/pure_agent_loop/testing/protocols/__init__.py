"""Strict servers of other protocols, on loopback, that refuse what the real ones refuse.

Each plays a script, as `ScriptedServer` does, and names the source of each refusal.
"""

from pure_agent_loop.testing.protocols.gemini import (
    GeminiParts,
    GeminiServer,
    check_gemini_request,
    model_parts,
)
from pure_agent_loop.testing.protocols.messages import (
    MessageBlocks,
    MessagesServer,
    check_messages_request,
    message_blocks,
)
from pure_agent_loop.testing.protocols.responses import (
    ResponseItems,
    ResponsesServer,
    check_responses_request,
    response_items,
)

__all__ = [
    "GeminiParts",
    "GeminiServer",
    "MessageBlocks",
    "MessagesServer",
    "ResponseItems",
    "ResponsesServer",
    "check_gemini_request",
    "check_messages_request",
    "check_responses_request",
    "message_blocks",
    "model_parts",
    "response_items",
]
