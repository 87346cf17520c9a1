"""One explicit, durable agent loop for any chat model.

from pure_agent_loop import Agent, tool

@tool
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

print(Agent(model="gpt-4o-mini", tools=[add]).run("What is 2 + 3?").content)
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pure_agent_loop._version import __version__

if TYPE_CHECKING:
    from pure_agent_loop.agent import Agent
    from pure_agent_loop.agent_options import AgentMode, AgentOptions
    from pure_agent_loop.ai_client import AIClient
    from pure_agent_loop.assistant.agent_loop import AgentLoop
    from pure_agent_loop.assistant.context_builder import ContextBuilder
    from pure_agent_loop.assistant.memory import MemoryStore
    from pure_agent_loop.assistant.persona import PersonaConfig
    from pure_agent_loop.assistant.skills import SkillsLoader
    from pure_agent_loop.budget import Budget, Price
    from pure_agent_loop.cancel import CancelToken
    from pure_agent_loop.conversation import Conversation
    from pure_agent_loop.errors import (
        AlreadyAnsweredError,
        ConfigError,
        ErrorKind,
        HistoryError,
        LimitExceededError,
        LLMError,
        MissingExtraError,
        PureAgentLoopError,
        Retry,
        RunInterrupted,
        ToolExecutionError,
    )
    from pure_agent_loop.events import AnyEvent, Event, EventType, TaskState
    from pure_agent_loop.explain import Explanation
    from pure_agent_loop.guard import GuardedCall, Origin, Origins, ReadText, provenance
    from pure_agent_loop.hooks import AfterToolHook, BeforeTool, BeforeToolHook, HookContext, Hooks, StopHook
    from pure_agent_loop.inbox import Inbox
    from pure_agent_loop.kernel.journal import Journal, MemoryJournal
    from pure_agent_loop.kernel.state import QueryState
    from pure_agent_loop.limits import LimitChecker, LimitResult, LoopLimits
    from pure_agent_loop.llm.anthropic.client import AnthropicClient
    from pure_agent_loop.llm.anthropic.clouds import BedrockClient, VertexClient
    from pure_agent_loop.llm.base import BaseLLMClient, ChatModel, StreamingClient
    from pure_agent_loop.llm.fallback import Fallback, Limiter
    from pure_agent_loop.llm.gemini.client import GeminiClient
    from pure_agent_loop.llm.key_file import KeyFile
    from pure_agent_loop.llm.messages import Message
    from pure_agent_loop.llm.openai_client import OpenAIClient
    from pure_agent_loop.llm.profiles import Profile, ThinkingLevel
    from pure_agent_loop.llm.response import LLMResponse
    from pure_agent_loop.llm.responses.client import ResponsesClient
    from pure_agent_loop.llm.tool_modes.client import ToolMode
    from pure_agent_loop.llm.values import Delta, TokenUsage, ToolCall, ToolCallDelta
    from pure_agent_loop.loop import ReactLoop
    from pure_agent_loop.media import File, Image, ImageError, MediaItem
    from pure_agent_loop.parts import Part, PartState, PartTransitionError, PartType
    from pure_agent_loop.permissions import (
        AskFunction,
        Behavior,
        Judge,
        Permission,
        PermissionContext,
        PermissionFunction,
        PermissionMode,
        PermissionRequest,
        PermissionRules,
        Verdict,
    )
    from pure_agent_loop.prompts import Prompts, prompts_for, react_prompt
    from pure_agent_loop.renderer import JsonLinesRenderer, PlainRenderer, Renderer, RichRenderer
    from pure_agent_loop.result import AgentResult
    from pure_agent_loop.retry import RetryAttempt, RetryConfig, RetryHandler
    from pure_agent_loop.runs.handoff import Handoff
    from pure_agent_loop.runs.options import ModelSettings, RunOptions, SendOptions
    from pure_agent_loop.runs.settings import AgentConfig
    from pure_agent_loop.session import SessionManager
    from pure_agent_loop.stop_reasons import StopReason
    from pure_agent_loop.support.language import Language
    from pure_agent_loop.tool import Tool, ToolLike, ToolRegistry, Toolset, tool
    from pure_agent_loop.tool_context import RunContext, ToolContext, current_call

# Module of each public name. A module is loaded when a name in it is first accessed: importing the package
# costs nothing, and a program pays only for what it uses.
_PLACES = {
    "agent": "Agent",
    "agent_options": "AgentMode AgentOptions",
    "ai_client": "AIClient",
    "assistant.agent_loop": "AgentLoop",
    "assistant.context_builder": "ContextBuilder",
    "assistant.memory": "MemoryStore",
    "assistant.persona": "PersonaConfig",
    "assistant.skills": "SkillsLoader",
    "budget": "Budget Price",
    "cancel": "CancelToken",
    "conversation": "Conversation",
    "errors": "AlreadyAnsweredError ConfigError ErrorKind HistoryError LLMError LimitExceededError "
    "MissingExtraError PureAgentLoopError Retry RunInterrupted ToolExecutionError",
    "events": "AnyEvent Event EventType TaskState",
    "explain": "Explanation",
    "hooks": "AfterToolHook BeforeTool BeforeToolHook HookContext Hooks StopHook",
    "inbox": "Inbox",
    "kernel.journal": "Journal MemoryJournal",
    "kernel.state": "QueryState",
    "limits": "LimitChecker LimitResult LoopLimits",
    "llm.base": "BaseLLMClient ChatModel StreamingClient",
    "llm.key_file": "KeyFile",
    "llm.messages": "Message",
    "llm.anthropic.client": "AnthropicClient",
    "llm.anthropic.clouds": "BedrockClient VertexClient",
    "llm.openai_client": "OpenAIClient",
    "llm.fallback": "Fallback Limiter",
    "llm.responses.client": "ResponsesClient",
    "llm.gemini.client": "GeminiClient",
    "llm.profiles": "Profile ThinkingLevel",
    "llm.response": "LLMResponse",
    "llm.tool_modes.client": "ToolMode",
    "llm.values": "Delta TokenUsage ToolCall ToolCallDelta",
    "loop": "ReactLoop",
    "media": "File Image ImageError MediaItem",
    "parts": "Part PartState PartTransitionError PartType",
    "guard": "GuardedCall Origin Origins ReadText provenance",
    "permissions": "AskFunction Behavior Judge Permission PermissionContext PermissionFunction "
    "PermissionMode PermissionRequest PermissionRules Verdict",
    "prompts": "Prompts prompts_for react_prompt",
    "renderer": "JsonLinesRenderer PlainRenderer Renderer RichRenderer",
    "result": "AgentResult",
    "retry": "RetryAttempt RetryConfig RetryHandler",
    "runs.handoff": "Handoff",
    "runs.options": "ModelSettings RunOptions SendOptions",
    "runs.settings": "AgentConfig",
    "session": "SessionManager",
    "stop_reasons": "StopReason",
    "support.language": "Language",
    "tool": "Tool ToolLike ToolRegistry Toolset tool",
    "tool_context": "RunContext ToolContext current_call",
}
_PLACE_OF = {name: module for module, names in _PLACES.items() for name in names.split()}


class _Package(ModuleType):
    """Module type of this package; keeps the name `tool` bound to the function, not to the submodule."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "tool" and isinstance(value, ModuleType):
            value = value.tool  # loading a submodule binds its name in the package
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    place = _PLACE_OF.get(name)
    value = _module(name) if place is None else getattr(import_module(f"{__name__}.{place}"), name)
    globals()[name] = value
    return value


