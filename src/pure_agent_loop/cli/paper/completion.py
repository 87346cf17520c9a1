"""What bash, zsh and fish need to complete ``pal``."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from dataclasses import replace

from pure_agent_loop.cli.paper.outline import Command, Option

_BASH_VALUE = {
    "folder": 'COMPREPLY=($(compgen -d -- "$now"))',
    "file": 'COMPREPLY=($(compgen -f -- "$now"))',
    "any": "COMPREPLY=()",
}
# Out of a folder of fpath it is the completion itself; else it is read once.
_ZSH_END = 'if [[ $funcstack[1] == _pal ]]; then _pal "$@"; else compdef _pal pal pure-agent-loop; fi'
_ZSH_VALUE = {"folder": "_files -/", "file": "_files", "any": "_message value"}


def completion(root: Command, shell: str) -> str:
    """The script for a shell.

    Args:
        shell: One of `SHELLS`.
    """
    run = root.commands["run"]  # it may be left out
    return SHELLS[shell](
        replace(root, options=(*root.options, *(each for each in run.options if each.words)))
    )


def _at(command: Command) -> str:
    return "/".join(("", *command.path))


def _follows(command: Command) -> list[str]:
    return [*command.commands, *(word for each in command.options for word in each.words)]


def _valued(root: Command) -> Iterator[tuple[str, Option]]:
    """Where a value follows: what was typed before it, and the option."""
    for command in root.all():
        for option in command.options:
            if option.kind:
                words = option.words or (() if not option.choices else ("",))
                yield from ((f"{_at(command)} {word}", option) for word in words if word)


def _bash(root: Command) -> str:
    paths = "|".join(_at(each) for each in root.all() if each.path)
    lines = [
        "_pal() {",
        '  local now="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" at="" word',
        '  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do',
        f'    case "$at/$word" in {paths}) at="$at/$word" ;; esac',
        "  done",
        '  case "$at $before" in',
    ]
    for place, option in _valued(root):
        words = " ".join(option.choices)
        how = _BASH_VALUE.get(option.kind, f'COMPREPLY=($(compgen -W {shlex.quote(words)} -- "$now"))')
        lines.append(f"    {shlex.quote(place)}) {how}; return ;;")
    lines += ["  esac", '  case "$at" in']
    for command in root.all():
        words = " ".join(_follows(command))
        lines.append(
            f'    {_at(command) or chr(39) * 2}) COMPREPLY=($(compgen -W {shlex.quote(words)} -- "$now")) ;;'
        )
    lines += ["  esac", "}", "complete -o default -F _pal pal pure-agent-loop"]
    return "\n".join(lines) + "\n"


def _zsh(root: Command) -> str:
    paths = "|".join(_at(each) for each in root.all() if each.path)
    lines = [
        "#compdef pal pure-agent-loop",
        "_pal() {",
        '  local at="" number',
        "  local -a found",
        "  for ((number = 2; number < CURRENT; number++)); do",
        f'    case "$at/${{words[number]}}" in ({paths}) at="$at/${{words[number]}}" ;; esac',
        "  done",
        '  case "$at ${words[CURRENT-1]}" in',
    ]
    for place, option in _valued(root):
        how = _ZSH_VALUE.get(option.kind, f"compadd -- {shlex.join(option.choices)}")
        lines.append(f"    ({shlex.quote(place)}) {how}; return ;;")
    lines += ["  esac", '  case "$at" in']
    for command in root.all():
        about = {name: each.about for name, each in command.commands.items()}
        about |= {word: each.about for each in command.options for word in each.words}
        pairs = " ".join(shlex.quote(f"{name}:{' '.join(text.split())}") for name, text in about.items())
        lines.append(f"    ({shlex.quote(_at(command))}) found=({pairs}) ;;")
    lines += ["  esac", "  _describe -t words pal found || _files", "}", _ZSH_END]
    return "\n".join(lines) + "\n"


def _fish(root: Command) -> str:
    lines = [
        "function __pal_at",
        "  set -l at ''",
        "  for word in (commandline -opc)[2..-1]",
        '    switch "$at/$word"',
        f"      case {' '.join(_at(each) for each in root.all() if each.path)}",
        '        set at "$at/$word"',
        "    end",
        "  end",
        '  test "$at" = "$argv[1]"',
        "end",
    ]
    for command in root.all():
        here = f"complete -c pal -n {shlex.quote(f'__pal_at {_at(command) or chr(34) * 2}')}"
        for name, each in command.commands.items():
            lines.append(f"{here} -f -a {name} -d {_fish_quoted(each.about)}")
        lines += [
            f"{here} {' '.join(_fish_option(option))} -d {_fish_quoted(option.about)}"
            for option in command.options
            if option.words
        ]
    return "\n".join(lines) + "\n"


def _fish_option(option: Option) -> Iterator[str]:
    for word in option.words:
        yield f"-l {word[2:]}" if word.startswith("--") else f"-s {word[1:]}"
    if option.kind == "choices":
        yield f"-x -a {_fish_quoted(' '.join(option.choices))}"
    elif option.kind:
        yield {"folder": "-x -a '(__fish_complete_directories)'", "file": "-r"}.get(option.kind, "-x")


def _fish_quoted(text: str) -> str:
    escaped = " ".join(text.split()).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


SHELLS: dict[str, Callable[[Command], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
