"""The tool ``shell``: a command line of the model, run in the best sandbox there is."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.permissions import ALLOWED, JudgeContext, Permission
from pure_agent_loop.tool import Tool
from pure_agent_loop.tool_context import current_call
from pure_agent_loop.toolbox.complaints import WorkspaceError
from pure_agent_loop.toolbox.files.protected import PROTECTED_IN_SANDBOX
from pure_agent_loop.toolbox.sandbox.best import best_sandbox
from pure_agent_loop.toolbox.sandbox.bubblewrap import check_workspace
from pure_agent_loop.toolbox.sandbox.environment import check_variables, clean_environment, still_variables
from pure_agent_loop.toolbox.sandbox.launch import Limits
from pure_agent_loop.toolbox.sandbox.own_tools import joined, missing, shown_for, user_path, variables_for
from pure_agent_loop.toolbox.sandbox.process import Finished, run_process
from pure_agent_loop.toolbox.shell.notes import NOT_FOUND, refused, told, wants_temporary
from pure_agent_loop.toolbox.shell.policy import ShellPolicy, Verdict
from pure_agent_loop.toolbox.shell.reasons import say as why
from pure_agent_loop.toolbox.words import TOOLS, say

MAX_TIMEOUT = 3_600.0
# What the tool may take above the command's own time to end what the command began.
_EXTRA_SECONDS = 10.0
_MOST_TRIED, _FRESH_SECONDS = 50, 60.0  # results of commands that were tried and will be asked for at once


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
        any_folder: The workspace may also be a home, a folder for all, or one with keys in it.

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
        protected: Sequence[str] = PROTECTED_IN_SANDBOX,
        limits: Limits | None = None,
        any_folder: bool = False,
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
        if not any_folder:
            check_workspace(self._root)
        self._policy = policy or ShellPolicy(root=str(self._root))
        self._unsandboxed, self._network = unsandboxed, network
        self._timeout, self._max_output = float(timeout), max_output
        self._limits = limits or Limits()
        self._tried: dict[str, tuple[str, Finished, float]] = {}
        own = user_path()
        self._search_path = joined(list(path), own)
        self._env = {**variables_for(own), **check_variables(env or {})}
        shown = (*readable, *path, *shown_for(own, self._root))
        self.sandbox = best_sandbox(
            self._root, name=sandbox, network=network, readable=shown, protected=protected
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
            untrusted=True,
            words=TOOLS["shell"],
        )

    def judge(
        self, args: Mapping[str, Any], context: JudgeContext
    ) -> Permission | Coroutine[Any, Any, Permission] | None:
        """May this call be made? None leaves it to the mode, which has approved it.

        What nobody has approved is tried in the sandbox, where it can change nothing. If that is enough, it
        is allowed so; if it failed because of that, a person is asked.

        Args:
            args: The arguments of the call.
            context: Who is there to be asked, and the user's rules, which are read as shell rules.
        """
        command = args.get("command")
        if not isinstance(command, str):
            return Permission("deny", say("command_no_text"))
        policy = self._with_rules(context)
        verdict = policy.judge(command)
        if verdict.behavior == "deny":
            return Permission("deny", verdict.reason)
        if self.sandbox.name == "none":
            return self._judge_unheld(verdict, context)
        asked = Permission("ask", verdict.reason)
        if not context.plan:
            if verdict.by_rule:
                return ALLOWED if verdict.behavior == "allow" else asked
            if context.approved:
                return None
            if args.get("changes") is True:
                return replace(asked, message=why("shell_model_says", reason=verdict.reason))
        if not self.sandbox.refusal:  # it cannot be held to changing nothing
            return asked
        return self._try(command, args.get("timeout"), context, several=len(policy.explain(command)) > 1)

    def _judge_unheld(self, verdict: Verdict, context: JudgeContext) -> Permission | None:
        if not (context.attended or self._unsandboxed):
            return Permission("deny", say("no_sandbox"))
        if context.plan:
            return None
        if verdict.behavior == "allow":
            return ALLOWED
        reason = verdict.reason
        return Permission("ask", reason if self._unsandboxed else why("shell_unheld", reason=reason))

    async def _try(
        self, command: str, timeout: object, context: JudgeContext, *, several: bool
    ) -> Permission:
        """Run a command that nobody has approved so that it can change nothing, and see if that is enough."""
        held = Permission("allow", "read-only", read_only=True)
        seconds = self._timeout if timeout is None else timeout
        if "\0" in command or not isinstance(seconds, (int, float)) or not 0 < seconds <= MAX_TIMEOUT:
            return held  # the tool will complain
        left = seconds if context.seconds is None else max(0.001, min(seconds, context.seconds))
        finished = await self._run(command, left, read_only=True)
        said = "" if context.plan else self._refused(finished, several=several)
        if said and not self._wants_temporary(said):
            return Permission("ask", why("shell_tried", said=said))
        if context.call_id:
            while len(self._tried) >= _MOST_TRIED:
                del self._tried[next(iter(self._tried))]
            self._tried[context.call_id] = (command, finished, time.monotonic())
        return held

    def _refused(self, finished: Finished, *, several: bool) -> str:
        return refused(finished, self.sandbox.refusal, several=several, network=self._network)

    def _wants_temporary(self, said: str) -> bool:
        """Whether all it lacks is a ``/tmp`` of its own, which not every sandbox can give."""
        return not self.sandbox.private_home and wants_temporary(said, str(self._root))

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

    async def shell(
        self,
        command: str,
        timeout: float | None = None,
        changes: bool = False,  # noqa: ARG002 - it is for `judge`
    ) -> str:
        """Run a command line with bash and return what it printed, and its exit code.

        Every command starts in the workspace folder: cd does not last until the next call. There is no
        input and no terminal. Processes left in the background are ended when the command ends.

        Args:
            command: The command line, such as "git status && ls docs".
            timeout: Seconds after which it is ended; a default if left out.
            changes: True if it must change files or use the network. A person may be asked then.
        """
        if "\0" in command:
            raise WorkspaceError(say("nul"))
        seconds = self._timeout if timeout is None else timeout
        if not 0 < seconds <= MAX_TIMEOUT:
            raise WorkspaceError(say("seconds_range", limit=MAX_TIMEOUT))
        call = current_call()
        held = call is not None and call.read_only
        finished = self._tried_before(command, call.call_id) if call is not None and held else None
        finished = finished or await self._run(command, seconds, read_only=held)
        still = "" if call is None or not held else "plan" if call.permission_mode == "plan" else "still"
        lacks = self._refused(finished, several=True) if held and self.sandbox.refusal else ""
        return told(
            finished,
            seconds,
            self._why_missing(command, finished),
            still=still,
            temporary=bool(lacks) and self._wants_temporary(lacks),
        )

    def _tried_before(self, command: str, call_id: str) -> Finished | None:
        """How it ended when it was tried, if that was just now: it had no effect, so it is as good as new."""
        tried, finished, when = self._tried.pop(call_id, ("", None, 0.0))
        return finished if tried == command and time.monotonic() - when < _FRESH_SECONDS else None

    def _why_missing(self, command: str, finished: Finished) -> list[str]:
        if finished.exit_code != NOT_FOUND or self.sandbox.name == "none":
            return []
        from pure_agent_loop.toolbox.shell.syntax import parser, read_line

        if parser() is None:
            return []
        names = [simple.words[0].text for simple in read_line(command).commands if simple.words]
        return list(missing(names, self._search_path))

    async def _run(
        self,
        command: str,
        seconds: float,
        *,
        read_only: bool,
        echo: Callable[[bytes], object] | None = None,
    ) -> Finished:
        private = self.sandbox.private_home
        with _home(private) as home:
            temporary = "/tmp" if private else home  # noqa: S108 - one of its own
            env = clean_environment(home, path=self._search_path, extra=self._env, temporary=temporary)
            if read_only:
                env = {**env, **still_variables(temporary)}
            try:
                return await run_process(
                    [_bash(), *_PLAIN_BASH, "-c", command],
                    cwd=self._root,
                    env=env,
                    timeout=seconds,
                    max_output_bytes=self._max_output,
                    sandbox=self.sandbox,
                    limits=self._limits,
                    home="" if private else home,
                    read_only=read_only,
                    echo=echo,
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
