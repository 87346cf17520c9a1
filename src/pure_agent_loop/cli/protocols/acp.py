"""The command ``acp``: serve an agent to an editor over the Agent Client Protocol."""

from __future__ import annotations

import argparse
import asyncio
import copy
import os
import sys
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from pure_agent_loop.acp import (
    THROUGH_EDITOR,
    Asked,
    Editor,
    EditorFiles,
    EditorShell,
    Known,
    NoModelError,
    Option,
    Planned,
    serve,
)
from pure_agent_loop.assistant import Guidance
from pure_agent_loop.cli.arguments import add_options, describe
from pure_agent_loop.cli.chat.custom import CustomCommands
from pure_agent_loop.cli.chat.questions import IN_DIFF, planned_change
from pure_agent_loop.cli.chat.rules import keep_rules, kind_of
from pure_agent_loop.cli.chat.slash import Slash
from pure_agent_loop.cli.chat.talk import ChatConfig, ChatSession
from pure_agent_loop.cli.chat.words import Groups
from pure_agent_loop.cli.choose import choose, plan_of
from pure_agent_loop.cli.exits import DONE
from pure_agent_loop.cli.options import (
    CommandOptions,
    LimitOptions,
    ModelOptions,
    PermissionOptions,
    ToolOptions,
)
from pure_agent_loop.cli.output import CommandOutput, error_text, redirect_to_null
from pure_agent_loop.cli.parser import add_help_all
from pure_agent_loop.cli.protocols.editor_questions import (
    DeferredQuestions,
    EditorQuestions,
    MessageCollector,
)
from pure_agent_loop.cli.protocols.editor_servers import editors_servers, has_mcp, with_editors_servers
from pure_agent_loop.cli.questions import TerminalQuestions, question_text
from pure_agent_loop.cli.session_list import title_of
from pure_agent_loop.cli.settings.apply import configure
from pure_agent_loop.cli.settings.servers import with_servers
from pure_agent_loop.cli.toolset import check_folder, check_given_rules, make_toolset, settled
from pure_agent_loop.cli.trust import may_guide
from pure_agent_loop.cli.which_session import SessionTarget, folder_of, in_folder
from pure_agent_loop.errors import ConfigError, SessionNotFoundError
from pure_agent_loop.events import Event
from pure_agent_loop.llm.profiles import THINKING_LEVELS
from pure_agent_loop.media import MediaItem
from pure_agent_loop.permissions import PERMISSION_MODES, Permission, PermissionRequest, PermissionRules
from pure_agent_loop.sessions import check_session_name, default_store, new_session_id
from pure_agent_loop.sessions.story import Entry, read_story
from pure_agent_loop.support.language import notice, user_text
from pure_agent_loop.support.portal import run_sync
from pure_agent_loop.support.terminal import is_terminal
from pure_agent_loop.support.threads import in_thread
from pure_agent_loop.toolbox import Shell

_EPILOG = """\
Editors start this command; docs/acp.md shows how to configure them. The model is chosen as for 'pal run'.

examples:
  pal acp
  pal acp --permission-mode plan --model gpt-4o-mini
"""
# Terminal conversation commands for which editors have no interface.
_COMMANDS = [
    *("compact", "context", "cost", "tools", "permissions", "memory", "skills", "agents", "tasks"),
    *("diff", "undo", "redo", "export", "model", "mode"),
]
_GOES_ON = "continue"
_FIELDS = {"mode": "permission_mode", "thought_level": "thinking"}


