"""Environment variables of the package: ``PAL_...``. Former names are still read, with a notice."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence

LOG = logging.getLogger("pure_agent_loop")
FORMER_NAMES = {
    "PAL_HOME": "PURE_AGENT_LOOP_HOME",
    "PAL_LANG": "PURE_AGENT_LOOP_LANG",
    "PAL_HTTP": "PURE_AGENT_LOOP_HTTP",
    "PAL_AUDIT_KEY": "PURE_AGENT_LOOP_AUDIT_KEY",
}
_NOTICED: set[str] = set()  # one notice per name and process


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
        LOG.warning("%s", _notice([name]))
    return value


def former_names_notice() -> str:
    """Return one notice about all former names in use; empty if none is, or all were in a notice before.

    A former name is not in use if its new name is set too.
    """
    names = [
        name
        for name, former in FORMER_NAMES.items()
        if os.environ.get(former) and not os.environ.get(name) and former not in _NOTICED
    ]
    return _notice(names) if names else ""


def _notice(names: Sequence[str]) -> str:
    _NOTICED.update(FORMER_NAMES[name] for name in names)
    renamed = ", ".join(f"{FORMER_NAMES[name]} is now {name}" for name in names)
    return f"{renamed}. Rename the variable; the former name still works."
