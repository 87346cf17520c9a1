"""Variables out of a file, such as ``.env``. Nothing reads one unasked: it may be a stranger's."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.text import counted

_LINE = re.compile(
    r"""(?:export\s+)?([A-Za-z_]\w*)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^#\s][^#]*?|))\s*(?:\#.*)?"""
)


def read_env_file(name: str, wanted: Collection[str]) -> tuple[dict[str, str], str]:
    """The variables of a file that we know, and half a sentence about the others; empty if there are none.

    Args:
        name: The file: lines such as ``NAME=value``, ``export NAME="value"`` or ``# a comment``.
        wanted: The variables that are of use.

    Raises:
        ConfigError: It cannot be read, or has another kind of line.
    """
    path = Path(name).expanduser()
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"--env-file={name} cannot be read: {error}") from error
    found: dict[str, str] = {}
    for number, line in enumerate(map(str.strip, lines), start=1):
        pair = _LINE.fullmatch(line)
        if pair is not None:
            found[pair[1]] = next((each for each in pair.groups()[1:] if each is not None), "")
        elif line and not line.startswith("#"):  # the line itself may be a secret
            raise ConfigError(f"--env-file={name}: line {number} is not like NAME=value.")
    used = {key: value for key, value in found.items() if key in wanted}
    others = len(found) - len(used)
    return used, f"of {name} not for pal: {counted(others, 'variable')}" if others else ""