def _module(name: str) -> ModuleType:
    """Import a submodule that is accessed as an attribute but has not been imported yet."""
    full_name = f"{__name__}.{name}"
    if not name.startswith("_"):
        try:
            return import_module(full_name)
        except ModuleNotFoundError as error:
            if error.name != full_name:
                raise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = [
    "AIClient",
    "AfterToolHook",
    "Agent",
    "AgentConfig",
    "AgentLoop",
    "AgentMode",
    "AgentOptions",
    "AgentResult",
    "AlreadyAnsweredError",
    "AnthropicClient",
    "AnyEvent",
    "AskFunction",
    "BaseLLMClient",
    "BedrockClient",
    "BeforeTool",
    "BeforeToolHook",
    "Behavior",
    "Budget",
    "CancelToken",
    "ChatModel",
    "ConfigError",
    "ContextBuilder",
    "Conversation",
    "Delta",
    "ErrorKind",
    "Event",
    "EventType",
    "Explanation",
    "Fallback",
    "File",
    "GeminiClient",
    "GuardedCall",
    "Handoff",
    "HistoryError",
    "HookContext",
    "Hooks",
    "Image",
    "ImageError",
    "Inbox",
    "Journal",
    "JsonLinesRenderer",
    "Judge",
    "KeyFile",
    "LLMError",
    "LLMResponse",
    "Language",
    "LimitChecker",
    "LimitExceededError",
    "LimitResult",
    "Limiter",
    "LoopLimits",
    "MediaItem",
    "MemoryJournal",
    "MemoryStore",
    "Message",
    "MissingExtraError",
    "ModelSettings",
    "OpenAIClient",
    "Origin",
    "Origins",
    "Part",
    "PartState",
    "PartTransitionError",
    "PartType",
    "Permission",
    "PermissionContext",
    "PermissionFunction",
    "PermissionMode",
    "PermissionRequest",
    "PermissionRules",
    "PersonaConfig",
    "PlainRenderer",
    "Price",
    "Profile",
    "Prompts",
    "PureAgentLoopError",
    "QueryState",
    "ReactLoop",
    "ReadText",
    "Renderer",
    "ResponsesClient",
    "Retry",
    "RetryAttempt",
    "RetryConfig",
    "RetryHandler",
    "RichRenderer",
    "RunContext",
    "RunInterrupted",
    "RunOptions",
    "SendOptions",
    "SessionManager",
    "SkillsLoader",
    "StopHook",
    "StopReason",
    "StreamingClient",
    "TaskState",
    "ThinkingLevel",
    "TokenUsage",
    "Tool",
    "ToolCall",
    "ToolCallDelta",
    "ToolContext",
    "ToolExecutionError",
    "ToolLike",
    "ToolMode",
    "ToolRegistry",
    "Toolset",
    "Verdict",
    "VertexClient",
    "__version__",
    "current_call",
    "prompts_for",
    "provenance",
    "react_prompt",
    "tool",
]
