"""Strict servers of other protocols, on loopback, that reject the same requests as the real ones.

Each server plays a script, as `ScriptedServer` does, and names the source of each rule.
"""

from llm_client_conformance.protocols.aws import amazon_message
from llm_client_conformance.protocols.chat import ChatServer
from llm_client_conformance.protocols.chat_dialects import DIALECTS, ChatDialect
from llm_client_conformance.protocols.chat_rules import check_chat_request
from llm_client_conformance.protocols.clouds import BedrockServer, VertexServer
from llm_client_conformance.protocols.gemini import GeminiServer
from llm_client_conformance.protocols.gemini_answers import GeminiParts, model_parts
from llm_client_conformance.protocols.gemini_rules import check_gemini_request
from llm_client_conformance.protocols.messages import MessagesServer
from llm_client_conformance.protocols.messages_answers import MessageBlocks, message_blocks
from llm_client_conformance.protocols.messages_rules import check_messages_request
from llm_client_conformance.protocols.responses import ResponsesServer
from llm_client_conformance.protocols.responses_answers import Detach, ResponseItems, response_items
from llm_client_conformance.protocols.responses_rules import check_responses_request

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
