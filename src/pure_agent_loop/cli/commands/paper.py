"""The commands ``completion`` and ``man``: what shells and ``man`` read, written from the parser."""

from __future__ import annotations

import argparse

from pure_agent_loop.cli.arguments import describe
from pure_agent_loop.cli.exits import DONE
from pure_agent_loop.cli.output import Output
from pure_agent_loop.cli.paper.completion import SHELLS
from pure_agent_loop.cli.paper.completion import completion as script
from pure_agent_loop.cli.paper.manual import manual
from pure_agent_loop.cli.paper.outline import outline
from pure_agent_loop.cli.parser import whole_parser


def add_completion(parser: argparse.ArgumentParser) -> None:
    """Add its arguments."""
    examples = """\
examples:
  pal completion bash > ~/.local/share/bash-completion/completions/pal
  pal completion zsh > ~/.zfunc/_pal          (a folder of your fpath)
  pal completion fish > ~/.config/fish/completions/pal.fish
"""
    describe(parser, "Print what a shell needs to complete these commands.", examples)
    parser.add_argument("shell", choices=SHELLS, help="which shell")


def completion(options: argparse.Namespace, output: Output) -> int:
    """Print the script and return the exit code."""
    output.result(script(outline(whole_parser()), options.shell))
    return DONE


def add_man(parser: argparse.ArgumentParser) -> None:
    """Add its arguments."""
    describe(parser, "Print the manual page.", "examples:\n  pal man | man -l -\n")


def man(options: argparse.Namespace, output: Output) -> int:  # noqa: ARG001 - the shape of all commands
    """Print the page and return the exit code."""
    output.result(manual(outline(whole_parser())))
    return DONE
