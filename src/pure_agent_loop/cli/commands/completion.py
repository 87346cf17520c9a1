"""The command ``completion``: print a shell completion script, generated from the parser."""

from __future__ import annotations

import argparse

from pure_agent_loop.cli.arguments import describe
from pure_agent_loop.cli.exits import DONE
from pure_agent_loop.cli.output import CommandOutput
from pure_agent_loop.cli.parser import make_parser
from pure_agent_loop.cli.shell_integration.completion import SHELLS
from pure_agent_loop.cli.shell_integration.completion import completion as script
from pure_agent_loop.cli.shell_integration.outline import outline


def add_completion(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    examples = """\
examples:
  pal completion bash > ~/.local/share/bash-completion/completions/pal
  pal completion zsh > ~/.zfunc/_pal          (a folder of your fpath)
  pal completion fish > ~/.config/fish/completions/pal.fish
"""
    describe(parser, "Print a shell completion script.", examples)
    parser.add_argument("shell", choices=SHELLS, help="shell to print the script for")


def completion(options: argparse.Namespace, output: CommandOutput) -> int:
    """Print the script and return the exit code."""
    output.result(script(outline(make_parser()), options.shell))
    return DONE
