"""What is the user's own and named on the command line: objects, functions for the model, a JSON Schema."""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Annotated, Any

from pure_agent_loop.agent import Agent
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.tool import Tool, as_tool


def load_object(option: str, where: str) -> Any:
    """What MODULE:NAME names; what a function of that name makes.

    Raises:
        ConfigError: It cannot be loaded.
    """
    module, _, name = where.partition(":")
    if not module or not name:
        raise ConfigError(f"{option}={where} must be MODULE:NAME, such as my_agents:agents.")
    if module.endswith(".py") or set(module) & set("/\\"):
        raise ConfigError(
            f"{option}={where} names a file. Name a module, as in an import: my_agents:agents is 'agents' "
            "of ./my_agents.py."
        )
    here = str(Path.cwd())
    if here not in sys.path:
        _refuse_twice(f"{option}={where}", module.partition(".")[0], here)
        sys.path.append(here)  # last: what the folder holds hides nothing that this program loads
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        return found() if callable(found) and not isinstance(found, Agent) else found
    except (Exception, SystemExit) as error:
        words = f"{type(error).__name__}: {safe_str(error)}"
        raise ConfigError(f"{option}={where} cannot be loaded. {words}") from error


def _refuse_twice(given: str, name: str, here: str) -> None:
    """A stranger's folder must not stand in for what is installed, nor the other way round."""
    try:
        installed = find_spec(name)
    except ValueError:  # a program's own main module
        installed = None
    ours = PathFinder.find_spec(name, [here])
    if ours and installed and ours.origin != installed.origin:
        raise ConfigError(
            f"{given}: {name} is in this folder, and also installed ({installed.origin}). Rename the one in "
            "the folder, or start this in another folder."
        )


def functions_of(files: Sequence[str]) -> list[Tool]:
    """The functions that Python files define, as tools; what begins with an underscore is not for the model.

    The files are run, with the rights of this program.

    Raises:
        ConfigError: One cannot be run, has no functions, or one cannot be described to a model.
    """
    return [as_tool(each) for number, name in enumerate(files) for each in _functions(name, number)]


def _functions(name: str, number: int) -> list[Any]:
    spec = spec_from_file_location(f"functions_{number}", Path(name).expanduser())
    if spec is None or spec.loader is None:
        raise ConfigError(f"--functions={name} must be a Python file.")
    module = sys.modules[spec.name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        words = f"{type(error).__name__}: {safe_str(error)}"
        raise ConfigError(f"--functions={name} cannot be loaded. {words}") from error
    found = [
        each
        for word, each in vars(module).items()
        if not word.startswith("_")
        and (isinstance(each, Tool) or (inspect.isfunction(each) and each.__module__ == spec.name))
    ]
    if not found:
        raise ConfigError(f"--functions={name} defines no function.")
    return found


def answer_type(given: str) -> Any:
    """The type of answers that fit a JSON Schema.

    Args:
        given: The schema, or the name of its file.

    Raises:
        ConfigError: It is none.
        MissingExtraError: There is nothing to check answers with.
    """
    from pydantic import AfterValidator, WithJsonSchema

    from pure_agent_loop.evaluation.evaluators import Schema

    try:
        is_text = given.lstrip().startswith("{")
        schema = json.loads(given if is_text else Path(given).expanduser().read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"--schema={given:.80} is neither a JSON Schema nor a file of one: {error}"
        ) from error
    if not isinstance(schema, dict):
        raise ConfigError(f"--schema={given:.80} is no JSON object.")
    check = Schema(schema).validator()

    def checked(value: Any) -> Any:
        check(value)
        return value

    return Annotated[Any, AfterValidator(checked), WithJsonSchema(schema)]
