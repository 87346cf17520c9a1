"""The public contract, as plain JSON: ``python -m tests.compatibility.contract``.

Names with their parameters, events with their fields, options, settings, variables, exit codes, prompts.
"""

from __future__ import annotations

import argparse
import dataclasses
import enum
import importlib
import inspect
import json
import pkgutil
import re
from pathlib import Path
from typing import Any

import pure_agent_loop
from pure_agent_loop import Event, EventType
from pure_agent_loop.cli import exits
from pure_agent_loop.cli.options import SETTINGS
from pure_agent_loop.cli.parser import COMMANDS, make_parser
from pure_agent_loop.prompts import Prompts
from pure_agent_loop.stop_reasons import STOP_REASONS

SOURCE = Path(pure_agent_loop.__file__).parent
VARIABLE = re.compile(r"\b(?:PAL|PURE_AGENT_LOOP)_[A-Z][A-Z_]*[A-Z]\b")


def packages() -> list[str]:
    """The packages, the root first."""
    inner = pkgutil.walk_packages([str(SOURCE)], "pure_agent_loop.")
    return ["pure_agent_loop", *(package.name for package in inner if package.ispkg)]


def described(value: Any) -> Any:
    """What a caller uses of a value: parameters of a function, parameters and members of a class."""
    if inspect.isclass(value):
        members = sorted(name for name in dir(value) if not name.startswith("_"))
        return {"parameters": parameters(value), "members": members}
    return {"parameters": parameters(value)} if callable(value) else type(value).__name__


def parameters(value: Any) -> list[str]:
    """The parameters of a callable, each with its kind; a star where it has no default."""
    if inspect.isclass(value) and issubclass(value, enum.Enum):
        return []  # versions of Python differ
    try:
        listed = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return []
    return [
        f"{parameter.name} {parameter.kind.name}{'' if parameter.default is not parameter.empty else ' *'}"
        for parameter in listed
    ]


def exported() -> dict[str, Any]:
    """What each package lists in `__all__`."""
    modules = {name: importlib.import_module(name) for name in packages()}
    return {
        f"{package}.{name}": described(getattr(module, name))
        for package, module in modules.items()
        for name in getattr(module, "__all__", ())
    }


def options_of(parser: argparse.ArgumentParser, command: str) -> dict[str, Any]:
    """The options of a command and of the actions below it, with their choices and the kind of value."""
    listed: dict[str, Any] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                listed.update(options_of(inner, f"{command} {name}"))
            continue
        choices = sorted(map(str, action.choices)) if action.choices else []
        for name in action.option_strings or [action.dest.upper()]:
            listed[f"{command} {name}"] = {
                "action": type(action).__name__.lstrip("_"),
                "values": str(action.nargs),
                "choices": choices,
            }
    return listed


def variables() -> list[str]:
    """The environment variables that the source names."""
    texts = (path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))
    return sorted({name for text in texts for name in VARIABLE.findall(text)})


def contract() -> dict[str, Any]:
    """All of it."""
    commands: dict[str, Any] = {}
    for name in COMMANDS:
        commands.update(options_of(make_parser({name}).inner, name))
    return {
        "names": exported(),
        "events": {kind.value: sorted(Event.KEYS[kind]) for kind in EventType},
        "stop_reasons": {name: reason.kind for name, reason in STOP_REASONS.items()},
        "exit_codes": {
            name: code for name, code in vars(exits).items() if name.isupper() and isinstance(code, int)
        },
        "options": commands,
        "settings": {
            name: next(flag for flag in option.flags if flag.startswith("--"))
            for name, option in SETTINGS.items()
        },
        "variables": variables(),
        "prompts": sorted(field.name for field in dataclasses.fields(Prompts)),
        "output_schema": json.loads((SOURCE / "cli" / "output.schema.json").read_text(encoding="utf-8")),
    }


if __name__ == "__main__":
    print(json.dumps(contract(), indent=1, sort_keys=True))
