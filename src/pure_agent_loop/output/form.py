"""The form of a typed answer: a type, a function's arguments, or a choice. Imports pydantic."""

from __future__ import annotations

import functools
import inspect
import json
import re
import warnings
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Union

from pure_agent_loop.errors import ConfigError, Retry
from pure_agent_loop.llm.arguments import check_numbers
from pure_agent_loop.llm.profiles import AnswerFormat
from pure_agent_loop.output.json_text import WRAPPER, PartialReader, json_values
from pure_agent_loop.schema.build import ToolArgumentError, build_schema, described
from pure_agent_loop.schema.calling import call_user, contextual
from pure_agent_loop.schema.problems import describe_problems
from pure_agent_loop.schema.signature import check_signature, scope_of
from pure_agent_loop.schema.tidy import tidy_schema
from pure_agent_loop.schema.typed_dicts import portable
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.text import to_jsonable

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_NAME = re.compile(r"[^a-zA-Z0-9_-]+")
_STRICT_WORDS = ("type", "required", "enum", "const", "description", "$ref", "additionalProperties")


class Checked(NamedTuple):
    """A valid value (or an output function's arguments), with the name of the matching type or function."""

    value: Any
    function: Callable[..., Any] | None = None
    name: str = ""


class _Member(Protocol):
    name: str
    schema: dict[str, Any]

    def check(self, value: Any) -> Checked: ...

    def dump(self, value: Any, name: str) -> Any: ...

    def load(self, plain: Any) -> Any: ...


class _TypeMember:
    """Member of an answer's form that is a type."""

    def __init__(self, kind: Any) -> None:
        self.name = _NAME.sub("_", getattr(kind, "__name__", "") or "answer")[:64]
        try:
            self._adapter = _adapter(kind)
            self.schema = tidy_schema(described(self._adapter))
        except Exception as error:
            reason = str(error).split("\n")[0]
            raise ConfigError(
                f"output_type: {kind!r:.80} has no JSON Schema ({reason}). Use a dataclass, a "
                "TypedDict, a pydantic model, Literal, Enum, list, a union, a plain type, or a function."
            ) from error

    def check(self, value: Any) -> Checked:
        """Return the checked value. Raises ToolArgumentError if the value does not fit."""
        from pydantic_core import ValidationError

        try:
            # JSON mode accepts a string for a date, and a list for a set.
            checked = self._adapter.validate_json(json.dumps(value))
            check_numbers(value, checked)
        except ValidationError as error:
            errors: Any = error.errors(include_url=False)
            names = list(self.schema.get("properties", ()))
            required = frozenset(self.schema.get("required", ()))
            raise ToolArgumentError(describe_problems(errors, value, names, required)) from None
        except ValueError as error:
            raise ToolArgumentError(str(error)) from None
        return Checked(checked)

    def dump(self, value: Any, name: str) -> Any:  # noqa: ARG002 - it is the only one
        return _dumped(self._adapter, value)

    def load(self, plain: Any) -> Any:
        return self._adapter.validate_json(json.dumps(plain))


class _FunctionMember:
    """Member of an answer's form that is a function: its arguments are the answer, its result the output."""

    def __init__(self, function: Callable[..., Any]) -> None:
        signature = check_signature(function)
        self.function = function
        self.name = _NAME.sub("_", signature.name)[:64]
        self._arguments = build_schema(signature)
        description = self._arguments.description
        self.schema = {**self._arguments.parameters, **({"description": description} if description else {})}
        hint = inspect.signature(function).return_annotation
        self._returns = _adapter_or_none(scope_of(function).try_resolve(hint)[0])

    def check(self, value: Any) -> Checked:
        if not isinstance(value, dict):
            raise ToolArgumentError(
                model_text("answer_no_json", schema=json.dumps(self.schema, ensure_ascii=False))
            )
        return Checked(self._arguments.validate(value), self.function)

    def dump(self, value: Any, name: str) -> Any:  # noqa: ARG002 - it is the only one
        return to_jsonable(value) if self._returns is None else _dumped(self._returns, value)

    def load(self, plain: Any) -> Any:
        return plain if self._returns is None else self._returns.validate_json(json.dumps(plain))


