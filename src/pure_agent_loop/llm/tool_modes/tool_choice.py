"""What a request says about calls, where tools are put into words: the server never sees these fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pure_agent_loop.errors import LLMError

Tools = list[dict[str, Any]]
_NEED_TOOLS = ("tool_choice", "parallel_tool_calls")  # options that servers refuse without tools


def without_tools(options: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a request that make sense where no tools are offered."""
    return {key: value for key, value in options.items() if key not in _NEED_TOOLS}


def wanted_tools(tools: Tools, options: Mapping[str, Any]) -> tuple[Tools, bool]:
    """The tools that may be called, and whether one of them has to be.

    Args:
        tools: The schemas that are offered.
        options: Fields of the request. ``tool_choice`` may be ``auto``, ``none``, ``required`` or
            ``{"type": "function", "function": {"name": NAME}}``.

    Raises:
        LLMError: It asks for a tool that is not offered, or is something else.
    """
    choice = options.get("tool_choice")
    if choice is None or choice in ("auto", "none") or not tools:
        return tools, False
    if choice == "required":
        return tools, True
    function = choice.get("function") if isinstance(choice, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    named = [each for each in tools if each["function"]["name"] == name]
    if not named:
        raise LLMError(
            f"tool_choice={choice!r} names no tool of this request. Use 'auto', 'none', 'required', or a "
            "function's name.",
            kind="bad_request",
        )
    return named, True


def refuse_choice(options: Mapping[str, Any], why: str) -> LLMError:
    """The error for a choice that nothing could hold the model to."""
    return LLMError(
        f"tool_choice={options.get('tool_choice')!r} cannot be held {why}. Leave it out, or use a server "
        "that takes a JSON schema as response_format.",
        kind="bad_request",
    )
