"""Dialects of chat completions: which fields each vendor rejects, ignores and returns, as data.

Sources of the rules: ``[D]`` DeepSeek's documentation (Thinking Mode, JSON Output), ``[P]`` pydantic-ai
2.68.0, which probed the APIs, and issues, named by repository and number.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

_PLAIN_FORMATS = ("text", "json_object")


@dataclass(frozen=True, slots=True)
class ChatDialect:
    """Rules of one vendor's chat-completions server, in addition to those of `check_request`.

    Args:
        name: The vendor.
        host: Host name to include in `ChatServer.base_url`, so that clients recognise the vendor.
        fields: Request fields in addition to those of the protocol.
        refuses: Fields of the protocol that are rejected.
        ignores: Fields that are accepted without effect.
        takes_parts: Accepted types of message parts.
        efforts: Accepted values of ``reasoning_effort``; empty for any value.
        thinks: True if the model thinks unless the request says otherwise.
        reasoning_back: Messages that must contain ``reasoning_content`` while the model thinks: ``calls`` for
            messages with calls, ``rounds`` for all assistant messages of rounds with calls; empty for none.
        thinking_in_content: True if thinking is sent as a chunk of ``content`` instead of
            ``reasoning_content``.
        back_if_kept: True if reasoning must be returned only if the request keeps it, by
            ``thinking.clear_thinking`` false.
        no_choices: Rejected values of ``tool_choice``; ``function`` means a named function.
        choices_without_thinking: True if these values are accepted while the model does not think.
        formats: Accepted types of ``response_format``.
        strict_tools: True if ``strict`` is accepted in tools.
        temperature: The only accepted temperature while the model thinks; None for any temperature.
        call_id: Regular expression of valid call ids; empty for any id.
        user_after_tool: True if a user message may follow a tool's result.
        signs_reasoning: True if reasoning has signed ``reasoning_details``, which must be returned unchanged.
        signs_calls: True if the first call of a response gets a signature, which must be returned unchanged.
        usage: Format of cached tokens in ``usage``.
        counts_unasked: True if streams contain the usage even without ``stream_options``.
        errors_in_list: True if an error body is a list with one object.
    """

    name: str
    host: str
    fields: Collection[str] = ()
    refuses: Collection[str] = ()
    ignores: Collection[str] = ()
    takes_parts: Sequence[str] = ("text", "image_url", "file", "input_audio")
    efforts: Collection[str] = ()
    thinks: bool = False
    reasoning_back: Literal["", "calls", "rounds"] = ""
    back_if_kept: bool = False
    thinking_in_content: bool = False
    no_choices: Collection[str] = ()
    choices_without_thinking: bool = False
    formats: Collection[str] = (*_PLAIN_FORMATS, "json_schema")
    strict_tools: bool = True
    temperature: float | None = None
    call_id: str = ""
    user_after_tool: bool = True
    signs_reasoning: bool = False
    signs_calls: bool = False
    usage: Literal["openai", "deepseek", "kimi", "mistral"] = "openai"
    counts_unasked: bool = False
    errors_in_list: bool = False


DIALECTS = {
    "deepseek": ChatDialect(
        "DeepSeek",
        "api.deepseek.com",
        fields=["thinking"],
        ignores=["max_completion_tokens"],  # [P]; only `max_tokens` is documented [D]
        thinks=True,  # [D]
        # In all rounds with calls, without end [D], including the final answers (openclaw/openclaw#73417,
        # MoonshotAI/kimi-cli#2141).
        reasoning_back="rounds",
        no_choices=["required", "function"],  # deepseek-ai/awesome-deepseek-integration#598
        choices_without_thinking=True,
        formats=_PLAIN_FORMATS,  # EvoScientist/EvoScientist#348
        takes_parts=["text"],  # 1jehuang/jcode#310
        usage="deepseek",
    ),
    "kimi": ChatDialect(
        "Kimi",
        "api.moonshot.ai",
        fields=["thinking"],
        thinks=True,
        reasoning_back="calls",  # mastra-ai/mastra#12592
        no_choices=["required"],  # [P]
        strict_tools=False,  # [P]
        temperature=1,  # HKUDS/nanobot#4967
        usage="kimi",
    ),
    "qwen": ChatDialect(
        "Qwen",
        "dashscope-intl.aliyuncs.com",
        fields=["enable_thinking", "thinking_budget", "preserve_thinking", "enable_search", "top_k"],
        takes_parts=["text", "image_url", "input_audio", "video_url"],  # [P]
        no_choices=["required", "function"],  # cloudwego/eino#994, QwenLM/qwen-code#7659
        choices_without_thinking=True,
    ),
    "glm": ChatDialect(
        "GLM",
        "api.z.ai",
        fields=["thinking", "tool_stream", "do_sample", "request_id"],
        efforts=["low", "high", "max"],  # values of 5.3: charmbracelet/catwalk#603
        thinks=True,
        reasoning_back="rounds",
        back_if_kept=True,  # GLM's guide "Thinking Mode"; adolfousier/opencrabs#1348
        no_choices=["required", "function"],  # vectorize-io/hindsight#4246
    ),
    "mistral": ChatDialect(
        "Mistral",
        "api.mistral.ai",
        fields=["safe_prompt", "prompt_mode", "random_seed", "guardrails"],
        # Extra fields are forbidden: editor-code-assistant/eca#231, Gitlawb/openclaude#739; `stream_options`
        # is not a field of `ChatCompletionRequest` in Mistral's own client.
        refuses=["max_completion_tokens", "store", "stream_options"],
        thinking_in_content=True,  # [P]
        call_id=r"[a-zA-Z0-9]{9}",  # jackmpcollins/magentic#276
        user_after_tool=False,  # datapizza-labs/datapizza-ai#98
        usage="mistral",
        counts_unasked=True,
    ),
    "openrouter": ChatDialect(
        "OpenRouter",
        "openrouter.ai",
        fields=["reasoning", "provider", "models", "plugins", "transforms", "route", "usage"],
        ignores=["max_completion_tokens"],  # [P]
        signs_reasoning=True,  # OpenRouter's guide "Reasoning Tokens": the whole sequence, unmodified
    ),
    "gemini": ChatDialect(
        "Gemini's compatible endpoint",
        "generativelanguage.googleapis.com",
        fields=["extra_body"],
        signs_calls=True,  # langroid/langroid#969, labring/aiproxy#450
        errors_in_list=True,  # mattermost/mattermost-plugin-agents#1020
    ),
}
