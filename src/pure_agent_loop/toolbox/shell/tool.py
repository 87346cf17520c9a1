"""The ``shell`` tool: run a command line of the model in the best sandbox available."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.permissions import ALLOWED, JudgeContext, Permission
from pure_agent_loop.prompts.chinese.tools import TOOLS
from pure_agent_loop.schema.outcome import CommandEnd, ToolOutcome
from pure_agent_loop.support.bounded import put_bounded
from pure_agent_loop.support.language import model_text, notice
from pure_agent_loop.support.terminal import one_line
from pure_agent_loop.support.text import shorten
from pure_agent_loop.support.threads import in_thread
from pure_agent_loop.tool import Tool
from pure_agent_loop.tool_context import ToolContext, current_call, current_run, memory_owner
from pure_agent_loop.toolbox.complaints import WorkspaceError
from pure_agent_loop.toolbox.files.protected import PROTECTED_IN_SANDBOX
from pure_agent_loop.toolbox.sandbox.best import best_sandbox
from pure_agent_loop.toolbox.sandbox.launch import Limits
from pure_agent_loop.toolbox.sandbox.process import Finished, run_process
from pure_agent_loop.toolbox.sandbox.programs import (
    join_path,
    missing,
    readable_for,
    user_path,
    variables_for,
)
from pure_agent_loop.toolbox.sandbox.roots import check_workspace
from pure_agent_loop.toolbox.sandbox.user_git import write_user_git
from pure_agent_loop.toolbox.sandbox.variables import check_variables, clean_environment, still_variables
from pure_agent_loop.toolbox.shell.live import LiveOutput
from pure_agent_loop.toolbox.shell.notes import NOT_FOUND, format_result, refused, wants_temporary
from pure_agent_loop.toolbox.shell.policy import ShellPolicy, Verdict

if TYPE_CHECKING:
    from typing_extensions import Self

    from pure_agent_loop.toolbox.shell.background import BackgroundCommand, BackgroundCommands
    from pure_agent_loop.toolbox.shell.unheld import WorkingDirectory


MAX_TIMEOUT = 3_600.0
_TIMEOUT = 120.0  # seconds
_LOOK_SECONDS = 5.0
TAIL_LINES, TAIL_CHARS = 3, 200  # size of the output's end that is shown to people
TIMED_OUT = 124  # exit code that GNU `timeout` uses
# Time that the tool has, after the timeout of a command, to end the command's processes.
_EXTRA_SECONDS = 10.0
_UNSIGNED = "failed to sign the data"  # git's error
_TMP = "/tmp"  # noqa: S108 - compared
_MAX_TRIED, _FRESH_SECONDS = 50, 60.0  # number and age of the trial results that calls may reuse
# Skip this user's shell start files.
_PLAIN_BASH = ("--noprofile", "--norc")


class EndedCommand(NamedTuple):
    """How a command line ended, what it printed, and the result as a model reads it."""

    end: CommandEnd
    output: str
    text: str


class Shell:
    """The ``shell`` tool for one folder.

    When a run ends, it ends the background commands that it started. Inside ``async with shell:``, the
    commands are kept from run to run until the block ends.

    Args:
        workspace_root: Working directory of commands, and the only folder that commands in a sandbox can
            change.
        policy: Decides about each command line; None for a policy that allows harmless commands only.
        sandbox: ``auto`` for the best available, or ``bubblewrap``, ``landlock``, ``none``.
        network: Allow the network.
        unsandboxed: If there is no sandbox, run commands anyway, as the policy decides.
        timeout: Seconds for a call that sets no timeout; None for the run's ``tool_timeout``, at most 120.
        max_output: Bytes of output shown to the model.
        env: Additional environment variables.
        path: Folders at the start of ``PATH``; readable in a sandbox.
        readable: Additional folders that are readable in a sandbox.
        protected: Names in the workspace that commands cannot write in bubblewrap.
        limits: Resource limits of a command.
        any_folder: Allow home, shared and key-holding folders as the workspace.

    Raises:
        ConfigError: A value is invalid, or the named sandbox does not work here.
    """

    def __init__(
        self,
        workspace_root: str | os.PathLike[str] = ".",
        *,
        policy: ShellPolicy | None = None,
        sandbox: str = "auto",
        network: bool = False,
        unsandboxed: bool = False,
        timeout: float | None = None,
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
        if timeout is not None and not 0 < timeout <= MAX_TIMEOUT:
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
        self._timeout, self._max_output = timeout, max_output
        self._limits = limits or Limits()
        self._tried: dict[str, tuple[str, Finished, float]] = {}
        own = user_path()
        self._search_path = join_path(list(path), own)
        self._env = {**variables_for(own), **check_variables(env or {})}
        shown = (*readable, *path, *readable_for(own, self._root))
        self.sandbox = best_sandbox(
            self._root, name=sandbox, network=network, readable=shown, protected=protected
        )

    async def __aenter__(self) -> Self:
        self.background.hold()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.background.is_held = False
        await self.background.end(self.background.running)

    @cached_property
    def background(self) -> BackgroundCommands:
        """The background commands; see `BackgroundCommands`."""
        from pure_agent_loop.toolbox.shell.background import BackgroundCommands

        return BackgroundCommands(self._max_output)

    def describe(self) -> str:
        """Describe the sandbox in one line for people, and why no better one is used."""
        name, why = self.sandbox.name, self.sandbox.why
        if name == "none":
            return notice(
                "library.sandbox_none_unsandboxed" if self._unsandboxed else "library.sandbox_none", why=why
            )
        return notice(
            f"library.sandbox_{name}_network" if self._network else f"library.sandbox_{name}_offline", why=why
        )

    def tool(self) -> Tool:
        """Return the tool, for ``Agent(tools=...)``."""
        return Tool(
            self.run,
            name="shell",
            timeout=MAX_TIMEOUT + _EXTRA_SECONDS,
            judge=self.judge,
            untrusted=True,
            words=TOOLS["shell"],
        )

    def judge(
        self, args: Mapping[str, Any], context: JudgeContext
    ) -> Permission | Coroutine[Any, Any, Permission] | None:
        """Decide about a call; None leaves the decision to the permission mode.

        An unapproved command is tried in the sandbox, where it can change nothing. If the trial succeeds, the
        call is allowed as read-only; if it fails for lack of permission, a person is asked.

        Args:
            args: The arguments of the call.
            context: Whether a person can be asked, and the user's rules, which are parsed as shell rules.
        """
        command = args.get("command")
        if not isinstance(command, str):
            return Permission("deny", model_text("command_no_text"))
        if args.get("background") in ("read", "end"):  # these calls run no command line
            return Permission("allow", "read-only", read_only=True)
        return self._judge_line(command, args, context)

    def _judge_line(
        self, command: str, args: Mapping[str, Any], context: JudgeContext
    ) -> Permission | Coroutine[Any, Any, Permission] | None:
        policy = self._with_rules(context)
        verdict = policy.judge(command, self._unsandboxed_folder())
        if verdict.behavior == "deny":
            return Permission("deny", verdict.reason)
        if stays := args.get("background") is not None:
            verdict = replace(verdict, reason=model_text("background_stays", reason=verdict.reason))
        if self.sandbox.name == "none":
            return self._judge_unsandboxed(verdict, context)
        asked = Permission("ask", verdict.reason)
        if not context.plan:
            if verdict.by_rule:
                return ALLOWED if verdict.behavior == "allow" else asked
            if context.approved:
                return None
            if args.get("changes") is True:
                return replace(asked, message=model_text("shell_model_says", reason=verdict.reason))
        if stays or not self.sandbox.refusal:  # a trial of a background command might never end
            return asked
        return self._try(command, args.get("timeout"), context, several=len(policy.explain(command)) > 1)

    def _unsandboxed_folder(self) -> WorkingDirectory | None:
        if self.sandbox.name != "none":
            return None
        from pure_agent_loop.toolbox.shell.unheld import WorkingDirectory

        return WorkingDirectory(self._root, self._search_path)

    def _judge_unsandboxed(self, verdict: Verdict, context: JudgeContext) -> Permission | None:
        if not (context.attended or self._unsandboxed):
            return Permission("deny", model_text("no_sandbox"))
        if context.plan:
            return None
        if verdict.behavior == "allow":
            return ALLOWED
        reason = verdict.reason
        return Permission("ask", reason if self._unsandboxed else model_text("shell_unheld", reason=reason))

    async def _try(
        self, command: str, timeout: object, context: JudgeContext, *, several: bool
    ) -> Permission:
        """Run an unapproved command read-only, and decide by the result."""
        read_only = Permission("allow", "read-only", read_only=True)
        seconds = self._default_timeout(context) if timeout is None else timeout
        if "\0" in command or not isinstance(seconds, (int, float)) or not 0 < seconds <= MAX_TIMEOUT:
            return read_only  # the tool itself will raise an error
        left = seconds if context.seconds is None else max(0.001, min(seconds, context.seconds))
        finished = await self._run_shown(command, left, context.on_piece, read_only=True)
        reason = "" if context.plan else self._refused(finished, several=several)
        if reason and not self._wants_temporary(reason):
            return Permission("ask", model_text("shell_tried", said=reason, seconds=finished.seconds))
        if context.call_id:
            put_bounded(self._tried, context.call_id, (command, finished, time.monotonic()), _MAX_TRIED)
        return read_only

    def _refused(self, finished: Finished, *, several: bool) -> str:
        return refused(finished, self.sandbox.refusal, several=several, network=self._network)

    def _wants_temporary(self, reason: str) -> bool:
        """Return True if the command failed only because this sandbox has no private ``/tmp``."""
        return self.sandbox.temporary != _TMP and wants_temporary(reason, str(self._root))

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
        """Run a command line, and return the result as a model reads it. Same arguments as the tool."""
        return (await self.execute(command, timeout)).text

    async def run(
        self,
        command: str,
        timeout: float | None = None,
        changes: bool = False,  # noqa: ARG002 - read by `judge`
        background: Literal["start", "read", "end"] | None = None,
    ) -> ToolOutcome:
        """Run a command line with bash and return what it printed, and its exit code.

        Every command starts in the workspace folder: cd does not last until the next call. There is no
        input and no terminal. Processes left in the background are ended when the command ends.
        A sandbox keeps only what is written in the workspace: /tmp and the home are this command's own and
        are emptied afterwards. It refuses writes elsewhere, to git's hooks and settings, and mostly network.

        Args:
            command: The command line, such as "git status && ls docs".
            timeout: Seconds after which it is ended; a default if left out.
            changes: True if it must change files or use the network. A person may be asked then.
            background: "start" lets it run on, as a server or watcher must. Later, with the same command,
                "read" returns what it printed since, and "end" ends it.
        """
        if background is not None:
            return await self._in_background(command, timeout, background)
        ended = await self.execute(command, timeout)
        return ToolOutcome(ended.text, command=ended.end)

    @property
    def has_network(self) -> bool:
        """Return True if commands may use the network."""
        return self._network

    def background_facts(self) -> str:
        """Describe the background commands of the current run's session, on one line."""
        history: list[Any] = []
        with suppress(ConfigError):  # not in a run
            history = current_run().messages
        return self.background.facts(_owner(is_held=self.background.is_held), history)

    async def look(self, command: str) -> str | None:
        """Run a command read-only, and return its output.

        Returns: None if the command failed or took too long, or if the sandbox has no read-only runs.
        """
        if not self.sandbox.refusal:
            return None
        finished = await self._run(command, _LOOK_SECONDS, read_only=True)
        return finished.output if finished.exit_code == 0 else None

    async def execute(self, command: str, timeout: float | None = None) -> EndedCommand:
        """Run a command line, and return how it ended and what it printed. Same arguments as the tool."""
        call = current_call()
        seconds = self._checked(command, self._default_timeout(call) if timeout is None else timeout)
        read_only = call is not None and call.read_only
        finished = self._tried_before(command, call.call_id) if call is not None and read_only else None
        if finished is None:
            show = None if call is None else call.on_piece
            finished = await self._run_shown(command, seconds, show, read_only=read_only)
        is_plan = call is not None and call.permission_mode == "plan"
        return self._ended(
            command, finished, seconds, "" if not read_only else "plan" if is_plan else "still"
        )

    def _ended(self, command: str, finished: Finished, seconds: float, still: str = "") -> EndedCommand:
        lacks = self._refused(finished, several=True) if still and self.sandbox.refusal else ""
        text = format_result(
            finished,
            seconds,
            self._why_missing(command, finished),
            still=still,
            beyond=self._beyond(command, finished),
            temporary=bool(lacks) and self._wants_temporary(lacks),
        )
        return EndedCommand(_command_end(finished, read_only=bool(still)), finished.output, text)

    async def _in_background(self, command: str, timeout: float | None, what: str) -> ToolOutcome:
        owner = _owner(is_held=self.background.is_held)
        if what == "start":
            at = await self._start(command, timeout, owner)
            is_apart = self.sandbox.name != "none" and not self._network
            notes = ["background_started", *(["background_offline"] if is_apart else [])]
        else:
            known = self.background.find(command, owner)
            if known is None:
                shown = ", ".join(
                    repr(each.command) for each in self.background.running if each.owner == owner
                )
                raise WorkspaceError(model_text("background_none", running=shown or "-"))
            if timeout is not None:
                raise WorkspaceError(model_text("background_timeout", value=what))
            at, notes = known, ["background_running"]
            if what == "end":
                await self.background.end([at])
        output, cut = at.take()
        if at.finished is None:
            cut_note = ["output_cut"] if cut else []
            lines = [output.removesuffix("\n") or model_text("no_output"), *map(model_text, cut_note + notes)]
            return ToolOutcome("\n".join(lines))
        finished = replace(at.finished, output=output, truncated=cut)
        ended = self._ended(command, finished, timeout or 0.0)
        return ToolOutcome(ended.text, command=None if what == "end" else ended.end)

    async def _start(self, command: str, timeout: float | None, owner: object) -> BackgroundCommand:
        seconds = self._checked(command, MAX_TIMEOUT if timeout is None else timeout)
        call = current_call()
        if not self.background.is_held:
            if call is None or call.at_end is None:
                raise WorkspaceError(model_text("background_unowned"))
            call.at_end(partial(self._end_of_run, owner))
        still = call is not None and call.read_only

        def execute(end: asyncio.Event, echo: Callable[[bytes], object]) -> Awaitable[Finished]:
            left = float("inf") if timeout is None else seconds
            return self._run_here(command, left, read_only=still, echo=echo, end=end)

        return await self.background.start(command, owner, execute)

    async def _end_of_run(self, owner: object) -> str:
        """End the commands that a run has started; return a notice about it, or ""."""
        running = [each for each in self.background.running if each.owner == owner]
        await self.background.end(running)
        names = ", ".join(one_line(each.command) for each in running)
        return notice("library.background_ended", commands=names) if running else ""

    @staticmethod
    def _checked(command: str, timeout: float) -> float:
        if "\0" in command:
            raise WorkspaceError(model_text("nul"))
        if not 0 < timeout <= MAX_TIMEOUT:
            raise WorkspaceError(model_text("seconds_range", limit=MAX_TIMEOUT))
        return timeout

    def _default_timeout(self, context: ToolContext | JudgeContext | None) -> float:
        limit = None if context is None else context.tool_timeout
        return self._timeout or min(_TIMEOUT, limit or _TIMEOUT)

    def _tried_before(self, command: str, call_id: str) -> Finished | None:
        """Return the result of a recent read-only trial of this call, which need not be repeated."""
        tried, finished, when = self._tried.pop(call_id, ("", None, 0.0))
        return finished if tried == command and time.monotonic() - when < _FRESH_SECONDS else None

    def _beyond(self, command: str, finished: Finished) -> str:
        """Explain why git does not work here, if that may be why a command failed."""
        if finished.exit_code and _UNSIGNED in finished.output:
            return model_text("git_unsigned")
        words = dict(self.sandbox.beyond)
        return (
            model_text(words.pop("key"), **words) if words and finished.exit_code and "git" in command else ""
        )

    def _why_missing(self, command: str, finished: Finished) -> list[str]:
        if finished.exit_code != NOT_FOUND or self.sandbox.name == "none":
            return []
        from pure_agent_loop.toolbox.shell.syntax import parser, read_line

        if parser() is None:
            return []
        names = [simple.words[0].text for simple in read_line(command).commands if simple.words]
        return list(missing(names, self._search_path))

    async def _run_shown(
        self,
        command: str,
        seconds: float,
        show: Callable[[str], Awaitable[None]] | None,
        *,
        read_only: bool,
    ) -> Finished:
        """Run a command, and show its output while it runs."""
        if show is None:
            return await self._run(command, seconds, read_only=read_only)
        live = LiveOutput(show)
        try:
            return await self._run(command, seconds, read_only=read_only, echo=live.add)
        finally:
            await live.close()

    async def _run(
        self,
        command: str,
        seconds: float,
        *,
        read_only: bool,
        echo: Callable[[bytes], object] | None = None,
    ) -> Finished:
        return await self._run_here(command, seconds, read_only=read_only, echo=echo)

    async def _run_here(
        self,
        command: str,
        seconds: float,
        *,
        read_only: bool,
        echo: Callable[[bytes], object] | None,
        end: asyncio.Event | None = None,
    ) -> Finished:
        """Run a command in the sandbox of this process; see `run_process`."""
        with _home() as folder:
            confined = self.sandbox.name != "none"
            await in_thread(lambda: write_user_git(Path(folder), self._root, any_owner=confined))
            home = self.sandbox.private_home or folder
            temporary = self.sandbox.temporary or home
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
                    home=folder,
                    read_only=read_only,
                    echo=echo,
                    end=end,
                )
            except OSError as error:
                why = {"error": error.strerror or error, "kind": type(error).__name__}
                raise WorkspaceError(model_text("not_started", **why)) from error


