"""The form of a typed answer: a type, a function whose arguments it is, or a choice. Loads pydantic."""

from __future__ import annotations

import functools
import inspect
import json
import re
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Union

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.llm.profiles import AnswerFormat
from pure_agent_loop.output.reading import WRAPPER, json_values
from pure_agent_loop.prompts.words import say
from pure_agent_loop.schema.build import ToolArgumentError, build_schema, check_signature, portable
from pure_agent_loop.schema.problems import describe_problems
from pure_agent_loop.schema.signature import around
from pure_agent_loop.schema.tidy import tidy_schema
from pure_agent_loop.support.text import to_jsonable

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_NAME = re.compile(r"[^a-zA-Z0-9_-]+")


class Checked(NamedTuple):
    """A value that fits, or the arguments of a function that is still to be called; and which of several."""

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
    """A type."""

    def __init__(self, kind: Any) -> None:
        self.name = _NAME.sub("_", getattr(kind, "__name__", "") or "answer")[:64]
        try:
            self._adapter = _adapter(kind)
            self.schema = tidy_schema(self._adapter.json_schema())
        except Exception as error:
            reason = str(error).split("\n")[0]
            raise ConfigError(
                f"output_type: {kind!r:.80} cannot be described to a model ({reason}). Use a dataclass, a "
                "TypedDict, a pydantic model, Literal, Enum, list, a union, a plain type, or a function."
            ) from error

    def check(self, value: Any) -> Checked:
        """Raises ToolArgumentError if it does not fit."""
        from pydantic_core import ValidationError

        try:
            # As JSON, because only there a text may be a date, and a list a set.
            return Checked(self._adapter.validate_json(json.dumps(value)))
        except ValidationError as error:
            errors: Any = error.errors(include_url=False)
            names = list(self.schema.get("properties", ()))
            required = frozenset(self.schema.get("required", ()))
            raise ToolArgumentError(describe_problems(errors, value, names, required)) from None

    def dump(self, value: Any, name: str) -> Any:  # noqa: ARG002 - it is the only one
        return _dumped(self._adapter, value)

    def load(self, plain: Any) -> Any:
        return self._adapter.validate_json(json.dumps(plain))


class _FunctionMember:
    """A function; the answer is its arguments, the output what it returns."""

    def __init__(self, function: Callable[..., Any]) -> None:
        signature = check_signature(function)
        self.function = function
        self.name = _NAME.sub("_", signature.name)[:64]
        self._arguments = build_schema(signature)
        about = self._arguments.description
        self.schema = {**self._arguments.parameters, **({"description": about} if about else {})}
        hint = inspect.signature(function).return_annotation
        self._returns = _adapter_or_none(around(function).try_resolve(hint)[0])

    def check(self, value: Any) -> Checked:
        if not isinstance(value, dict):
            raise ToolArgumentError(say("answer_no_json", schema=json.dumps(self.schema, ensure_ascii=False)))
        return Checked(self._arguments.validate(value), self.function)

    def dump(self, value: Any, name: str) -> Any:  # noqa: ARG002 - it is the only one
        return to_jsonable(value) if self._returns is None else _dumped(self._returns, value)

    def load(self, plain: Any) -> Any:
        return plain if self._returns is None else self._returns.validate_json(json.dumps(plain))


class _ChoiceMember:
    """One of several, which the answer names; needed where one of them is a function."""

    def __init__(self, members: Sequence[_Member]) -> None:
        self.name = "answer"
        self._members = {member.name: member for member in members}
        if len(self._members) < len(members):
            raise ConfigError("output_type: two functions or types have the same name. Rename one.")
        self.schema = {"anyOf": [_named(member) for member in members]}

    def check(self, value: Any) -> Checked:
        known = isinstance(value, dict) and self._members.get(str(value.get("name")))
        if not known:
            names = ", ".join(self._members)
            raise ToolArgumentError(f"name: {names}")
        return known.check(value.get("arguments"))._replace(name=known.name)

    def dump(self, value: Any, name: str) -> Any:
        return {"name": name, "value": self._members[name].dump(value, name)}

    def load(self, plain: Any) -> Any:
        return self._members[plain["name"]].load(plain["value"])


