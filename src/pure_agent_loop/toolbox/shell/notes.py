"""What a command did, in words for the model, and whether it failed only because it could change nothing."""

from __future__ import annotations

import re

from pure_agent_loop.toolbox.complaints import WorkspaceError
from pure_agent_loop.toolbox.sandbox.process import Finished
from pure_agent_loop.toolbox.words import say

_SIGNALS = {134: "aborted", 135: "bus error", 136: "arithmetic error", 137: "killed", 139: "memory fault"}
_SIGNALS |= {143: "terminated", 152: "computing time used up", 153: "a file grew too large"}
NOT_FOUND = 127
_MOST_REASON = 200
_NO_NETWORK = (
    "Network is unreachable|Connection refused|Temporary failure in name resolution|Could not resolve host"
    "|Name or service not known|ENETUNREACH|ECONNREFUSED|EAI_AGAIN"
)


def refused(finished: Finished, refusal: str, *, several: bool, network: bool) -> str:
    """What a command that could change nothing failed at, in its own words; "" if it did not fail at that.

    It did if its status says that it failed and its output holds what the kernel calls a refused write. The
    status of a line of several commands is that of the last one; there, output that ends so is enough.

    Args:
        finished: How it ended.
        refusal: What the kernel calls it; see `Sandbox`.
        several: The line holds several commands.
        network: Once approved it could use the network, so that a refused connection counts too.
    """
    if finished.timed_out or (finished.exit_code == 0 and not several):
        return ""
    words = f"(?:{refusal}{'|' + _NO_NETWORK if network else ''})"
    pattern = words if finished.exit_code else rf"{words}\W*$"
    found = re.search(rf"^.*{pattern}.*$", finished.output, re.I | re.M)
    return found[0].strip()[-_MOST_REASON:] if found else ""


def wants_temporary(refusal: str, root: str) -> bool:
    """Whether a refused write was one below ``/tmp``, for which no person is needed: there is ``$TMPDIR``.

    Args:
        refusal: What `refused` has found.
        root: The workspace, which may lie there itself.
    """
    return "/tmp/" in refusal.replace(root, "")  # noqa: S108 - it is looked for, not used


def told(
    finished: Finished,
    seconds: float,
    why_missing: list[str],
    *,
    still: str = "",
    temporary: bool = False,
) -> str:
    """What the model reads.

    Args:
        finished: How the command ended.
        seconds: How long it was allowed to take.
        why_missing: Why programs were not found.
        temporary: It was refused to write below ``/tmp``, and has a ``$TMPDIR``.
        still: It could change nothing: ``still`` because nobody approved more, ``plan`` because of the mode.

    Raises:
        WorkspaceError: It could not be started.
    """
    if finished.problem:
        raise WorkspaceError(say("sandbox_failed", error=finished.problem[:500]))
    code = finished.exit_code
    meaning = _SIGNALS.get(code or 0, "")
    output = finished.output.removesuffix("\n") if finished.output else say("no_output")
    lines = [output]
    if finished.timed_out:
        lines.append(say("timed_out", seconds=seconds))
    elif meaning:
        lines.append(say("exit_signal", code=code, meaning=say(meaning)))
    else:
        lines.append(say("exit_code", code=code))
    if finished.killed > 0 and not finished.timed_out:
        lines.append(say("left_processes", count=finished.killed))
    if finished.truncated:
        lines.append(say("output_cut"))
    lines += [say("not_shown", why=each) for each in why_missing]
    if finished.restored:
        lines.append(say("restored", names=", ".join(finished.restored)))
    if temporary:
        lines.append(say("use_tmpdir"))
    elif still and code != 0:
        lines.append(say("ran_in_plan" if still == "plan" else "ran_read_only"))
    return "\n".join(lines)
