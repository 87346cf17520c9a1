"""The command ``init``: write a commented ``pal.toml`` with the detected servers."""

from __future__ import annotations

import argparse
import json
import os
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

from pure_agent_loop.cli.arguments import CommandOption, describe
from pure_agent_loop.cli.exits import DONE
from pure_agent_loop.cli.first_start import server_name, servers_here
from pure_agent_loop.cli.options import SETTINGS
from pure_agent_loop.cli.output import CommandOutput
from pure_agent_loop.cli.settings.apply import KEY_VARIABLES
from pure_agent_loop.cli.settings.files import GROUPS, NAME, user_path
from pure_agent_loop.cli.translated_help import help_text
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.folders import private_folder
from pure_agent_loop.support.language import notice, user_text

_EPILOG = """\
examples:
  pal init
  pal init --project
"""
_WIDTH = 100
_SERVER = """\
[servers.work]
base_url = "https://models.example/v1"
api_key_env = "WORK_API_KEY"
model = "big-model"
"""
_PROFILE = '[profiles.careful]\npermission_mode = "plan"\ntools = "read"'


def add_init(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    describe(
        parser,
        "Write a pal.toml with all settings as comments, and the model servers found here.",
        _EPILOG,
    )
    parser.add_argument(
        "--project", action="store_true", help="write one for this folder instead of your own"
    )
    parser.add_argument("--force", action="store_true", help="overwrite an existing file")


def init(options: argparse.Namespace, output: CommandOutput) -> int:
    """Write the file and return the exit code.

    Raises:
        ConfigError: The file exists or cannot be written.
        ResultLostError: Standard output cannot be written.
    """
    path = Path.cwd() / NAME if options.project else user_path()
    if path.exists() and not options.force:
        raise ConfigError(notice("cli.init_exists", path=path))
    found = {} if options.project else servers_here(output.info)
    servers = {server_name(name): (url, models[0]) for name, (url, models) in found.items()}
    keys = [name for name in KEY_VARIABLES if os.environ.get(name, "").strip()]
    text = _text(servers, keys, project=options.project)
    try:
        if not options.project:
            private_folder(path.parent)
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise ConfigError(
            notice("cli.cannot_be_written", path=path, error=error.strerror or error)
        ) from error
    for name, (url, model) in servers.items():
        output.info(notice("cli.init_found", model=model, url=url, name=name))
    for name in keys:
        output.info(notice("cli.init_is_set", name=name))
    output.result(f"{path}\n")
    output.info(notice("cli.init_next"))
    return DONE


def _text(servers: dict[str, tuple[str, str]], keys: list[str], *, project: bool) -> str:
    lines = [*_comment(user_text("cli.init_project_head" if project else "cli.init_head")), ""]
    if keys:
        lines += [
            *_comment(user_text("cli.keys_set", keys=", ".join(keys))),
            "",
        ]
    default_server = next(iter(servers), "") if not keys else ""
    for group in ("", *GROUPS):
        lines += [f"[{group}]"] if group else []
        for name, option in SETTINGS.items():
            if name.rpartition(".")[0] == group:
                lines += _setting(option, project=project, value=default_server if name == "base_url" else "")
    for name, (url, model) in servers.items():
        lines += [f"[servers.{name}]", f"base_url = {json.dumps(url)}", f"model = {json.dumps(model)}", ""]
    if not project:
        lines += [*_comment(_SERVER.rstrip()), "", *_comment(_PROFILE)]
    return "\n".join(lines).rstrip() + "\n"


def _setting(option: CommandOption, *, project: bool, value: str = "") -> Iterator[str]:
    """Yield the help and the line of a setting; the line is commented out if there is no value."""
    choices = option.in_project if project else option.choices
    summary = help_text(option.help).removesuffix("; repeatable").removesuffix("；可重复")
    summary = f"false: {summary}" if option.is_inverse else summary
    values = f" ({', '.join(map(json.dumps, choices))})" if choices else ""
    yield from _comment("\n".join(textwrap.wrap(f"{summary}{values}", _WIDTH)))
    name = option.key.rpartition(".")[2]
    if value:
        yield f"{name} = {json.dumps(value)}"
    else:
        example = option.converted(option.default) if option.example is None else option.example
        yield f"# {name} = {json.dumps(example)}"
    yield ""


def _comment(text: str) -> Iterable[str]:
    return (f"# {line}".rstrip() for line in text.split("\n"))
