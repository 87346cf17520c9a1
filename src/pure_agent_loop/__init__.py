"""One explicit, durable agent loop for any chat model.

from pure_agent_loop import Agent, tool

@tool
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

print(Agent(model="gpt-4o-mini", tools=[add]).run("What is 2 + 3?").content)
"""

from typing import TYPE_CHECKING, Any

from pure_agent_loop._version import __version__
from pure_agent_loop.agent import Agent
from pure_agent_loop.ai_client import AIClient
from pure_agent_loop.budget import Budget, Price
from pure_agent_loop.cancel import CancelToken
from pure_agent_loop.conversation import Conversation
from pure_agent_loop.errors import (
    ConfigError,
    HistoryError,
    LimitExceededError,
    LLMError,
    MissingExtraError,
    PureAgentLoopError,
    RunInterrupted,
    ToolExecutionError,
)
from pure_agent_loop.events import Event, EventType
from pure_agent_loop.explain import Explanation
from pure_agent_loop.hooks import BeforeTool, HookContext, Hooks
from pure_agent_loop.inbox import Inbox
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.limits import LimitChecker, LimitResult, LoopLimits
from pure_agent_loop.llm.base import BaseLLMClient
from pure_agent_loop.llm.openai_client import OpenAIClient
from pure_agent_loop.llm.profiles import Profile
from pure_agent_loop.llm.response import LLMResponse
from pure_agent_loop.llm.values import Delta, TokenUsage, ToolCall, ToolCallDelta
from pure_agent_loop.loop import ReactLoop
from pure_agent_loop.media import ImageError
from pure_agent_loop.parts import Part, PartTransitionError
from pure_agent_loop.permissions import Permission, PermissionContext, PermissionRequest, PermissionRules
from pure_agent_loop.prompts import Prompts, prompts_for, react_prompt
from pure_agent_loop.renderer import JsonLinesRenderer, PlainRenderer, Renderer, RichRenderer
from pure_agent_loop.result import AgentResult
from pure_agent_loop.retry import RetryAttempt, RetryConfig, RetryHandler
from pure_agent_loop.tool import Tool, ToolRegistry, tool
from pure_agent_loop.tool_context import ToolContext, current_call

if TYPE_CHECKING:
    from pure_agent_loop.assistant.agent_loop import AgentLoop
    from pure_agent_loop.assistant.context_builder import ContextBuilder
    from pure_agent_loop.assistant.memory import MemoryStore
    from pure_agent_loop.assistant.persona import PersonaConfig
    from pure_agent_loop.assistant.skills import SkillsLoader
    from pure_agent_loop.session import SessionManager

_LAZY = {  # loaded when first asked for: they bring modules that an agent alone does not need
    "AgentLoop": "assistant.agent_loop",
    "ContextBuilder": "assistant.context_builder",
    "MemoryStore": "assistant.memory",
    "PersonaConfig": "assistant.persona",
    "SessionManager": "session",
    "SkillsLoader": "assistant.skills",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = [
    "AIClient",
    "Agent",
    "AgentLoop",
    "AgentResult",
    "BaseLLMClient",
    "BeforeTool",
    "Budget",
    "CancelToken",
    "ConfigError",
    "ContextBuilder",
    "Conversation",
    "Delta",
    "Event",
    "EventType",
    "Explanation",
    "HistoryError",
    "HookContext",
    "Hooks",
    "ImageError",
    "Inbox",
    "JsonLinesRenderer",
    "LLMError",
    "LLMResponse",
    "LimitChecker",
    "LimitExceededError",
    "LimitResult",
    "LoopLimits",
    "MemoryStore",
    "MissingExtraError",
    "OpenAIClient",
    "Part",
    "PartTransitionError",
    "Permission",
    "PermissionContext",
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
    "Renderer",
    "RetryAttempt",
    "RetryConfig",
    "RetryHandler",
    "RichRenderer",
    "RunInterrupted",
    "SessionManager",
    "SkillsLoader",
    "TokenUsage",
    "Tool",
    "ToolCall",
    "ToolCallDelta",
    "ToolContext",
    "ToolExecutionError",
    "ToolRegistry",
    "__version__",
    "current_call",
    "prompts_for",
    "react_prompt",
    "tool",
]
