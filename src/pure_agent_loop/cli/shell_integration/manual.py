"""The manual page, in troff."""

from __future__ import annotations

from collections.abc import Iterator

from pure_agent_loop._version import __version__
from pure_agent_loop.cli.shell_integration.outline import CommandOutline, OptionOutline


def manual(root: CommandOutline) -> str:
    """Return the manual page of the whole command line."""
    lines = [
        f'.TH PAL 1 "" "pure-agent-loop {__version__}"',
        ".SH NAME",
        f"pal \\- {_safe(root.description)}",
        ".SH SYNOPSIS",
        ".nf\n.B pal\n.B pal \\(dqyour question\\(dq\n.B pal COMMAND [OPTIONS]\n.fi",
        ".SH DESCRIPTION",
        _safe(root.commands["run"].description),
        ".SH OPTIONS",
        *_options(root),
        ".SH COMMANDS",
    ]
    for command in root.all():
        if command.path:
            lines += _section(command)
    return "\n".join(lines) + "\n"


def _section(command: CommandOutline) -> Iterator[str]:
    depth = ".SS" if len(command.path) == 1 else ".PP\n.B"
    yield f'{depth} "pal {_safe(" ".join(command.path))}"'
    if len(command.path) > 1:
        yield ".br"
    yield _safe(command.description or command.about)
    yield from _options(command)
    if command.epilog:
        yield f".PP\n.nf\n{_safe(command.epilog.rstrip())}\n.fi"


def _options(command: CommandOutline) -> Iterator[str]:
    for option in command.options:
        yield ".TP"
        yield f".B {_typed(option)}"
        yield _safe(" ".join(option.about.split())) or "\\&"


def _typed(option: OptionOutline) -> str:
    value = _safe(option.value.replace(",", "|"))
    if not option.words:
        return value
    return f"{_safe(', '.join(option.words))}{f' {value}' if value else ''}"


def _safe(text: str) -> str:
    """Escape text so that it contains no troff requests."""
    escaped = text.replace("%%", "%").replace("\\", "\\e").replace("-", "\\-")
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in escaped.split("\n"))
