"""The description of a tool for a model: its name, purpose, arguments and worked examples."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.prompts import Prompts, ToolWords
from pure_agent_loop.schema.build import ToolArgumentError, ToolSchema, build_schema
from pure_agent_loop.schema.mended import mended_schema
from pure_agent_loop.schema.signature import check_signature
from pure_agent_loop.support.language import model_text

# -- worked examples from the author of a tool -----------------------------------------------------------

Example = tuple[str, Mapping[str, Any]]
NAME_PATTERN = re.compile(r"[a-zA-Z0-9_-]{1,64}")


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
        if not _is_example(example):
            raise ConfigError(
                f'Tool {name!r}: an example must be ("question", {{"argument": value}}); '
                f"it is {example!r:.80}."
            )
    return checked


# -- JSON Schemas that come with a tool, if there is no function to derive one from ----------------------


@dataclass(slots=True, eq=False, repr=False)
class JsonSchemaType:
    """Schema from the caller, converted to the subset that model servers accept.

    Its validation checks only the names of arguments.

    Args:
        description: Always empty.
    """

    parameters: dict[str, Any]
    description: str = ""

    def __post_init__(self) -> None:
        self.parameters = mended_schema(self.parameters)

    def validate(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments after checking their names.

        Raises:
            ToolArgumentError: An argument is missing or unknown.
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
        if parameters is not None and not _is_mapping(parameters):
            raise ConfigError(
                f"Tool {self.name!r}: parameters must be a JSON Schema (a dict); it is {parameters!r:.80}."
            )
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
        """The schema and the validator; built on first use, because that imports pydantic."""
        if self._given is not None:
            return self._given
        assert self._signature is not None  # one of the two is always set
        return build_schema(self._signature)

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
            prompts: The language of the description; the tool's own text if None.
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
