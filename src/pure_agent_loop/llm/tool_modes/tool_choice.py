"""The option ``tool_choice`` for tools in the prompt; the option is not sent to the server."""

from __future__ import annotations

from collections.abc import Mapping

from pure_agent_loop.errors import LLMError
from pure_agent_loop.llm.values import JsonObject, Options, Tools

_NEED_TOOLS = ("tool_choice", "parallel_tool_calls")  # options that servers reject if a request has no tools


def without_tools(options: Options) -> JsonObject:
    """Remove the fields of a request that need tools."""
    return {key: value for key, value in options.items() if key not in _NEED_TOOLS}


def wanted_tools(tools: Tools, options: Options) -> tuple[Tools, bool]:
    """Return the tools that may be called, and whether a call is required.

    Args:
        options: Fields of the request. ``tool_choice`` may be ``auto``, ``none``, ``required`` or
            ``{"type": "function", "function": {"name": NAME}}``.

    Raises:
        LLMError: ``tool_choice`` names an unknown tool or is none of these.
    """
    choice = options.get("tool_choice")
    if choice is None or choice in ("auto", "none") or not tools:
        return tools, False
    if choice == "required":
        return tools, True
    function = choice.get("function") if isinstance(choice, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    named = [tool for tool in tools if tool["function"]["name"] == name]
    if not named:
        raise LLMError(
            f"tool_choice={choice!r} does not name a tool of this request. Use 'auto', 'none', 'required', "
            "or a function's name.",
            kind="bad_request",
        )
    return named, True


def refuse_choice(options: Options, context: str) -> LLMError:
    """Return the error for a choice that cannot be enforced."""
    return LLMError(
        f"tool_choice={options.get('tool_choice')!r} cannot be enforced {context}. Remove it, or use a "
        "server that supports a JSON schema as response_format.",
        kind="bad_request",
    )
