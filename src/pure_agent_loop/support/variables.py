"""Environment variables of this package, named ``PAL_...``. Former names are still read, with a notice."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping

LOG = logging.getLogger("pure_agent_loop")
FORMER_NAMES = {
    "PAL_HOME": "PURE_AGENT_LOOP_HOME",
    "PAL_LANG": "PURE_AGENT_LOOP_LANG",
    "PAL_HTTP": "PURE_AGENT_LOOP_HTTP",
    "PAL_AUDIT_KEY": "PURE_AGENT_LOOP_AUDIT_KEY",
}
DATABASE_VARIABLE = "PAL_DATABASE"
KNOWN = (
    *FORMER_NAMES,
    *("PAL_API_KEY", "PAL_BASE_URL", "PAL_MODEL"),
    *(DATABASE_VARIABLE, "PAL_DEBUG", "PAL_NO_BROWSER", "PAL_SERVER_TOKEN"),
)
_NOTICED: set[str] = set()  # former names already logged by this process, each once
_FILES: dict[str, str] = {}  # variables that this process read from a file, with the path


def variable(name: str, environ: Mapping[str, str] | None = None) -> str:
    """Return the value of a variable, else of its former name; empty if neither is set.

    The first use of a former name is logged as a warning.

    Args:
        name: A key of `FORMER_NAMES`.
        environ: The environment; this process's if None.
    """
    env = os.environ if environ is None else environ
    if value := env.get(name):
        return value
    former = FORMER_NAMES[name]
    value = env.get(former, "")
    if value and former not in _NOTICED:
        _NOTICED.add(former)
        LOG.warning("%s is now %s. Rename the variable; the former name still works.", former, name)
    return value


def set_from_file(name: str, value: str, path: str, *, replaces: bool = False) -> None:
    """Set a variable that is read from a file; one that is already set changes only with `replaces`."""
    if replaces:
        os.environ[name] = value
    if os.environ.setdefault(name, value) == value:
        _FILES[name] = path


def origin_of(value: str) -> tuple[str, str]:
    """Return the name of the variable with this value, and the file that set it; both empty if none."""
    name = next((name for name, other in os.environ.items() if other.strip() == value), "")
    return name, _FILES.get(name, "")


def former_names() -> dict[str, str]:
    """Return the former names in use, each with its new name, unless they were reported before.

    A former name does not count as in use if its new name is set, too.
    """
    names = {
        former: name
        for name, former in FORMER_NAMES.items()
        if os.environ.get(former) and not os.environ.get(name) and former not in _NOTICED
    }
    _NOTICED.update(names)
    return names
