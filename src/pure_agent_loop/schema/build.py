"""JSON Schema and argument validation of a tool function; pydantic is imported when it is first needed."""

from __future__ import annotations

import copy
import inspect
import json
import typing
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any, Union, cast

from pure_agent_loop.errors import ConfigError, PureAgentLoopError
from pure_agent_loop.llm.arguments import check_numbers, loads_strictly
from pure_agent_loop.schema.docstrings import parse_docstring
from pure_agent_loop.schema.mended import mended_schema
from pure_agent_loop.schema.plain import Validator, is_plain, plain_schema, plain_validator
from pure_agent_loop.schema.problems import describe_problems
from pure_agent_loop.schema.signature import ToolParameter, ToolSignature, check_signature
from pure_agent_loop.schema.tidy import tidy_schema
from pure_agent_loop.schema.typed_dicts import annotated, is_annotated, portable

if TYPE_CHECKING:
    from pydantic import TypeAdapter


class ToolArgumentError(PureAgentLoopError):
    """The model's arguments do not fit the tool. The message lists every problem, for the model to read."""


class ToolSchema:
    """The description of a function for a model, and the validation of its arguments.

    Attributes:
        description: The docstring without its sections; empty if missing.
        parameters: A JSON Schema of type ``object``.
    """

    def __init__(
        self, description: str, parameters: dict[str, Any], validator: Callable[[], Validator]
    ) -> None:
        self.description = description
        self.parameters = parameters
        self._new_validator = validator
        self._required = frozenset(parameters.get("required", ()))

    @cached_property
    def _validator(self) -> Validator:
        return self._new_validator()

    def validate(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Convert a model's arguments to keyword arguments of the function.

        Values are coerced where that is safe (``"7"`` to 7, 7 to ``"7"``, an object to a dataclass).
        Missing arguments are not filled in, so that the function's defaults apply.

        Args:
            arguments: JSON values by parameter name. They are not modified.

        Raises:
            ToolArgumentError: The arguments do not fit.
        """
        try:
            return self._checked(arguments)
        except ValueError as error:
            first = _plain(error)
        repaired = self._repaired(arguments, first)
        if repaired is None:
            raise ToolArgumentError(self._describe(first, arguments))
        try:
            return self._checked(repaired)
        except ValueError as error:
            raise ToolArgumentError(self._describe(_plain(error), repaired)) from None

    def _checked(self, arguments: dict[str, Any]) -> dict[str, Any]:
        result: dict[str, Any] = self._validator.validate_python(arguments)
        for name in arguments:  # noqa: PLC0206 - `items()` would cost a call per step
            if type(arguments[name]) is not int or not -1e300 < arguments[name] < 1e300:
                _check_numbers(arguments, result)
                break
        return result

    def _repaired(self, arguments: Any, errors: list[dict[str, Any]]) -> dict[str, Any] | None:
        """Return the arguments with common model mistakes corrected, or None if there is no such mistake.

        Models write null for a missing value, a list or object as its JSON text, and 1.0 for 1. Only
        unambiguous mistakes are corrected.
        """
        if not isinstance(arguments, dict):
            return None
        better = dict(arguments)
        for name in {error["loc"][0] for error in errors if error["loc"]} & arguments.keys():
            value = arguments[name]
            if value is None and name not in self._required:
                del better[name]
            elif isinstance(value, str):
                better[name] = _from_text(value)
            else:
                better[name] = _whole(value)
        return None if repr(better) == repr(arguments) else better  # 1.0 equals 1

    def _describe(self, errors: list[dict[str, Any]], arguments: Any) -> str:
        return describe_problems(errors, arguments, list(self.parameters["properties"]), self._required)


def build_schema(function: Callable[..., Any] | ToolSignature) -> ToolSchema:
    """Build a function's schema for a model.

    The validator is built on first use. pydantic is imported at once only if a type is not plain, because
    pydantic may reject the type.

    Args:
        function: A function, or the result of :func:`check_signature` for it. Pass the result if annotations
            may name classes that existed only while the function was defined.

    Raises:
        ConfigError: The function cannot be a tool, or a parameter's type cannot be expressed as JSON.
    """
    known = function if isinstance(function, ToolSignature) else check_signature(function)
    signature = known.resolved()
    validator: Callable[[], Validator] = partial(plain_validator, signature.parameters)
    parameters = plain_schema(signature.parameters)
    if parameters is None:
        try:
            ready = _adapter(signature, signature.parameters)
            validator, raw = partial(JSONValidator, ready), described(ready)
        except Exception as error:
            raise _inexpressible(signature, error) from error
        # Keys in the usual order; pydantic omits empty parts, which some servers require.
        tidy = {"type": "object", "properties": {}, "required": [], **tidy_schema(raw)}
        parameters = mended_schema(tidy)  # adds the `items` of arrays, which pydantic omits for tuples
    doc = parse_docstring(signature.doc)
    for parameter in signature.parameters:
        _complete(parameters["properties"].get(parameter.name), parameter, doc.params)
    return ToolSchema(doc.description, parameters, validator)


class JSONValidator:
    """A validator of a model's arguments in JSON mode, where a date is a string and a set is a list."""

    def __init__(self, adapter: TypeAdapter[Any]) -> None:
        self._adapter, self.core_schema = adapter, adapter.core_schema

    def validate_python(self, value: Any, /) -> Any:
        """Return keyword arguments; see `Validator`."""
        try:
            text = json.dumps(value)
            text.encode()
        except (TypeError, ValueError, RecursionError):  # the arguments hold Python objects, such as dates
            return self._adapter.validate_python(value)
        converted = self._adapter.validate_json(text)
        wrong = [name for name in converted if _is_number_as_path(value.get(name), converted[name])]
        if wrong:
            from pydantic_core import InitErrorDetails, PydanticCustomError, ValidationError

            kind = PydanticCustomError("path_type", "Input should be a path, which is a string")
            errors = [InitErrorDetails(type=kind, loc=(name,), input=value[name]) for name in wrong]
            raise ValidationError.from_exception_data("Arguments", errors)
        return converted


def _is_number_as_path(sent: Any, converted: Any) -> bool:
    """Return True if a number became a path: pydantic accepts a number as text, and text as a path."""
    if isinstance(converted, (list, tuple)) and isinstance(sent, list):
        return any(map(_is_number_as_path, sent, converted))
    return isinstance(converted, PurePath) and not isinstance(sent, str)


def described(adapter: TypeAdapter[Any]) -> dict[str, Any]:
    """Return the JSON Schema of a type.

    Raises:
        ValueError: The type has a fixed value that JSON cannot express, so no model output could match.
        Exception: Other errors of pydantic or of third-party types.
    """
    schema = adapter.json_schema()
    seen, nodes = set[int](), [cast("Any", adapter.core_schema)]
    while nodes:
        node = nodes.pop()
        if id(node) in seen or not isinstance(node, (dict, list, tuple)):
            continue
        seen.add(id(node))
        nodes += node.values() if isinstance(node, dict) else node
        if isinstance(node, dict) and node.get("type") in ("literal", "enum"):
            for value in node.get("members") or node.get("expected") or ():
                _check_writable(node, value)
    return schema


def _check_writable(schema: Any, value: Any) -> None:
    from pydantic_core import SchemaValidator, to_json

    if type(value) in (str, int, bool, type(None)):
        return
    try:
        is_same = SchemaValidator(schema).validate_json(to_json(value)) == value
    except ValueError:
        is_same = False
    if not is_same:
        raise ValueError(f"{value!r:.60} is not a JSON value; use an Enum of strings or numbers")


def _adapter(signature: ToolSignature, parameters: tuple[ToolParameter, ...]) -> TypeAdapter[Any]:
    """Return a pydantic adapter for the keyword arguments.

    A TypedDict is built faster than a model (0.2 ms instead of 0.5), allows any parameter name, and omits
    missing arguments.
    """
    import typing_extensions
    from pydantic import ConfigDict, TypeAdapter

    fields = {p.name: _field(p) for p in parameters}
    make: Any = typing_extensions.TypedDict
    carrier = make("Arguments", fields)
    carrier.__pydantic_config__ = ConfigDict(extra="forbid", coerce_numbers_to_str=True)
    adapter: TypeAdapter[Any] = TypeAdapter(carrier)
    if not getattr(adapter, "pydantic_complete", True):
        # An annotation in a nested class may name another class of the enclosing function.
        adapter.rebuild(force=True, _types_namespace=signature.local_types)
    return adapter


def _field(parameter: ToolParameter) -> Any:
    """Return the annotation of a parameter's TypedDict entry."""
    import typing_extensions
    from pydantic.fields import FieldInfo

    annotation, default = portable(parameter.annotation), parameter.default
    if isinstance(default, FieldInfo):
        # For `x: int = Field(5, ge=1)`, pydantic decides if the argument is required, and fills in the
        # default.
        return Annotated[annotation, default]
    if parameter.required:
        return annotation
    if default is None:
        annotation = _with_none(annotation)
    return typing_extensions.NotRequired[annotation]


def _with_none(annotation: Any) -> Any:
    """Return the annotation for a default of None: ``x: int = None`` is common and means ``int | None``."""
    if is_annotated(annotation):
        return annotated(_with_none(annotation.__origin__), annotation.__metadata__)
    if annotation is Any or type(None) in typing.get_args(annotation):
        return annotation
    return Union[annotation, None]  # noqa: UP007 - not every annotation supports the operator


def _complete(schema: dict[str, Any] | None, parameter: ToolParameter, docs: Mapping[str, str]) -> None:
    """Add the default and the description of a parameter to its schema."""
    if schema is None:  # the schema lists a parameter that has an alias under that alias
        return
    if description := _explicit_description(parameter) or docs.get(parameter.name):
        schema["description"] = description
    if not parameter.required and "default" not in schema:
        schema.update(_default(parameter.default))


def _explicit_description(parameter: ToolParameter) -> str | None:
    """Return the text in ``Annotated[T, "text"]``, ``Field(description=...)`` or ``Doc(...)``."""
    metadata = parameter.annotation.__metadata__ if is_annotated(parameter.annotation) else ()
    is_field = type(parameter.default).__name__ == "FieldInfo"
    for item in (*metadata, parameter.default) if is_field else metadata:
        text = getattr(item, "description", None) or getattr(item, "documentation", None) or item
        if isinstance(text, str):
            return text
    return None


def _default(value: Any) -> dict[str, Any]:
    """Return ``{"default": ...}``, or an empty dict if the default cannot be written as JSON."""
    if is_plain(value):
        may_change = isinstance(value, (list, dict))  # a copy, because a list or dict may be modified later
        return {"default": copy.deepcopy(value) if may_change else value}
    from pydantic_core import to_jsonable_python

    try:
        plain = to_jsonable_python(value)
        json.dumps(plain, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return {}
    return {"default": plain}


def _inexpressible(signature: ToolSignature, error: Exception) -> ConfigError:
    """Return an error that names the failing parameter and suggests other types for it."""
    for parameter in signature.parameters:
        cause = _failure(signature, parameter)
        if cause is not None:
            return ConfigError(
                f"Tool {signature.name!r}: parameter {parameter.name!r} has the type "
                f"{inspect.formatannotation(parameter.annotation)}, which has no JSON Schema "
                f"({_reason(cause)}). Use str, int, float, bool, list, dict, Literal, Enum, a dataclass, a "
                "TypedDict or a pydantic model; or hide it from the model with functools.partial."
            )
    return ConfigError(f"Tool {signature.name!r}: no JSON Schema for its parameters ({_reason(error)}).")


def _failure(signature: ToolSignature, parameter: ToolParameter) -> Exception | None:
    try:
        described(_adapter(signature, (parameter,)))
    except Exception as error:  # noqa: BLE001 - foreign types may fail in any way
        return error
    return None


def _reason(error: Exception) -> str:
    text = str(getattr(error, "message", error)) or type(error).__name__
    return text.split("\n")[0].split(". Set `arbitrary")[0].rstrip(".")


def _check_numbers(sent: Any, converted: Any) -> None:
    try:
        check_numbers(sent, converted)
    except ValueError as error:
        raise ToolArgumentError(str(error)) from None


def _plain(error: ValueError) -> list[dict[str, Any]]:
    from pydantic_core import ValidationError

    if not isinstance(error, ValidationError):
        raise error
    return cast("list[dict[str, Any]]", error.errors(include_url=False))


def _whole(value: Any) -> Any:
    """Replace whole floats, such as 1.0, with integers."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_whole(inner) for inner in value]
    return {name: _whole(inner) for name, inner in value.items()} if isinstance(value, dict) else value


def _from_text(text: str) -> Any:
    """Parse a string as a JSON list or object; return it unchanged if it is neither."""
    try:
        value = loads_strictly(text)
    except ValueError:
        return text
    return value if isinstance(value, (list, dict)) else text