def _owner(*, is_held: bool) -> object:
    """Return the owner of a new background command: the session id or, without a session, the run.

    If commands are held, and there is no session, the owner is "".
    """
    owner = memory_owner()
    return "" if is_held and not isinstance(owner, str) else owner


def _command_end(finished: Finished, *, read_only: bool) -> CommandEnd:
    code = TIMED_OUT if finished.timed_out or finished.exit_code is None else finished.exit_code
    lines = finished.output.rstrip().splitlines()
    tail = "\n".join(shorten(line, TAIL_CHARS) for line in lines[-TAIL_LINES:])
    return CommandEnd(
        exit_code=code, seconds=finished.seconds, lines=len(lines), tail=tail, read_only=read_only
    )


def _bash() -> str:
    path = shutil.which("bash", path="/bin:/usr/bin:/usr/local/bin")
    if path is None:
        raise WorkspaceError(model_text("no_bash"))
    return path


@contextmanager
def _home() -> Iterator[str]:
    """Yield a new private folder for one command."""
    folder = tempfile.mkdtemp(prefix="pal-shell-")
    try:
        yield folder
    finally:
        _remove(Path(folder))


def _remove(folder: Path) -> None:
    """Remove a folder and its content, including folders that a command made unreadable."""
    for path, names, _ in os.walk(folder):
        for name in names:
            inner = Path(path, name)
            if not inner.is_symlink():
                inner.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)
