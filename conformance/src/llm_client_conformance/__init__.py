"""Conformance kit for authors of model-server clients.

protocols   strict servers of chat completions, Messages, Responses, Gemini and the clouds
quirks      answers as real servers send them, each with the result of a correct client
scenes      all of these for a client program: one request or a whole conversation, and faults

This package exports the script items and the faults.
"""

from llm_client_conformance.scripted.exchange import Exchange
from llm_client_conformance.scripted.faults import (
    EndEarly,
    ErrorChunk,
    Reset,
    ServerFault,
    Silence,
    Status,
    status,
    unauthorized,
)
from llm_client_conformance.scripted.gate import Gate, ScriptError, Signal
from llm_client_conformance.scripted.history import check_history, check_request
from llm_client_conformance.scripted.request import ServerRequest
from llm_client_conformance.scripted.script import answer, call, deltas, raw_call
from llm_client_conformance.scripted.server import ScriptedServer
from llm_client_conformance.values import (
    ERROR_KINDS,
    ConfigError,
    Delta,
    ErrorKind,
    LLMError,
    LLMResponse,
    TokenUsage,
    ToolCall,
    ToolCallDelta,
)

__all__ = [
    "ERROR_KINDS",
    "ConfigError",
    "Delta",
    "EndEarly",
    "ErrorChunk",
    "ErrorKind",
    "Exchange",
    "Gate",
    "LLMError",
    "LLMResponse",
    "Reset",
    "ScriptError",
    "ScriptedServer",
    "ServerFault",
    "ServerRequest",
    "Signal",
    "Silence",
    "Status",
    "TokenUsage",
    "ToolCall",
    "ToolCallDelta",
    "answer",
    "call",
    "check_history",
    "check_request",
    "deltas",
    "raw_call",
    "status",
    "unauthorized",
]