class _ChoiceMember:
    """Members from which the answer selects one by name; needed if one of them is a function."""

    def __init__(self, members: Sequence[_Member]) -> None:
        self.name = "answer"
        self._members = {member.name: member for member in members}
        if len(self._members) < len(members):
            raise ConfigError("output_type: two functions or types have the same name. Rename one.")
        self.schema = {"anyOf": [_named(member) for member in members]}

    def check(self, value: Any) -> Checked:
        known = isinstance(value, dict) and self._members.get(str(value.get("name")))
        if not known:
            raise ToolArgumentError(f"name: {', '.join(self._members)}")
        return known.check(value.get("arguments"))._replace(name=known.name)

    def dump(self, value: Any, name: str) -> Any:
        return {"name": name, "value": self._members[name].dump(value, name)}

    def load(self, plain: Any) -> Any:
        return self._members[plain["name"]].load(plain["value"])


class OutputForm:
    """The form of an answer.

    Args:
        output_type: A type, a function whose arguments are the answer, or a list of these.

    Raises:
        ConfigError: The type cannot be expressed as JSON.
    """

    def __init__(self, output_type: Any) -> None:
        self._member = _member(output_type)
        several = output_type if isinstance(output_type, (list, tuple)) else [output_type]
        self.functions = [kind for kind in several if _is_function(kind)]
        schema = self._member.schema
        self.wraps = schema.get("type") != "object" or "$ref" in schema
        root = _wrapped(schema) if self.wraps else schema
        root, is_strict = _closed(root)
        self.schema: dict[str, Any] = root
        form = {"name": self._member.name, "schema": root, **({"strict": True} if is_strict else {})}
        self.response_format = AnswerFormat({"type": "json_schema", "json_schema": form})

    def read(self, text: str) -> Checked:
        """Parse and check a model's text.

        Raises:
            ToolArgumentError: No value in the text fits; the message describes the problem.
        """
        values, problem = json_values(text.strip()), None
        for value in values:
            is_wrapped = self.wraps and isinstance(value, dict) and list(value) == [WRAPPER]
            try:
                return self._member.check(value[WRAPPER] if is_wrapped else value)
            except ToolArgumentError as error:
                problem = problem or error
        try:
            return self._member.check(text.strip())  # a Literal, a number or a string may be unquoted
        except ToolArgumentError:
            known = model_text("answer_no_json", schema=json.dumps(self.schema, ensure_ascii=False))
            raise (problem or ToolArgumentError(known)) from None

    def dump(self, value: Any, name: str = "") -> Any:
        """Return the plain JSON form of an output; `name` selects the member of a choice."""
        return self._member.dump(value, name)

    def load(self, plain: Any) -> Any:
        """Restore an output from its plain form.

        Raises:
            ConfigError: The recorded form is invalid.
        """
        try:
            return self._member.load(plain)
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(
                f"The recorded output {plain!r:.80} is not a {self._member.name}. Resume with the "
                "output_type of the recorded run. Output checks must return values of that type."
            ) from error


def _member(output_type: Any) -> _Member:
    if isinstance(output_type, str):
        raise ConfigError(f"output_type={output_type!r} is a string. Pass the type itself.")
    if not isinstance(output_type, (list, tuple)):
        return _FunctionMember(output_type) if _is_function(output_type) else _TypeMember(output_type)
    if not output_type:
        raise ConfigError("output_type is an empty list. Pass at least one type or function.")
    if not any(map(_is_function, output_type)):
        return _TypeMember(Union[tuple(output_type)])  # noqa: UP007 - of any length
    return _member(output_type[0]) if len(output_type) == 1 else _ChoiceMember([*map(_member, output_type)])


def _is_function(value: Any) -> bool:
    return inspect.isroutine(value) or isinstance(value, functools.partial)


