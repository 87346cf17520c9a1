"""Strict servers of other protocols, on loopback, that refuse what the real ones refuse.

Each plays a script, as `ScriptedServer` does, and names the source of each refusal.
"""

from pure_agent_loop.testing.protocols.chat import (
    DIALECTS,
    ChatDialect,
    ChatServer,
    check_chat_request,
)
from pure_agent_loop.testing.protocols.clouds import BedrockServer, VertexServer, amazon_message
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
    Detach,
    ResponseItems,
    ResponsesServer,
    check_responses_request,
    response_items,
)

__all__ = [
    "DIALECTS",
    "BedrockServer",
    "ChatDialect",
    "ChatServer",
    "Detach",
    "GeminiParts",
    "GeminiServer",
    "MessageBlocks",
    "MessagesServer",
    "ResponseItems",
    "ResponsesServer",
    "VertexServer",
    "amazon_message",
    "check_chat_request",
    "check_gemini_request",
    "check_messages_request",
    "check_responses_request",
    "message_blocks",
    "model_parts",
    "response_items",
]
