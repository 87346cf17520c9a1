"""Completion scripts for bash, zsh and fish."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from dataclasses import replace

from pure_agent_loop.cli.shell_integration.outline import CommandOutline, OptionOutline

_BASH_VALUE = {
    "folder": 'COMPREPLY=($(compgen -d -- "$now"))',
    "file": 'COMPREPLY=($(compgen -f -- "$now"))',
    "any": "COMPREPLY=()",
}
# In a folder of fpath, the file is the completion function; elsewhere it is sourced.
_ZSH_END = 'if [[ $funcstack[1] == _pal ]]; then _pal "$@"; else compdef _pal pal pure-agent-loop; fi'
_ZSH_VALUE = {"folder": "_files -/", "file": "_files", "any": "_message value"}


def completion(root: CommandOutline, shell: str) -> str:
    """Return the completion script for a shell of `SHELLS`."""
    run = root.commands["run"]  # the default command
    return SHELLS[shell](
        replace(root, options=(*root.options, *(option for option in run.options if option.words)))
    )


def _at(command: CommandOutline) -> str:
    return "/".join(("", *command.path))


def _valued(root: CommandOutline) -> Iterator[tuple[str, OptionOutline]]:
    """Yield each option that takes a value, with the text typed before the value."""
    for command in root.all():
        for option in command.options:
            if option.kind:
                words = option.words or (() if not option.choices else ("",))
                yield from ((f"{_at(command)} {word}", option) for word in words if word)


def _bash(root: CommandOutline) -> str:
    paths = "|".join(_at(command) for command in root.all() if command.path)
    lines = [
        "_pal() {",
        '  local now="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" at="" word',
        '  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do',
        f'    case "$at/$word" in {paths}) at="$at/$word" ;; esac',
        "  done",
        '  case "$at $before" in',
    ]
    for prefix, option in _valued(root):
        words = " ".join(option.choices)
        action = _BASH_VALUE.get(option.kind, f'COMPREPLY=($(compgen -W {shlex.quote(words)} -- "$now"))')
        lines.append(f"    {shlex.quote(prefix)}) {action}; return ;;")
    lines += ["  esac", '  case "$at" in']
    for command in root.all():
        words = " ".join([*command.commands, *(word for option in command.options for word in option.words)])
        lines.append(
            f'    {_at(command) or chr(39) * 2}) COMPREPLY=($(compgen -W {shlex.quote(words)} -- "$now")) ;;'
        )
    lines += ["  esac", "}", "complete -o default -F _pal pal pure-agent-loop"]
    return "\n".join(lines) + "\n"


def _zsh(root: CommandOutline) -> str:
    paths = "|".join(_at(command) for command in root.all() if command.path)
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
    for prefix, option in _valued(root):
        action = _ZSH_VALUE.get(option.kind, f"compadd -- {shlex.join(option.choices)}")
        lines.append(f"    ({shlex.quote(prefix)}) {action}; return ;;")
    lines += ["  esac", '  case "$at" in']
    for command in root.all():
        descriptions = {name: sub.about for name, sub in command.commands.items()}
        descriptions |= {word: option.about for option in command.options for word in option.words}
        pairs = " ".join(
            shlex.quote(f"{name}:{' '.join(text.split())}") for name, text in descriptions.items()
        )
        lines.append(f"    ({shlex.quote(_at(command))}) found=({pairs}) ;;")
    lines += ["  esac", "  _describe -t words pal found || _files", "}", _ZSH_END]
    return "\n".join(lines) + "\n"


def _fish(root: CommandOutline) -> str:
    lines = [
        "function __pal_at",
        "  set -l at ''",
        "  for word in (commandline -opc)[2..-1]",
        '    switch "$at/$word"',
        f"      case {' '.join(_at(command) for command in root.all() if command.path)}",
        '        set at "$at/$word"',
        "    end",
        "  end",
        '  test "$at" = "$argv[1]"',
        "end",
    ]
    for command in root.all():
        condition = f"complete -c pal -n {shlex.quote(f'__pal_at {_at(command) or chr(34) * 2}')}"
        lines += [
            f"{condition} -f -a {name} -d {_fish_quoted(sub.about)}" for name, sub in command.commands.items()
        ]
        lines += [
            f"{condition} {' '.join(_fish_option(option))} -d {_fish_quoted(option.about)}"
            for option in command.options
            if option.words
        ]
    return "\n".join(lines) + "\n"


def _fish_option(option: OptionOutline) -> Iterator[str]:
    for word in option.words:
        yield f"-l {word[2:]}" if word.startswith("--") else f"-s {word[1:]}"
    if option.kind == "choices":
        yield f"-x -a {_fish_quoted(' '.join(option.choices))}"
    elif option.kind:
        yield {"folder": "-x -a '(__fish_complete_directories)'", "file": "-r"}.get(option.kind, "-x")


def _fish_quoted(text: str) -> str:
    escaped = " ".join(text.split()).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


SHELLS: dict[str, Callable[[CommandOutline], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