def _adapter(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    adapter: TypeAdapter[Any] = TypeAdapter(portable(kind))
    if not getattr(adapter, "pydantic_complete", True):
        adapter.rebuild(force=True, _types_namespace=scope_of(None).local_types)
    return adapter


def _adapter_or_none(hint: Any) -> TypeAdapter[Any] | None:
    """Return the adapter for a return type; None (plain JSON) if there is no usable annotation."""
    if hint is inspect.Signature.empty:
        return None
    try:
        adapter = _adapter(hint)
        adapter.json_schema(mode="serialization")
    except Exception:  # noqa: BLE001 - foreign types may fail in any way
        return None
    return adapter


def _dumped(adapter: TypeAdapter[Any], value: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pydantic warns if a check has changed the value's type
        try:
            return to_jsonable(adapter.dump_python(value, mode="json", by_alias=True))
        except Exception:  # noqa: BLE001 - a foreign type must not prevent the record
            return to_jsonable(value)


def _named(member: _Member) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"name": {"type": "string", "enum": [member.name]}, "arguments": member.schema},
        "required": ["name", "arguments"],
    }


def _wrapped(schema: dict[str, Any]) -> dict[str, Any]:
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    outer = {"type": "object", "properties": {WRAPPER: inner}, "required": [WRAPPER]}
    return {**outer, "$defs": schema["$defs"]} if "$defs" in schema else outer


def _closed(schema: Any) -> tuple[Any, bool]:
    """Return the schema with additional properties forbidden, and whether a strict server can enforce it."""
    if isinstance(schema, list):
        parts = [_closed(entry) for entry in schema]
        return [part for part, _ in parts], all(is_strict for _, is_strict in parts)
    if not isinstance(schema, dict):
        return schema, True
    is_strict = "default" not in schema
    result: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("properties", "$defs"):
            closed = {name: _closed(entry) for name, entry in value.items()}
            result[key] = {name: part for name, (part, _) in closed.items()}
            is_strict = is_strict and all(strict for _, strict in closed.values())
        elif key in ("anyOf", "items"):
            result[key], inner = _closed(value)
            is_strict = is_strict and inner
        else:
            result[key] = value
            is_strict = is_strict and key in _STRICT_WORDS
    if schema.get("type") == "object":
        names = schema.get("properties")
        if names is not None:
            result.setdefault("additionalProperties", False)
        is_strict = is_strict and result.get("additionalProperties") is False
        is_strict = is_strict and sorted(names or ()) == sorted(schema.get("required", ()))
    return result, is_strict


# -- the output of a run: its form, the user's checks, and the limit on corrections ----------------------

Check = Callable[..., Any | Awaitable[Any]]


class TypedOutput:
    """A run's output for the kernel; see `OutputSpec`.

    Args:
        form: The answer's form; None for text.
        retries: Maximum number of corrections requested from the model.
        checks: User functions that check the output. A return value other than None replaces the output.
    """

    def __init__(self, form: OutputForm | None, retries: int, checks: Sequence[Check] = ()) -> None:
        self._form = form
        self._checks = checks
        self.retries = retries

    @property
    def response_format(self) -> AnswerFormat | None:
        """The response format for requests; None for text."""
        return None if self._form is None else self._form.response_format

    @property
    def functions(self) -> list[Callable[..., Any]]:
        """The user's functions that this output calls."""
        return [*(self._form.functions if self._form else ()), *self._checks]

    def partial(self) -> PartialReader | None:
        """Return a reader for a streamed answer; None for text."""
        return None if self._form is None else PartialReader(wrapped=self._form.wraps)

    async def judge(self, text: str) -> tuple[dict[str, Any], Any]:
        """Return the output's plain form or the reason for a rejection, and the output itself.

        Raises:
            Exception: An error of a user's function, other than `Retry`.
        """
        try:
            checked = Checked(text) if self._form is None else self._form.read(text)
            value = checked.value
            if checked.function is not None:
                value = await call_user(contextual(checked.function), **checked.value)
            for check in self._checks:
                changed = await call_user(contextual(check), value)
                value = value if changed is None else changed
        except (ToolArgumentError, Retry) as error:
            return {"why": str(error)}, None
        plain = to_jsonable(value) if self._form is None else self._form.dump(value, checked.name)
        return {"value": plain}, value

    def load(self, plain: Any) -> Any:
        """Restore an output from its plain form."""
        return plain if self._form is None else self._form.load(plain)