class OutputForm:
    """What an answer must be.

    Args:
        output_type: A type, a function whose arguments are the answer, or a list of these.

    Raises:
        ConfigError: It has no JSON form.
    """

    def __init__(self, output_type: Any) -> None:
        self._member = _member(output_type)
        schema = self._member.schema
        self.wraps = schema.get("type") != "object" or "$ref" in schema
        root = _wrapped(schema) if self.wraps else schema
        root, is_strict = _closed(root)
        self.schema: dict[str, Any] = root
        form = {"name": self._member.name, "schema": root, **({"strict": True} if is_strict else {})}
        self.response_format = AnswerFormat({"type": "json_schema", "json_schema": form})

    def read(self, text: str) -> Checked:
        """The value that a model wrote.

        Raises:
            ToolArgumentError: There is none that fits; it says what is wrong with it.
        """
        values, problem = json_values(text.strip()), None
        for value in values:
            is_wrapped = self.wraps and isinstance(value, dict) and list(value) == [WRAPPER]
            try:
                return self._member.check(value[WRAPPER] if is_wrapped else value)
            except ToolArgumentError as error:
                problem = problem or error
        try:
            return self._member.check(text.strip())  # a word of a Literal, a number, a text
        except ToolArgumentError:
            known = say("answer_no_json", schema=json.dumps(self.schema, ensure_ascii=False))
            raise (problem or ToolArgumentError(known)) from None

    def dump(self, value: Any, name: str = "") -> Any:
        """The plain JSON form of an output, which is `name` of several."""
        return self._member.dump(value, name)

    def load(self, plain: Any) -> Any:
        """The reverse of `dump`.

        Raises:
            ConfigError: What is recorded is none.
        """
        try:
            return self._member.load(plain)
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(
                f"The recorded output {plain!r:.80} is no {self._member.name}. Go on with the output_type "
                "that it was recorded for, and let output checks return values of that type."
            ) from error


def _member(output_type: Any) -> _Member:
    if isinstance(output_type, str):
        raise ConfigError(f"output_type={output_type!r} is text. Pass the type itself.")
    if not isinstance(output_type, (list, tuple)):
        is_function = inspect.isroutine(output_type) or isinstance(output_type, functools.partial)
        return _FunctionMember(output_type) if is_function else _TypeMember(output_type)
    if not output_type:
        raise ConfigError("output_type is an empty list: name at least one type or function.")
    if not any(isinstance(each, functools.partial) or inspect.isroutine(each) for each in output_type):
        return _TypeMember(Union[tuple(output_type)])  # noqa: UP007 - of any length
    return _member(output_type[0]) if len(output_type) == 1 else _ChoiceMember([*map(_member, output_type)])


def _adapter(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    adapter: TypeAdapter[Any] = TypeAdapter(portable(kind))
    if not getattr(adapter, "pydantic_complete", True):
        adapter.rebuild(force=True, _types_namespace=around(None).local_types)
    return adapter


def _adapter_or_none(hint: Any) -> TypeAdapter[Any] | None:
    """For what a function returns; what has no annotation, or a strange one, is kept as plain JSON."""
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
        warnings.simplefilter("ignore")  # a check may have put something else in its place
        try:
            return to_jsonable(adapter.dump_python(value, mode="json", by_alias=True))
        except Exception:  # noqa: BLE001 - whatever a foreign type does, the record is written
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
    """The schema with nothing but what it names, and whether a strict server can hold an answer to it."""
    if isinstance(schema, list):
        parts = [_closed(each) for each in schema]
        return [part for part, _ in parts], all(is_strict for _, is_strict in parts)
    if not isinstance(schema, dict):
        return schema, True
    is_strict = "default" not in schema
    result: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("properties", "$defs"):
            closed = {name: _closed(each) for name, each in value.items()}
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


_STRICT_WORDS = ("type", "required", "enum", "const", "description", "$ref", "additionalProperties")
