"""The description of a tool for a model: its name, purpose, arguments and worked examples."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.llm.arguments import loads_strictly
from pure_agent_loop.prompts import Prompts, ToolWords
from pure_agent_loop.schema.build import ToolArgumentError, ToolSchema, build_schema
from pure_agent_loop.schema.mended import mended_schema
from pure_agent_loop.schema.problems import describe_problems
from pure_agent_loop.schema.signature import check_signature
from pure_agent_loop.support.checks import require
from pure_agent_loop.support.language import model_text

# -- worked examples from the author of a tool -----------------------------------------------------------

Example = tuple[str, Mapping[str, Any]]
NAME_PATTERN = re.compile(r"[a-zA-Z0-9_-]{1,64}")
# JSON type -> its Python types, and pydantic's error type and wording for a mismatch
_KINDS: dict[str, tuple[Any, str, str]] = {
    "string": (str, "string_type", "a valid string"),
    "integer": (int, "int_type", "a valid integer"),
    "number": ((int, float), "float_type", "a valid number"),
    "boolean": (bool, "bool_type", "a valid boolean"),
    "array": (list, "list_type", "a valid list"),
    "object": (dict, "dict_type", "an object"),
    "null": (type(None), "none_required", "null"),
}


def _is_example(value: Any) -> bool:
    is_pair = isinstance(value, (tuple, list)) and len(value) == 2
    return is_pair and isinstance(value[0], str) and isinstance(value[1], Mapping)


def checked_examples(name: str, examples: Iterable[Example]) -> tuple[Example, ...]:
    """Check and return the worked examples of a tool.

    Raises:
        ConfigError: An example is not a pair of a string and a dict of arguments.
    """
    checked = tuple(examples)
    for example in checked:
        require(
            _is_example(example),
            f"Tool {name!r}: an example",
            example,
            '("question", {"argument": value})',
        )
    return checked


# -- JSON Schemas that come with a tool, if there is no function to derive one from ----------------------


def _is_a(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean" or kind not in _KINDS
    is_whole = kind == "integer" and isinstance(value, float) and value.is_integer()
    return is_whole or kind not in _KINDS or isinstance(value, _KINDS[kind][0])


def _mismatches(schema: Any, value: Any, place: tuple[Any, ...] = ()) -> Iterator[dict[str, Any]]:
    """Yield an error, in pydantic's form, for each value whose type or choice does not match its schema."""
    if not isinstance(schema, dict):
        return
    kinds = [kind for kind in _as_list(schema.get("type")) if isinstance(kind, str)]
    choices = schema.get("enum")
    if kinds and not any(_is_a(value, kind) for kind in kinds):
        _, name, text = _KINDS[kinds[0]]
        yield {"type": name, "loc": place, "msg": f"Input should be {text}", "input": value}
    elif isinstance(choices, list) and value not in choices:
        expected = ", ".join(map(repr, choices))
        error = {"type": "literal_error", "ctx": {"expected": expected}, "loc": place, "input": value}
        yield {**error, "msg": f"Input should be {expected}"}
    elif isinstance(value, dict):
        needed, fields = schema.get("required", ()), schema.get("properties", {})
        for name, item in value.items():
            if item is not None or name in needed:  # null for an optional value means that it is missing
                yield from _mismatches(fields.get(name), item, (*place, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _mismatches(schema.get("items"), item, (*place, index))


def _read(schema: Any, value: Any) -> Any:
    if isinstance(value, str) and any(_mismatches(schema, value)):
        with suppress(ValueError):
            read = loads_strictly(value)
            return value if any(_mismatches(schema, read)) else read
    return value


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


@dataclass(slots=True, eq=False, repr=False)
class JsonSchemaType:
    """Schema from the caller, converted to the subset that model servers accept.

    Its validation checks names, types and choices; other rules are left to the function.

    Args:
        description: Always empty.
    """

    parameters: dict[str, Any]
    description: str = ""

    def __post_init__(self) -> None:
        self.parameters = mended_schema(self.parameters)

    def validate(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments after checking names, types and choices.

        A string that does not fit is parsed as JSON, such as ``"7"`` for an integer.

        Raises:
            ToolArgumentError: An argument is missing or unknown, or a value does not fit.
        """
        missing = [name for name in self.parameters.get("required", ()) if name not in arguments]
        properties = self.parameters.get("properties", {})
        closed = self.parameters.get("additionalProperties") is False
        problems = [f"{name}: {model_text('required')}" for name in missing]
        problems += [
            model_text("unknown_argument", name=repr(name))
            for name in arguments
            if closed and name not in properties
        ]
        arguments = {name: _read(properties.get(name), value) for name, value in arguments.items()}
        if errors := list(_mismatches(self.parameters, arguments)):
            problems.append(describe_problems(errors, arguments, (), frozenset()))
        if problems:
            raise ToolArgumentError("; ".join(problems))
        return arguments


class Described:
    """Name, description and schema of a tool; see `Tool` for the arguments and errors."""

    def __init__(
        self,
        function: Callable[..., Any] | None,
        name: str | None,
        description: str | None,
        parameters: Mapping[str, Any] | None,
        examples: Sequence[Example],
        words: Mapping[str, ToolWords] | None,
    ) -> None:
        bare = function is None and name is not None and parameters is not None
        if not bare and not callable(function):
            raise ConfigError(
                f"A tool must be a function, a Tool or a dict; it is {function!r:.80}. "
                "A tool without a function needs name and parameters (a JSON Schema)."
            )
        self.name = check_name(name if name is not None else _name_of(function))
        is_schema = parameters is None or _is_mapping(parameters)
        require(is_schema, f"Tool {self.name!r}: parameters", parameters, "a JSON Schema (a dict)")
        self.examples = checked_examples(self.name, examples)
        self._words = words or {}
        self._description = description if function is not None else description or ""
        try:
            self._given = None if parameters is None else JsonSchemaType(dict(parameters))
        except ConfigError as error:
            raise ConfigError(f"Tool {self.name!r}: {error}") from None
        self._signature = None if function is None or parameters is not None else check_signature(function)

    @cached_property
    def schema(self) -> ToolSchema | JsonSchemaType:
        """The schema and the validator; built on first use, because building them imports pydantic."""
        if self._given is not None:
            return self._given
        assert self._signature is not None  # either `_given` or `_signature` is set
        return build_schema(self._signature)

    @property
    def argument_names(self) -> list[str]:
        """Names of the arguments; for a function, found without building its schema."""
        if self._signature is not None:
            return [parameter.name for parameter in self._signature.parameters]
        return list(self.parameters.get("properties", {}))

    @property
    def description(self) -> str:
        """The description for the model."""
        return self._description if self._description is not None else self.schema.description

    @property
    def said(self) -> str:
        """The descriptions in all languages, for a search."""
        fields = self.parameters.get("properties", {})
        fields_text = (f"{name} {field.get('description', '')}" for name, field in fields.items())
        return " ".join(
            [self.description, *(words.description for words in self._words.values()), *fields_text]
        )

    @property
    def parameters(self) -> dict[str, Any]:
        """JSON Schema of the arguments."""
        return self.schema.parameters

    def to_openai_schema(self, prompts: Prompts | None = None) -> dict[str, Any]:
        """Return the tool as an entry in a request's ``tools``.

        Args:
            prompts: Prompts in whose language the tool is described; None for the tool's own description.
        """
        words = None if prompts is None else prompts.tools.get(self.name, self._words.get(prompts.language))
        description = self.description if words is None else words.description
        parameters = (
            self.parameters if words is None else with_texts(self.parameters, words.parameters, self.name)
        )
        return {
            "type": "function",
            "function": {"name": self.name, "description": description, "parameters": parameters},
        }

    def examples_for(self, prompts: Prompts) -> Sequence[Example]:
        """Return the worked examples in the language of a run."""
        words = prompts.tools.get(self.name, self._words.get(prompts.language))
        return self.examples if words is None or words.examples is None else words.examples


def check_name(name: str) -> str:
    """Check and return the name of a tool.

    Raises:
        ConfigError: Model servers would reject the name.
    """
    if not _is_name(name):
        raise ConfigError(
            f"Tool name {name!r} is invalid: servers accept 1 to 64 letters, digits, _ and -. "
            "Set another name with @tool(name='...')."
        )
    return name


def _is_name(value: object) -> bool:
    return isinstance(value, str) and NAME_PATTERN.fullmatch(value) is not None


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping)


def _name_of(function: Any) -> str:
    while isinstance(function, partial):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))


def with_texts(schema: dict[str, Any], texts: Mapping[str, str], tool: str) -> dict[str, Any]:
    """Return a tool's schema with these parameter descriptions; nested descriptions are removed.

    Raises:
        ConfigError: A parameter does not exist.
    """
    properties = dict(schema.get("properties", {}))
    if unknown := [name for name in texts if name not in properties]:
        raise ConfigError(f"ToolWords of {tool!r}: unknown parameter {', '.join(map(repr, unknown))}.")
    for name, text in texts.items():
        properties[name] = {**_without_texts(properties[name]), "description": text}
    return {**schema, "properties": properties}


def _without_texts(part: Any) -> Any:
    if isinstance(part, list):
        return [_without_texts(entry) for entry in part]
    if not isinstance(part, dict):
        return part
    return {n: _without_texts(v) for n, v in part.items() if n != "description" or not isinstance(v, str)}
