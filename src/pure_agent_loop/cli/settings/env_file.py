"""Read variables from a file such as ``.env``, only if the user names it: other such files are untrusted."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from pure_agent_loop.cli.output import counted
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.language import notice

_LINE = re.compile(
    r"""(?:export\s+)?([A-Za-z_]\w*)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^#\s][^#]*?|))\s*(?:\#.*)?"""
)


def read_env_file(name: str, wanted: Collection[str]) -> tuple[dict[str, str], str]:
    """Return the known variables of a file, and a notice about other variables (empty if there are none).

    Args:
        name: The file, with lines such as ``NAME=value``, ``export NAME="value"`` or ``# a comment``.

    Raises:
        ConfigError: The file cannot be read or has an invalid line.
    """
    path = Path(name).expanduser()
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeError) as error:
        raise ConfigError(notice("cli.env_file", name=name, error=error)) from error
    variables: dict[str, str] = {}
    for number, line in enumerate(map(str.strip, lines), start=1):
        pair = _LINE.fullmatch(line)
        if pair is not None:
            variables[pair[1]] = next((value for value in pair.groups()[1:] if value is not None), "")
        elif line and not line.startswith("#"):  # do not show the line, which may contain a secret
            raise ConfigError(notice("cli.env_file_line", name=name, number=number))
    used = {key: value for key, value in variables.items() if key in wanted}
    others = len(variables) - len(used)
    return used, notice("cli.env_ignored", name=name, count=counted(others, "variable")) if others else ""