def add_acp(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    describe(
        parser, "Run as an agent for an editor: Agent Client Protocol on standard input and output.", _EPILOG
    )
    parser.set_defaults(options_type=CommandOptions)
    add_help_all(parser)
    add_options(parser.add_argument_group("model"), ModelOptions)
    add_options(parser.add_argument_group("tools"), ToolOptions)
    add_options(parser.add_argument_group("limits"), LimitOptions)
    add_options(parser.add_argument_group("permissions"), PermissionOptions)


def acp(options: CommandOptions, output: CommandOutput) -> int:
    """Serve the editor until it disconnects; return the exit code.

    Raises:
        ConfigError: Standard input or output is closed.
    """
    if sys.stdin is None or sys.stdout is None:
        raise ConfigError(user_text("cli.acp_closed"))
    if is_terminal(sys.stdin):
        output.info(user_text("cli.acp_waiting"))
    source, sink = sys.stdin.buffer, _only_protocol()
    run_sync(serve(_Folders(options, output), source, sink))  # a hanging tool must not block the exit
    return DONE


def _only_protocol() -> BinaryIO:
    """Reserve standard output for the protocol; redirect other output to standard error."""
    sink = os.fdopen(os.dup(1), "wb")
    try:
        os.dup2(2, 1)
    except OSError:  # standard error may be closed
        redirect_to_null(1)
    return sink


class _Folders:
    """The host of an editor's sessions; see `acp.Host`."""

    def __init__(self, options: CommandOptions, output: CommandOutput) -> None:
        self._options, self._output = options, output
        self.has_mcp = has_mcp()

    def options(self) -> CommandOptions:
        """Return a copy of the options of ``pal run`` with the options typed for this command."""
        return copy.deepcopy(self._options)

    async def check(self) -> None:
        options = self.options()
        await in_thread(partial(configure, options, self._output, Path.home(), None))
        await in_thread(partial(_require_model, options))

    async def open(
        self,
        folder: Path,
        session_id: str | None,
        servers: Sequence[Mapping[str, Any]],
        editor: Editor,
    ) -> tuple[str, _Session]:
        if session_id is not None and (
            not default_store().exists(check_session_name(session_id))
            or folder_of(default_store(), session_id) != str(folder)
        ):
            raise SessionNotFoundError(user_text("cli.acp_no_session", session=session_id, folder=folder))
        if servers and not self.has_mcp:
            raise ConfigError(user_text("cli.acp_needs_mcp"))
        editors_servers(servers, folder)  # report invalid servers before the first task
        chosen = session_id or new_session_id()
        session = _Session(self, folder, chosen, servers, editor)
        await in_thread(session.look)
        return chosen, session

    async def sessions(self, folder: Path | None, start: int, count: int) -> list[Known]:
        store = default_store()

        def look() -> list[Known]:
            with_folder = ((info, folder_of(store, info.id)) for info in in_folder(store, folder))
            page = islice(((info, path) for info, path in with_folder if path), start, start + count)
            return [Known(info.id, path, title_of(store, info.id), info.updated) for info, path in page]

        return await in_thread(look)

    def delete(self, session_id: str) -> None:
        default_store().delete(check_session_name(session_id))


def _require_model(options: CommandOptions) -> None:
    try:
        plan_of(options)
    except ConfigError as error:
        raise NoModelError(error_text(error)) from error


class _Session:
    """A session in a folder; see `acp.Work`."""

    theme, prompt = "plain", None  # for `Slash`

    def __init__(
        self,
        folders: _Folders,
        folder: Path,
        session_id: str,
        servers: Sequence[Mapping[str, Any]],
        editor: Editor,
    ) -> None:
        self.folder = folder
        self._folders, self._id, self._servers = folders, session_id, servers
        self._editor, self._output = editor, MessageCollector()
        self._files = EditorFiles(folder, editor)
        self._shell = partial(EditorShell, editor) if editor.runs else Shell
        self._runs_alone = editor.reads or editor.writes
        self._options = folders.options()
        self._is_asked_later = False
        self._trusted: Guidance | None = None
        self._chosen: dict[str, str] = {}
        self._talk: ChatSession | None = None
        self._said: list[str] = []
        self.custom = CustomCommands(folder, editor.confirm)
        self._slash = Slash(self)

    # -- getting ready ----------------------------------------------------------------------------------

    def look(self) -> None:
        """Read the settings, and record whether the user must be asked about them."""
        questions = DeferredQuestions(self._output)
        self._settle(questions)
        self._is_asked_later = questions.has_asked
        try:
            check_folder(self._options, self.folder)
        except ConfigError as error:
            raise ConfigError(notice("cli.cwd", error=error)) from error
        _require_model(self._options)

    def _settle(self, questions: TerminalQuestions) -> None:
        self._options = self._folders.options()
        self._output.messages.clear()
        configure(self._options, self._output, self.folder, questions)
        trust_folder = self._options.trust_folder
        self._trusted = may_guide(self.folder, questions, self._output, trust_folder=trust_folder)
        vars(self._options).update(self._chosen)

    async def begin(self) -> None:
        if self._talk is None:
            asking = EditorQuestions(self._output, self._editor, asyncio.get_running_loop())
            await in_thread(partial(self._prepare, asking))
        messages, self._output.messages = self._output.messages, []
        for line in messages:
            await self._editor.note(line)

    def _prepare(self, asking: TerminalQuestions) -> None:
        if self._is_asked_later:
            self._settle(asking)
        options, output = self._options, self._output
        toolset = make_toolset(
            options, self.folder, output, trusted=self._trusted, files=self._files, make_shell=self._shell
        )
        check_given_rules(PermissionRules(), options, toolset, output)
        if self._runs_alone:
            for tool in toolset.tools:
                tool.exclusive = tool.exclusive or tool.name in THROUGH_EDITOR
        choice = choose(options, options.thinking, output, questions=asking)
        toolset = with_servers(toolset, options, self.folder, asking, output)
        editors = editors_servers(self._servers, self.folder)
        toolset = with_editors_servers(toolset.for_model(is_tiny=choice.is_tiny), editors, output)
        place = SessionTarget(
            None if options.no_session else self._id,
            default_store(),
            folder=self.folder,
            named=False,
            is_last=True,
        )
        self.shared = ChatConfig(options, self.folder, toolset, self._trusted)
        self._talk = ChatSession(self.shared, choice, place, self._editor.ask, output.info)

    @property
    def talk(self) -> ChatSession:
        """The conversation, available after the start."""
        assert self._talk is not None
        return self._talk

    @property
    def options(self) -> Mapping[str, Option]:
        modes = {mode: user_text(f"mode_{mode}") for mode in PERMISSION_MODES}
        return {
            "mode": Option(self._options.permission_mode, modes),
            "thought_level": Option(self._options.thinking, dict.fromkeys(THINKING_LEVELS, "")),
        }

    async def choose(self, option: str, value: str) -> None:
        self._chosen[_FIELDS[option]] = value
        vars(self._options).update(self._chosen)
        if option == "thought_level" and self._talk is not None:
            await self.command("model", self._talk.choice.model)  # a client cannot change its thinking level

    # -- work -------------------------------------------------------------------------------------------

    def run(self, task: str | None, media: Sequence[MediaItem]) -> AsyncGenerator[Event, None]:
        return self.talk.run(task, media)

    def stop(self) -> None:
        if self._talk is not None:
            self._talk.stop()

    async def close(self) -> None:
        if self._talk is not None:
            await self._talk.close()

    # -- questions --------------------------------------------------------------------------------------

    def suggest(self, request: PermissionRequest) -> Permission:
        return settled(self._options, request, self.shared.toolset)

    def asked(self, request: PermissionRequest) -> Asked:
        change = planned_change(self._files, request.tool, request.args)
        text = question_text(request, IN_DIFF if change else ())
        rules = [] if request.origins else kind_of(request.tool, request.args)
        return Asked(text, Planned(*change) if change else None, rules)

    def add_rules(self, behavior: str, rules: list[str]) -> None:
        setattr(self._options, behavior, list(dict.fromkeys([*getattr(self._options, behavior), *rules])))

    def keep_rules(self, rules: list[str]) -> None:
        keep_rules(self.folder, rules)

    # -- what there is ----------------------------------------------------------------------------------

    def history(self) -> Iterable[Entry]:
        return read_story(default_store().read(self._id).records).entries

    def commands(self) -> Iterable[tuple[str, str]]:
        own = [(name, user_text(f"chat.command_{name}")) for name in _COMMANDS]
        custom = [(name, command.about) for name, command in self.custom.all().items()]
        return [(_GOES_ON, user_text("goes_on")), *own, *custom]

    async def command(self, name: str, words: str) -> tuple[str, str | None, bool]:
        if name == _GOES_ON:
            return "", None, True
        self._said.clear()
        task = await self._slash.do(f"/{name} {words}".strip())
        return "\n\n".join(self._said), task, bool(task)

    # -- the conversation that `Slash` is about ---------------------------------------------------------

    def print_notice(
        self,
        text: str,
        role: str = "dim",  # noqa: ARG002 - an editor has its own colours
        *,
        is_whole: bool = False,  # noqa: ARG002 - it folds what is long
    ) -> None:
        """Show a message."""
        self._said.append(text)

    def show(self, markdown: str) -> None:
        """Show Markdown."""
        self._said.append(markdown)

    def show_groups(self, groups: Groups) -> None:
        """Show names with descriptions, by group."""
        for title, rows in groups.items():
            self.show("\n".join([f"**{title}**", "", *(f"- `{name}` {about}" for name, about in rows)]))

    def show_diff(self, name: str, text: str) -> None:  # noqa: ARG002 - part of the text
        """Show a diff."""
        self._said.append(f"```diff\n{text}\n```")

    def set_theme(self, theme: str) -> None:
        """Do nothing, because editors choose the colors."""

    def show_session(self) -> None:
        """Do nothing, because the editor shows the session."""

    def unfold(self, last: int) -> None:
        """Do nothing, because editors have no folded blocks."""

    def leave(self) -> None:
        """Do nothing, because the editor ends the session."""
