"""A JSON Schema that came with a tool, where there is no function to read one from."""

from __future__ import annotations

from typing import Any

from pure_agent_loop.schema.build import ToolArgumentError
from pure_agent_loop.schema.words import say
from pure_agent_loop.support.typed import dataclass


@dataclass(slots=True)
class GivenSchema:
    """It is sent as it is; only names are checked here.

    Args:
        parameters: The schema.
        description: None comes with it.
    """

    parameters: dict[str, Any]
    description: str = ""

    def validate(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments, if none is missing or unknown.

        Raises:
            ToolArgumentError: One is.
        """
        missing = [name for name in self.parameters.get("required", ()) if name not in arguments]
        known = self.parameters.get("properties", {})
        closed = self.parameters.get("additionalProperties") is False
        problems = [f"{name}: {say('required')}" for name in missing]
        problems += [
            say("unknown_argument", name=repr(name)) for name in arguments if closed and name not in known
        ]
        if problems:
            raise ToolArgumentError("; ".join(problems))
        return arguments
