"""Format the result of a command for the model, and detect failures caused by the read-only sandbox."""

from __future__ import annotations

import re

from pure_agent_loop.support.language import model_text
from pure_agent_loop.toolbox.complaints import WorkspaceError
from pure_agent_loop.toolbox.sandbox.git_state import SET_ASIDE
from pure_agent_loop.toolbox.sandbox.keeper import ASIDE
from pure_agent_loop.toolbox.sandbox.process import Finished
from pure_agent_loop.toolbox.sandbox.protect import NotRestored

_SIGNALS = {
    134: "aborted",
    135: "bus error",
    136: "arithmetic error",
    137: "killed",
    139: "memory fault",
    143: "terminated",
    152: "computing time used up",
    153: "a file grew too large",
}
NOT_FOUND = 127
_MAX_REASON = 200
_NO_NETWORK = (
    "Network is unreachable|Connection refused|Temporary failure in name resolution|Could not resolve host"
    "|Name or service not known|ENETUNREACH|ECONNREFUSED|EAI_AGAIN"
)


def refused(finished: Finished, refusal: str, *, several: bool, network: bool) -> str:
    """Return the output line that shows that a read-only command lacked permission; "" if none does.

    The exit code must report a failure, and the output must contain the kernel's error for a refused write.
    A line of several commands has the exit code of the last one; for such a line, it is enough that the
    output ends with the error.

    Args:
        refusal: A pattern for the kernel's error; see `Sandbox`.
        network: True if approval would allow the network, so that a failed connection counts too.
    """
    if finished.timed_out or (finished.exit_code == 0 and not several):
        return ""
    words = f"(?:{refusal}{'|' + _NO_NETWORK if network else ''})"
    pattern = words if finished.exit_code else rf"{words}\W*$"
    match = re.search(rf"^.*{pattern}.*$", finished.output, re.I | re.M)
    return match[0].strip()[-_MAX_REASON:] if match else ""


def wants_temporary(refusal: str, root: str) -> bool:
    """Return True if a refused write was below ``/tmp``, and needs no approval because ``$TMPDIR`` works.

    Args:
        refusal: The result of `refused`.
        root: The workspace, which may be in ``/tmp`` itself.
    """
    return "/tmp/" in refusal.replace(root, "")  # noqa: S108 - a search, not a use


def format_result(
    finished: Finished,
    seconds: float,
    why_missing: list[str],
    *,
    still: str = "",
    temporary: bool = False,
    beyond: str = "",
) -> str:
    """Format a result for the model.

    Args:
        why_missing: Reasons why programs were not found.
        beyond: A note about what is out of reach around the workspace.
        temporary: True if a write below ``/tmp`` was refused, and ``$TMPDIR`` is available.
        still: For a read-only run: ``still`` without approval, ``plan`` in plan mode; else empty.

    Raises:
        WorkspaceError: The command could not be started.
    """
    if finished.problem:
        raise WorkspaceError(model_text("sandbox_failed", error=finished.problem[:500]))
    code = finished.exit_code
    meaning = _SIGNALS.get(code or 0, "")
    output = finished.output.removesuffix("\n") if finished.output else model_text("no_output")
    lines = [output]
    if finished.timed_out:
        lines.append(model_text("timed_out", seconds=seconds))
    elif finished.over_memory:
        lines.append(model_text("over_memory", limit=finished.over_memory / 1024**3))
    elif meaning:
        lines.append(model_text("exit_signal", code=code, meaning=model_text(meaning)))
    else:
        lines.append(model_text("exit_code", code=code))
    if finished.killed > 0 and not finished.timed_out:
        lines.append(model_text("left_processes", count=finished.killed))
    if finished.truncated:
        lines.append(model_text("output_cut"))
    lines += [model_text("not_shown", why=reason) for reason in why_missing]
    lines += [beyond] if beyond else []
    names: dict[str, list[str]] = {"restored": [], "set_aside": [], "moved_aside": [], "not_restored": []}
    for name in finished.restored:
        suffixes = {SET_ASIDE: "set_aside", ASIDE: "moved_aside"}
        key = next((key for suffix, key in suffixes.items() if name.endswith(suffix)), "restored")
        names["not_restored" if isinstance(name, NotRestored) else key].append(name)
    lines += [model_text(key, names=", ".join(some)) for key, some in names.items() if some]
    if temporary:
        lines.append(model_text("use_tmpdir"))
    elif still and code != 0:
        lines.append(model_text("ran_in_plan" if still == "plan" else "ran_read_only"))
    return "\n".join(lines)
