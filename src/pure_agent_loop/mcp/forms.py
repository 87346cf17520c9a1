"""Ask a person for several values from within a tool."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any

from pure_agent_loop.errors import ConfigError, ToolExecutionError
from pure_agent_loop.mcp.asking import choices_of, one_by_one
from pure_agent_loop.support.language import model_text
from pure_agent_loop.tool_context import RunContext

SHOW_FORM: ContextVar[Form | None] = ContextVar("pure_agent_loop_mcp_form", default=None)
_KINDS: Mapping[str, Any] = {
    "string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list
}  # fmt: skip
Form = Callable[[str, Mapping[str, Any]], Awaitable[Mapping[str, Any] | None]]


async def ask_form(
    ctx: RunContext[Any], question: str, fields: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any] | None:
    """Ask a person for several values: as one form in an MCP client, one by one elsewhere.

        found = await ask_form(ctx, "The trip", {"days": {"type": "integer", "default": 3}})

    Args:
        ctx: The tool's run.
        question: The form's purpose.
        fields: A JSON Schema for each value by its name: a string, a number, a boolean, or one or several
            values of an ``enum``. The ``title``, ``description`` and ``default`` of a field are shown.

    Returns:
        The values by name; None if the person declines.

    Raises:
        ToolExecutionError: No person can be asked, or the answer does not fit.
        ConfigError: A field has no type, or its type is not supported.
    """
    for name, field_schema in fields.items():
        if field_schema.get("type") not in _KINDS:
            raise ConfigError(f"ask_form: {name!r:.60} must have a type: one of {', '.join(_KINDS)}.")
    schema = {"type": "object", "properties": dict(fields), "required": [*fields]}
    show = SHOW_FORM.get()
    answers = await (one_by_one(ctx, question, schema) if show is None else show(question, schema))
    return None if answers is None else {name: _value(name, fields[name], answers) for name in fields}


def _value(name: str, field_schema: Mapping[str, Any], answers: Mapping[str, Any]) -> Any:
    kind, value, known = (
        str(field_schema["type"]),
        answers.get(name, field_schema.get("default")),
        choices_of(field_schema),
    )
    is_right = isinstance(value, _KINDS[kind]) and (kind == "boolean" or not isinstance(value, bool))
    if not is_right or (known and not {*(value if kind == "array" else [value])} <= {*known}):
        raise ToolExecutionError(model_text("mcp_wrong_value", field=name, kind=kind))
    return value
