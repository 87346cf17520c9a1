"""Load objects, functions and a JSON Schema that the user names on the command line."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Annotated, Any

from pure_agent_loop.agent import Agent
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.parsing import read_json
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.tool import Tool, as_tool


def load_object(option: str, where: str, *, made: bool = True) -> Any:
    """Load the object of MODULE:NAME.

    Raises:
        ConfigError: The object cannot be loaded.
    """
    module, _, name = where.partition(":")
    if not module or not name:
        raise ConfigError(notice("cli.load_form", option=option, where=where))
    if module.endswith(".py") or set(module) & set("/\\"):
        raise ConfigError(notice("cli.load_file", option=option, where=where))
    here = str(Path.cwd())
    if here not in sys.path:
        _refuse_twice(f"{option}={where}", module.partition(".")[0], here)
        sys.path.append(here)  # appended, so that the folder cannot shadow other modules
    try:
        target: Any = importlib.import_module(module)
        for part in name.split("."):
            target = getattr(target, part)
        return target() if made and callable(target) and not isinstance(target, Agent) else target
    except (Exception, SystemExit) as error:
        reason = f"{type(error).__name__}: {safe_str(error)}"
        raise ConfigError(notice("cli.load_failed", option=option, where=where, reason=reason)) from error


def _refuse_twice(target: str, name: str, here: str) -> None:
    """Reject a module that exists both in the folder and as an installed package."""
    try:
        installed = find_spec(name)
    except ValueError:  # raised for `__main__`
        installed = None
    ours = PathFinder.find_spec(name, [here])
    if ours and installed and ours.origin != installed.origin:
        raise ConfigError(notice("cli.load_twice", target=target, name=name, origin=installed.origin))


def functions_of(files: Sequence[str]) -> list[Tool]:
    """Return the public functions of Python files as tools. The files run with this program's permissions.

    Raises:
        ConfigError: A file raises an error or has no functions, or a function cannot become a tool.
    """
    return [as_tool(function) for number, name in enumerate(files) for function in _functions(name, number)]


def _functions(name: str, number: int) -> list[Any]:
    spec = spec_from_file_location(f"functions_{number}", Path(name).expanduser())
    if spec is None or spec.loader is None:
        raise ConfigError(notice("cli.functions_file", name=name))
    module = sys.modules[spec.name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        reason = f"{type(error).__name__}: {safe_str(error)}"
        raise ConfigError(notice("cli.functions_failed", name=name, reason=reason)) from error
    functions = [
        value
        for word, value in vars(module).items()
        if not word.startswith("_")
        and (isinstance(value, Tool) or (inspect.isfunction(value) and value.__module__ == spec.name))
    ]
    if not functions:
        raise ConfigError(notice("cli.functions_none", name=name))
    return functions


def answer_type(schema_option: str) -> Any:
    """Return the type of answers that match a JSON Schema.

    Args:
        schema_option: The schema, or the path of a file with the schema.

    Raises:
        ConfigError: The schema is invalid.
        MissingExtraError: The validator is not installed.
    """
    from pydantic import AfterValidator, WithJsonSchema

    from pure_agent_loop.evaluation import Schema

    try:
        is_text = schema_option.lstrip().startswith("{")
        schema = read_json(schema_option if is_text else Path(schema_option).expanduser().read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError(
            notice("cli.schema_unreadable", schema_option=schema_option, error=error)
        ) from error
    if not isinstance(schema, dict):
        raise ConfigError(notice("cli.schema_object", schema_option=schema_option))
    check = Schema(schema).validator()

    def checked(value: Any) -> Any:
        check(value)
        return value

    return Annotated[Any, AfterValidator(checked), WithJsonSchema(schema)]
