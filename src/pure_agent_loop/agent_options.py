"""Types of the arguments of `Agent`: for `Agent.clone` and for functions that make agents."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from pure_agent_loop.runs.options import RequestFields

if TYPE_CHECKING:
    from pure_agent_loop.budget import Budget
    from pure_agent_loop.hooks import Hooks
    from pure_agent_loop.kernel.kit import Compactor, Subagents
    from pure_agent_loop.kernel.observers import Auditor, Snapshots
    from pure_agent_loop.limits import LoopLimits
    from pure_agent_loop.llm.base import ChatModel
    from pure_agent_loop.llm.profiles import Profile, ThinkingLevel
    from pure_agent_loop.llm.tool_modes.client import ToolMode
    from pure_agent_loop.permissions import AskFunction, PermissionFunction, PermissionMode, PermissionRules
    from pure_agent_loop.prompts import Prompts
    from pure_agent_loop.retry import RetryConfig
    from pure_agent_loop.runs.handoff import Handoff, HandoffTarget
    from pure_agent_loop.runs.options import SystemPrompt, TextFunction
    from pure_agent_loop.sessions.store import SessionPlace
    from pure_agent_loop.support.language import Language
    from pure_agent_loop.support.secrets.redaction import Redactor
    from pure_agent_loop.tool import ToolLike, ToolRegistry, Toolset

__all__ = ["AgentMode", "AgentOptions"]

AgentMode = Literal["react", "single"]


class AgentOptions(RequestFields, total=False):
    """Arguments of `Agent.clone`: those of `Agent` except ``output_type``.

    It also types your own functions that make agents: ``def make(**options: Unpack[AgentOptions]) -> Agent``.
    """

    model: str | Sequence[str] | None
    api_key: str | None
    base_url: str | None
    llm: ChatModel | None
    tools: Iterable[ToolLike | Toolset] | ToolRegistry | None
    system_prompt: SystemPrompt
    limits: LoopLimits | None
    retry: RetryConfig | None
    temperature: float | None
    thinking_level: ThinkingLevel
    emit_reasoning_events: bool
    output_retries: int
    system_prompt_per: Literal["run", "step"]
    mode: AgentMode | None
    after_tools: str
    facts: TextFunction | None
    tool_mode: ToolMode
    language: Language | None
    prompts: Prompts | None
    profile: Profile | None
    permission_mode: PermissionMode
    permission_rules: PermissionRules | None
    can_use_tool: PermissionFunction | None
    on_ask: AskFunction | None
    hooks: Hooks | None
    budget: Budget | None
    name: str
    description: str
    starters: Sequence[str]
    handoffs: Iterable[HandoffTarget | Handoff]
    cwd: str | os.PathLike[str] | None
    audit: Auditor | None
    snapshots: Snapshots | None
    subagents: Subagents | None
    compaction: Compactor | bool
    context_window: int | None
    max_result_chars: int
    results_folder: str | os.PathLike[str] | None
    sessions: SessionPlace | None
    first_byte_timeout: float | None
    idle_timeout: float | None
    tool_timeout: float | None
    redact: bool | Redactor
    tool_attempts: int
    tool_retry_delay: float
