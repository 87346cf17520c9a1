"""What a model is told about a tool: its name, what it does, its arguments, worked examples."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.prompts import Prompts, ToolWords
from pure_agent_loop.schema.build import ToolSchema, build_schema, check_signature
from pure_agent_loop.schema.examples import Example, checked_examples
from pure_agent_loop.schema.given import GivenSchema
from pure_agent_loop.schema.tidy import with_texts

NAME_PATTERN = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class Described:
    """A name, a description and a schema; see `Tool` for the arguments and errors."""

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
                "One without a function needs a name and parameters, a JSON Schema."
            )
        self.name = check_name(name if name is not None else _name_of(function))
        if parameters is not None and not _is_mapping(parameters):
            raise ConfigError(
                f"Tool {self.name!r}: parameters must be a JSON Schema (a dict); it is {parameters!r:.80}."
            )
        self.examples = checked_examples(self.name, examples)
        self._words = words or {}
        self._description = description if function is not None else description or ""
        self._given = None if parameters is None else GivenSchema(dict(parameters))
        self._signature = None if function is None or parameters is not None else check_signature(function)

    @cached_property
    def schema(self) -> ToolSchema | GivenSchema:
        """How arguments are described and checked; built when first needed, since that loads pydantic."""
        if self._given is not None:
            return self._given
        assert self._signature is not None  # one of the two is there
        return build_schema(self._signature)

    @property
    def description(self) -> str:
        """What the model is told about it."""
        return self._description if self._description is not None else self.schema.description

    @property
    def said(self) -> str:
        """All that is said about it in any language, for a search."""
        fields = self.parameters.get("properties", {})
        about = (f"{name} {field.get('description', '')}" for name, field in fields.items())
        return " ".join([self.description, *(each.description for each in self._words.values()), *about])

    @property
    def parameters(self) -> dict[str, Any]:
        """JSON Schema of the arguments."""
        return self.schema.parameters

    def to_openai_schema(self, prompts: Prompts | None = None) -> dict[str, Any]:
        """The tool as an entry of a request's ``tools``.

        Args:
            prompts: Whose language it is described in; what the tool itself says if None.
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
        """Its worked examples, in the language of a run."""
        words = prompts.tools.get(self.name, self._words.get(prompts.language))
        return self.examples if words is None or words.examples is None else words.examples


def check_name(name: str) -> str:
    """The name of a tool.

    Raises:
        ConfigError: Servers would refuse it.
    """
    if not _is_name(name):
        raise ConfigError(
            f"Tool name {name!r} cannot be used: servers accept 1 to 64 letters, digits, _ and -. "
            "Give another one with @tool(name='...')."
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
