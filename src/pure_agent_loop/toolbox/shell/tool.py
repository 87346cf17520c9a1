"""The tool ``shell``: a command line of the model, run in the best sandbox there is."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.permissions import ALLOWED, JudgeContext, Permission
from pure_agent_loop.tool import Tool
from pure_agent_loop.toolbox.complaints import WorkspaceError
from pure_agent_loop.toolbox.sandbox.best import best_sandbox
from pure_agent_loop.toolbox.sandbox.environment import check_variables, clean_environment
from pure_agent_loop.toolbox.sandbox.launch import Limits
from pure_agent_loop.toolbox.sandbox.process import Finished, run_process
from pure_agent_loop.toolbox.sandbox.protect import PROTECTED
from pure_agent_loop.toolbox.shell.policy import ShellPolicy
from pure_agent_loop.toolbox.words import TOOLS, say

MAX_TIMEOUT = 3_600.0
# What the tool may take above the command's own time to end what the command began.
_EXTRA_SECONDS = 10.0
_SIGNALS = {134: "aborted", 135: "bus error", 136: "arithmetic error", 137: "killed", 139: "memory fault"}
_SIGNALS |= {143: "terminated", 152: "computing time used up", 153: "a file grew too large"}


class Shell:
    """The tool ``shell`` for one folder.

    Args:
        workspace_root: The folder where commands start, and the only one they may change in a sandbox.
        policy: Judges each command line; if None, one that knows harmless commands.
        sandbox: ``auto`` for the best there is, or ``bubblewrap``, ``landlock``, ``none``.
        network: Commands may use the network.
        unsandboxed: Where there is no sandbox, commands may run all the same, as the policy says.
        timeout: Seconds a command may take if the model does not say.
        max_output: Bytes of output the model is shown.
        env: More variables for commands.
        path: Folders that come first in their ``PATH``; in a sandbox they are made readable.
        readable: More folders they may read in a sandbox.
        protected: Names in the workspace they cannot write in bubblewrap.
        limits: What a command may use up.

    Raises:
        ConfigError: A value cannot be used, or the sandbox that was named does not work here.
    """

    def __init__(
        self,
        workspace_root: str | os.PathLike[str] = ".",
        *,
        policy: ShellPolicy | None = None,
        sandbox: str = "auto",
        network: bool = False,
        unsandboxed: bool = False,
        timeout: float = 120.0,
        max_output: int = 30_000,
        env: Mapping[str, str] | None = None,
        path: Sequence[str] = (),
        readable: Sequence[str] = (),
        protected: Sequence[str] = PROTECTED,
        limits: Limits | None = None,
    ) -> None:
        root = Path(workspace_root).expanduser()
        if not root.is_dir():
            raise ConfigError(f"workspace_root={str(workspace_root)!r} is not an existing folder.")
        if not 0 < timeout <= MAX_TIMEOUT:
            raise ConfigError(
                f"timeout={timeout!r} must be more than 0 and at most {MAX_TIMEOUT:.0f} seconds."
            )
        if max_output < 1:
            raise ConfigError(f"max_output={max_output!r} must be a positive number of bytes.")
        self._root = root.resolve()
        self._policy = policy or ShellPolicy(root=str(self._root))
        self._unsandboxed, self._network = unsandboxed, network
        self._timeout, self._max_output = float(timeout), max_output
        self._env, self._path = check_variables(env or {}), tuple(path)
        self._limits = limits or Limits()
        self.sandbox = best_sandbox(
            self._root, name=sandbox, network=network, readable=(*readable, *path), protected=protected
        )

    def describe(self) -> str:
        """One line for people: what holds commands back, and why nothing better does."""
        name, why = self.sandbox.name, self.sandbox.why
        network = "network allowed" if self._network else "no network"
        if name == "bubblewrap":
            return f"shell: bubblewrap, {network}"
        if name == "landlock":
            network = network if self._network else "no TCP"
            return f"shell: Landlock, {network}, protected names are not enforced ({why})"
        asked = "commands run as the policy says" if self._unsandboxed else "every command is asked"
        return f"shell: no sandbox ({why}), {asked}"

    def tool(self) -> Tool:
        """The tool, for ``Agent(tools=...)``."""
        return Tool(
            self.shell,
            name="shell",
            timeout=MAX_TIMEOUT + _EXTRA_SECONDS,
            judge=self.judge,
            words=TOOLS["shell"],
        )

    def judge(self, args: Mapping[str, Any], context: JudgeContext) -> Permission | None:
        """May this call be made? None leaves it to the mode: the sandbox holds the command back.

        Args:
            args: The arguments of the call.
            context: Who is there to be asked, and the user's rules, which are read as shell rules.
        """
        command = args.get("command")
        if not isinstance(command, str):
            return Permission("deny", say("command_no_text"))
        verdict = self._with_rules(context).judge(command)
        if verdict.behavior == "deny":
            return Permission("deny", say("command_denied", reason=verdict.reason, command=command[:120]))
        if self.sandbox.name == "none" and not self._unsandboxed:
            if context.attended:
                return Permission("ask", "there is no sandbox here: the command can do all that you can")
            return Permission("deny", say("no_sandbox"))
        if verdict.behavior == "allow":
            return ALLOWED
        held = self.sandbox.name != "none" and not verdict.by_rule
        return None if held else Permission("ask", verdict.reason)

    def _with_rules(self, context: JudgeContext) -> ShellPolicy:
        policy = self._policy
        if not (context.allow or context.ask or context.deny):
            return policy
        return replace(
            policy,
            allow=(*policy.allow, *context.allow),
            ask=(*policy.ask, *context.ask),
            deny=(*policy.deny, *context.deny),
        )

    async def shell(self, command: str, timeout: float | None = None) -> str:
        """Run a command line with bash and return what it printed, and its exit code.

        Every command starts in the workspace folder: cd does not last until the next call. There is no
        input and no terminal. Processes left in the background are ended when the command ends.

        Args:
            command: The command line, such as "git status && ls docs".
            timeout: Seconds after which it is ended; a default if left out.
        """
        if "\0" in command:
            raise WorkspaceError(say("nul"))
        seconds = self._timeout if timeout is None else timeout
        if not 0 < seconds <= MAX_TIMEOUT:
            raise WorkspaceError(say("seconds_range", limit=MAX_TIMEOUT))
        with _home(self.sandbox.private_home) as home:
            finished = await self._run(command, seconds, home)
        return _told(finished, seconds)

    async def _run(self, command: str, seconds: float, home: str) -> Finished:
        inside = bool(self.sandbox.private_home)
        env = clean_environment(
            home,
            path=self._path,
            extra=self._env,
            temporary="/tmp" if inside else "",  # noqa: S108
        )
        try:
            return await run_process(
                [_bash(), *_PLAIN_BASH, "-c", command],
                cwd=self._root,
                env=env,
                timeout=seconds,
                max_output_bytes=self._max_output,
                sandbox=self.sandbox,
                limits=self._limits,
                home="" if inside else home,
            )
        except OSError as error:
            why = {"error": error.strerror or error, "kind": type(error).__name__}
            raise WorkspaceError(say("not_started", **why)) from error


# Our own user's start files are not for these commands.
_PLAIN_BASH = ("--noprofile", "--norc")


def _bash() -> str:
    found = shutil.which("bash", path="/bin:/usr/bin:/usr/local/bin")
    if found is None:
        raise WorkspaceError(say("no_bash"))
    return found


@contextmanager
def _home(of_the_sandbox: str) -> Iterator[str]:
    """A home folder for one command: the sandbox's own, or a new one that nobody else may enter."""
    if of_the_sandbox:
        yield of_the_sandbox
        return
    folder = tempfile.mkdtemp(prefix="pal-shell-")
    try:
        yield folder
    finally:
        _remove(Path(folder))


def _remove(folder: Path) -> None:
    """Remove a folder with all a command left in it, also folders that it made unreadable."""
    for path, names, _ in os.walk(folder):
        for name in names:
            inner = Path(path, name)
            if not inner.is_symlink():
                inner.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)


def _told(finished: Finished, seconds: float) -> str:
    if finished.problem:
        raise WorkspaceError(say("sandbox_failed", error=finished.problem[:500]))
    output = finished.output
    lines = [output + ("" if output.endswith("\n") else "\n")] if output else [say("no_output")]
    if finished.timed_out:
        lines.append(say("timed_out", seconds=seconds))
    else:
        lines.append(_exit_line(finished.exit_code))
    if finished.killed > 0 and not finished.timed_out:
        lines.append(say("left_processes", count=finished.killed))
    if finished.truncated:
        lines.append(say("output_cut"))
    return "".join(lines)


def _exit_line(code: int | None) -> str:
    meaning = _SIGNALS.get(code or 0, "")
    return say("exit_signal", code=code, meaning=say(meaning)) if meaning else say("exit_code", code=code)
