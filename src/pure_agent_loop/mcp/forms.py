"""A tool asks a person for several things at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any

from pure_agent_loop.errors import ConfigError, ToolExecutionError
from pure_agent_loop.mcp.asking import choices_of, one_by_one
from pure_agent_loop.mcp.words import say
from pure_agent_loop.tool_context import RunContext

Form = Callable[[str, Mapping[str, Any]], Awaitable[Mapping[str, Any] | None]]
SHOW_FORM: ContextVar[Form | None] = ContextVar("pure_agent_loop_mcp_form", default=None)
_KINDS: Mapping[str, Any] = {
    "string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list
}  # fmt: skip


async def ask_form(
    ctx: RunContext[Any], question: str, fields: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any] | None:
    """Ask a person for several values: in one form the user of an MCP client, one after the other elsewhere.

        found = await ask_form(ctx, "The trip", {"days": {"type": "integer", "default": 3}})

    Args:
        ctx: The run that the tool is in.
        question: What it is about.
        fields: A JSON Schema for each value by its name: a text, a number, a truth value, or one or several
            of an ``enum``. Their ``title``, ``description`` and ``default`` are shown.

    Returns:
        The values by name; None if the person would rather not say.

    Raises:
        ToolExecutionError: Nobody can be asked, or the answer does not fit.
        ConfigError: A field is of another type.
    """
    for name, about in fields.items():
        if about.get("type") not in _KINDS:
            raise ConfigError(f"ask_form: {name!r:.60} must have a type: one of {', '.join(_KINDS)}.")
    schema = {"type": "object", "properties": dict(fields), "required": [*fields]}
    show = SHOW_FORM.get()
    found = await (one_by_one(ctx, question, schema) if show is None else show(question, schema))
    return None if found is None else {name: _value(name, fields[name], found) for name in fields}


def _value(name: str, about: Mapping[str, Any], found: Mapping[str, Any]) -> Any:
    kind, value, known = str(about["type"]), found.get(name, about.get("default")), choices_of(about)
    is_right = isinstance(value, _KINDS[kind]) and (kind == "boolean" or not isinstance(value, bool))
    if not is_right or (known and not {*(value if kind == "array" else [value])} <= {*known}):
        raise ToolExecutionError(say("mcp_wrong_value", field=name, kind=kind))
    return value
