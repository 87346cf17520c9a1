"""JSON Schema and argument validation of a tool function, through pydantic, which loads when first needed."""

from __future__ import annotations

import copy
import inspect
import json
import sys
import types
import typing
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, Annotated, Any, Union, cast

from pure_agent_loop.errors import ConfigError, PureAgentLoopError
from pure_agent_loop.llm.arguments import loads_strictly
from pure_agent_loop.schema.docstrings import parse_docstring
from pure_agent_loop.schema.plain import Validator, is_plain, plain_schema, plain_validator
from pure_agent_loop.schema.problems import describe_problems
from pure_agent_loop.schema.signature import ToolParameter, ToolSignature, callable_name, check_signature
from pure_agent_loop.schema.tidy import tidy_schema

if TYPE_CHECKING:
    from pydantic import TypeAdapter

__all__ = ["ToolArgumentError", "ToolSchema", "build_schema", "callable_name", "check_signature"]


class ToolArgumentError(PureAgentLoopError):
    """A model's arguments do not fit the tool. The message lists every problem, for the model to read."""


class ToolSchema:
    """What a model is told about a function, and the check of what it sends back.

    Attributes:
        description: The docstring without its sections; empty if there is none.
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
        """Turn a model's arguments into keyword arguments of the function.

        Values are coerced where that is safe (``"7"`` to 7, 7 to ``"7"``, an object to a dataclass).
        What was left out stays out, so that the function's own default applies.

        Args:
            arguments: JSON values by parameter name. They are not changed.

        Raises:
            ToolArgumentError: They do not fit.
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
        return result

    def _repaired(self, arguments: Any, errors: list[dict[str, Any]]) -> dict[str, Any] | None:
        """The same arguments in the other two spellings models use, or None if there are none.

        They write null for "left out", and a list or object as its JSON text. Neither is a guess.
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
        return better if better != arguments else None

    def _describe(self, errors: list[dict[str, Any]], arguments: Any) -> str:
        return describe_problems(errors, arguments, list(self.parameters["properties"]), self._required)


def build_schema(function: Callable[..., Any] | ToolSignature) -> ToolSchema:
    """Work out what a model needs to know about a function.

    The check of arguments is built when the first ones come. Only where a type is not plain is pydantic
    needed, and then at once, as it may refuse it.

    Args:
        function: A function, or what :func:`check_signature` returned for it. Pass the latter where
            annotations may name classes that only existed while the function was defined.

    Raises:
        ConfigError: It cannot be a tool, or a parameter's type has no JSON form.
    """
    known = function if isinstance(function, ToolSignature) else check_signature(function)
    signature = known.resolved()
    validator: Callable[[], Validator] = partial(plain_validator, signature.parameters)
    parameters = plain_schema(signature.parameters)
    if parameters is None:
        validator = adapter = partial(_adapter, signature, signature.parameters)
        try:
            ready = adapter()
            raw = ready.json_schema()
        except Exception as error:
            raise _inexpressible(signature, error) from error
        # In the order people write it; pydantic leaves empty parts out, which some servers miss.
        parameters = {"type": "object", "properties": {}, "required": [], **tidy_schema(raw)}
    doc = parse_docstring(signature.doc)
    for parameter in signature.parameters:
        _complete(parameters["properties"].get(parameter.name), parameter, doc.params)
    return ToolSchema(doc.description, parameters, validator)


def _adapter(signature: ToolSignature, parameters: tuple[ToolParameter, ...]) -> TypeAdapter[Any]:
    """A pydantic adapter for the keyword arguments.

    A TypedDict is the cheapest carrier (0.2 ms; a model takes 0.5), allows any parameter name, and
    leaves out what was not given.
    """
    import typing_extensions
    from pydantic import ConfigDict, TypeAdapter

    fields = {p.name: _field(p) for p in parameters}
    make: Any = typing_extensions.TypedDict
    carrier = make("Arguments", fields)
    carrier.__pydantic_config__ = ConfigDict(extra="forbid", coerce_numbers_to_str=True)
    adapter: TypeAdapter[Any] = TypeAdapter(carrier)
    if not getattr(adapter, "pydantic_complete", True):
        # A class inside names another class of the same function as text.
        adapter.rebuild(force=True, _types_namespace=signature.local_types)
    return adapter


def _field(parameter: ToolParameter) -> Any:
    """The annotation of the TypedDict entry for a parameter."""
    import typing_extensions
    from pydantic.fields import FieldInfo

    annotation, default = portable(parameter.annotation), parameter.default
    if isinstance(default, FieldInfo):
        # x: int = Field(5, ge=1). pydantic knows if that is required, and fills in the default itself.
        return Annotated[annotation, default]
    if parameter.required:
        return annotation
    if default is None:
        annotation = _with_none(annotation)
    return typing_extensions.NotRequired[annotation]


def _with_none(annotation: Any) -> Any:
    """``x: int = None`` is often written and means ``int | None``."""
    if _is_annotated(annotation):
        return _annotated(_with_none(annotation.__origin__), annotation.__metadata__)
    if annotation is Any or type(None) in typing.get_args(annotation):
        return annotation
    return Union[annotation, None]  # noqa: UP007 - not every annotation supports the operator


def _complete(schema: dict[str, Any] | None, parameter: ToolParameter, docs: Mapping[str, str]) -> None:
    """Add the default and the description of a parameter to its schema."""
    if schema is None:  # it goes by an alias
        return
    description = _explicit_description(parameter) or docs.get(parameter.name)
    if description:
        schema["description"] = description
    if not parameter.required and "default" not in schema:
        schema.update(_default(parameter.default))


def _explicit_description(parameter: ToolParameter) -> str | None:
    """The text in ``Annotated[T, "text"]``, ``Field(description=...)`` or ``Doc(...)``."""
    metadata = parameter.annotation.__metadata__ if _is_annotated(parameter.annotation) else ()
    for item in (*metadata, parameter.default) if _is_field(parameter.default) else metadata:
        text = getattr(item, "description", None) or getattr(item, "documentation", None) or item
        if isinstance(text, str):
            return text
    return None


def _is_annotated(annotation: Any) -> bool:
    return type(annotation) is not type and typing.get_origin(annotation) is Annotated


def _annotated(inner: Any, metadata: tuple[Any, ...]) -> Any:
    make: Any = Annotated
    parts = (inner, *metadata)
    return make[parts]


def _is_field(value: Any) -> bool:
    return type(value).__name__ == "FieldInfo"


def _default(value: Any) -> dict[str, Any]:
    """``{"default": ...}``, or nothing where the default has no JSON form."""
    if is_plain(value):
        may_change = isinstance(value, (list, dict))  # while it is the default
        return {"default": copy.deepcopy(value) if may_change else value}
    from pydantic_core import to_jsonable_python

    try:
        plain = to_jsonable_python(value)
        json.dumps(plain, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return {}
    return {"default": plain}


def _inexpressible(signature: ToolSignature, error: Exception) -> ConfigError:
    """Find the parameter that failed and say what to write instead."""
    for parameter in signature.parameters:
        cause = _failure(signature, parameter)
        if cause is not None:
            return ConfigError(
                f"Tool {signature.name!r}: parameter {parameter.name!r} has the type "
                f"{inspect.formatannotation(parameter.annotation)}, which cannot be described to a model "
                f"({_reason(cause)}). Use str, int, float, bool, list, dict, Literal, Enum, a dataclass, a "
                "TypedDict or a pydantic model; or hide it from the model with functools.partial."
            )
    return ConfigError(f"Tool {signature.name!r}: no JSON Schema for its parameters ({_reason(error)}).")


def _failure(signature: ToolSignature, parameter: ToolParameter) -> Exception | None:
    try:
        _adapter(signature, (parameter,)).json_schema()
    except Exception as error:  # noqa: BLE001 - foreign types may fail in any way
        return error
    return None


def _reason(error: Exception) -> str:
    text = str(getattr(error, "message", error)) or type(error).__name__
    return text.split("\n")[0].split(". Set `arbitrary")[0].rstrip(".")


def _plain(error: ValueError) -> list[dict[str, Any]]:
    from pydantic_core import ValidationError

    if not isinstance(error, ValidationError):
        raise error
    return cast("list[dict[str, Any]]", error.errors(include_url=False))


def _from_text(text: str) -> Any:
    """The list or object a text spells in JSON, else the text."""
    try:
        value = loads_strictly(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, (list, dict)) else text


# -- TypedDict before Python 3.12 ------------------------------------------------------------------


def portable(annotation: Any) -> Any:
    """The same with the TypedDict of typing_extensions, on which pydantic insists before 3.12."""
    return annotation if sys.version_info >= (3, 12) else _replaced(annotation, frozenset())


def _replaced(annotation: Any, inside: frozenset[Any]) -> Any:
    if typing.is_typeddict(annotation):
        ours = type(annotation).__module__ == "typing" and annotation not in inside
        return _typed_dict(annotation, inside | {annotation}) if ours else annotation
    if _is_annotated(annotation):
        return _annotated(_replaced(annotation.__origin__, inside), annotation.__metadata__)
    args = typing.get_args(annotation)
    better = tuple(_replaced(arg, inside) for arg in args)
    if all(new is old for new, old in zip(better, args, strict=True)):
        return annotation
    origin: Any = typing.get_origin(annotation)
    if origin is Union or origin is types.UnionType:
        return Union[better]  # noqa: UP007 - a tuple of any length
    return origin[better]


def _typed_dict(original: Any, inside: frozenset[Any]) -> Any:
    import typing_extensions as extensions

    marks = {extensions.Required: True, extensions.NotRequired: False}
    fields: dict[str, Any] = {}
    for name, hint in typing.get_type_hints(original, include_extras=True).items():
        marked = marks.get(typing.get_origin(hint))
        inner = hint if marked is None else typing.get_args(hint)[0]
        required = name in original.__required_keys__ if marked is None else marked
        mark: Any = extensions.Required if required else extensions.NotRequired
        fields[name] = mark[_replaced(inner, inside)]
    make: Any = extensions.TypedDict
    made = make(original.__name__, fields)
    made.__doc__ = original.__doc__
    return made
