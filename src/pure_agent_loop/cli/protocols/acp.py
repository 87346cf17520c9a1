"""The command ``acp``: an agent for an editor, which speaks the Agent Client Protocol with it."""

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
from pure_agent_loop.acp.words import say
from pure_agent_loop.assistant.trust import Guidance
from pure_agent_loop.cli.arguments import add_functions, add_limits, add_model_choice, describe
from pure_agent_loop.cli.chat.custom import CustomCommands
from pure_agent_loop.cli.chat.questions import IN_DIFF, keep_rules, kind_of, planned_change
from pure_agent_loop.cli.chat.slash import Slash
from pure_agent_loop.cli.chat.talk import Shared, Talk
from pure_agent_loop.cli.chat.words import COMMANDS, in_words
from pure_agent_loop.cli.choose import choose, plan_for
from pure_agent_loop.cli.commands.run import add_permissions, add_tool_options
from pure_agent_loop.cli.exits import DONE
from pure_agent_loop.cli.output import Output
from pure_agent_loop.cli.parser import parser_of
from pure_agent_loop.cli.protocols.acp_questions import Asking, Later, Telling
from pure_agent_loop.cli.protocols.acp_servers import editors_servers, has_mcp, with_editors_servers
from pure_agent_loop.cli.questions import Questions, question_text
from pure_agent_loop.cli.settings.apply import configure
from pure_agent_loop.cli.settings.servers import with_servers
from pure_agent_loop.cli.toolset import check_folder, check_given_rules, make_toolset, suggest
from pure_agent_loop.cli.trust import may_guide
from pure_agent_loop.cli.which_session import Place, folder_of, in_folder, title_of
from pure_agent_loop.errors import ConfigError, SessionNotFoundError
from pure_agent_loop.events import Event
from pure_agent_loop.llm.profiles import THINKING_LEVELS
from pure_agent_loop.media import MediaItem
from pure_agent_loop.permissions import Permission, PermissionRequest, PermissionRules
from pure_agent_loop.sessions import check_session_id, default_store, new_session_id
from pure_agent_loop.sessions.story import Entry, read_story
from pure_agent_loop.support.portal import run_sync
from pure_agent_loop.support.terminal import is_terminal
from pure_agent_loop.support.threads import in_thread
from pure_agent_loop.tool import ToolRegistry
from pure_agent_loop.toolbox import Shell

_EPILOG = """\
Editors start this command; docs/acp.md says how each is told to. The model is chosen as for 'pal run'.

examples:
  pal acp
  pal acp --permission-mode plan --model gpt-4o-mini
"""
# Those of the conversation at a terminal that an editor has no place of its own for.
_COMMANDS = ["compact", "context", "cost", "tools", "permissions", "memory", "skills", "agents", "tasks"]
_COMMANDS += ["diff", "undo", "redo", "export", "model", "mode"]
_GOES_ON = "continue"
_FIELDS = {"mode": "permission_mode", "thought_level": "thinking"}


def add_acp(parser: argparse.ArgumentParser) -> None:
    """Add its arguments."""
    describe(parser, "Work for an editor: the Agent Client Protocol on standard input and output.", _EPILOG)
    add_model_choice(parser.add_argument_group("model"))
    add_tool_options(work := parser.add_argument_group("tools"))
    add_functions(work)
    add_limits(parser.add_argument_group("limits"))
    add_permissions(parser.add_argument_group("permissions"))


def acp(options: argparse.Namespace, output: Output) -> int:
    """Serve the editor until it is gone; return the exit code.

    Raises:
        ConfigError: Nobody can write to it, or read it.
    """
    if sys.stdin is None or sys.stdout is None:
        raise ConfigError(
            "pal acp speaks with an editor on standard input and output, and one of them is closed."
        )
    if is_terminal(sys.stdin):
        output.say("waiting for an editor, which starts this itself; docs/acp.md says how (Ctrl-C ends it)")
    source, sink = sys.stdin.buffer, _only_protocol()
    run_sync(serve(_Folders(options, output), source, sink))  # no tool that never stops holds up the end
    return DONE


def _only_protocol() -> BinaryIO:
    """Standard output, for the protocol alone: what else is printed goes to standard error from now on."""
    sink = os.fdopen(os.dup(1), "wb")
    try:
        os.dup2(2, 1)
    except OSError:  # that is closed
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)
    return sink


class _Folders:
    """What `pal` does for an editor; see `acp.Host`.

    Args:
        options: The command line.
        output: Standard error.
    """

    def __init__(self, options: argparse.Namespace, output: Output) -> None:
        self._options, self._output = options, output
        self.has_mcp = has_mcp()

    def options(self) -> argparse.Namespace:
        """Those of ``pal run``, with what was typed here; a copy that may be changed."""
        usual = vars(parser_of("run").parse_args([]))
        return copy.deepcopy(argparse.Namespace(**{**usual, **vars(self._options)}))

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
            not default_store().exists(check_session_id(session_id))
            or folder_of(default_store(), session_id) != str(folder)
        ):
            raise SessionNotFoundError(f"There is no session {session_id!r} of {folder}.")
        if servers and not self.has_mcp:
            raise ConfigError(
                "mcpServers: they need the extra [mcp]. Install it, or take them out of the editor."
            )
        editors_servers(servers, folder)  # what is wrong is said now
        chosen = session_id or new_session_id()
        session = _Session(self, folder, chosen, servers, editor)
        await in_thread(session.look)
        return chosen, session

    async def sessions(self, folder: Path | None, start: int, count: int) -> list[Known]:
        store = default_store()

        def look() -> list[Known]:
            with_folder = ((each, folder_of(store, each.id)) for each in in_folder(store, folder))
            found = islice(((each, at) for each, at in with_folder if at), start, start + count)
            return [Known(each.id, at, title_of(store, each.id), each.updated) for each, at in found]

        return await in_thread(look)

    def delete(self, session_id: str) -> None:
        default_store().delete(check_session_id(session_id))


def _require_model(options: argparse.Namespace) -> None:
    try:
        plan_for(options.model, options.base_url, os.environ, options.configured)
    except ConfigError as error:
        raise NoModelError(str(error)) from error


class _Session:
    """A session in a folder; see `acp.Work`.

    Args:
        folders: The command.
        folder: The folder.
        session_id: Its name.
        servers: MCP servers of the editor.
        editor: The other side.
    """

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
        self._editor, self._output = editor, Telling()
        self._files = EditorFiles(folder, editor)
        self._shell = partial(EditorShell, editor) if editor.runs else Shell
        self._runs_alone = editor.reads or editor.writes
        self._options = folders.options()
        self._is_asked_later = False
        self._trusted: Guidance | None = None
        self._chosen: dict[str, str] = {}
        self._talk: Talk | None = None
        self._said: list[str] = []
        self.custom = CustomCommands(folder, editor.confirm)
        self._slash = Slash(self)

    # -- getting ready ----------------------------------------------------------------------------------

    def look(self) -> None:
        """Read the settings, and see whether there is something to ask."""
        questions = Later(self._output)
        self._settle(questions)
        self._is_asked_later = questions.has_asked
        try:
            check_folder(self._options, self.folder)
        except ConfigError as error:
            raise ConfigError(f"cwd: {error}") from error
        _require_model(self._options)

    def _settle(self, questions: Questions) -> None:
        self._options = self._folders.options()
        self._output.said.clear()
        configure(self._options, self._output, self.folder, questions)
        given = self._options.trust_folder
        self._trusted = may_guide(self.folder, questions, self._output, given=given)
        vars(self._options).update(self._chosen)

    async def begin(self) -> None:
        if self._talk is None:
            asking = Asking(self._output, self._editor, asyncio.get_running_loop())
            await in_thread(partial(self._prepare, asking))
        said, self._output.said = self._output.said, []
        for each in said:
            await self._editor.note(each)

    def _prepare(self, asking: Questions) -> None:
        if self._is_asked_later:
            self._settle(asking)
        options, output = self._options, self._output
        found = make_toolset(
            options, self.folder, output, trusted=self._trusted, files=self._files, make_shell=self._shell
        )
        check_given_rules(PermissionRules(), options, found, output)
        if self._runs_alone:
            for tool in found.tools:
                tool.exclusive = tool.exclusive or tool.name in THROUGH_EDITOR
        choice = choose(
            options.model, options.base_url, options.thinking, os.environ, output, options.configured
        )
        found = with_servers(found, options, self.folder, asking, output)
        found, editors = found.for_model(is_tiny=choice.is_tiny), editors_servers(self._servers, self.folder)
        toolset = with_editors_servers(found, editors, output)
        keeps = not options.no_session
        place = Place(
            self._id if keeps else None,
            default_store(),
            folder=self.folder,
            named=False,
            is_last=True,
        )
        self.shared = Shared(options, self.folder, toolset, self._trusted)
        self._talk = Talk(self.shared, choice, place, self._editor.ask, output.say)

    @property
    def talk(self) -> Talk:
        """The conversation, once it has begun."""
        assert self._talk is not None
        return self._talk

    @property
    def options(self) -> Mapping[str, Option]:
        modes = {"ask": say("mode_ask"), "auto": say("mode_auto")}
        modes |= {"plan": say("mode_plan"), "bypass": say("mode_bypass")}
        levels = dict.fromkeys(THINKING_LEVELS, "")
        options = self._options
        return {
            "mode": Option(options.permission_mode, modes),
            "thought_level": Option(options.thinking, levels),
        }

    async def choose(self, option: str, value: str) -> None:
        self._chosen[_FIELDS[option]] = value
        vars(self._options).update(self._chosen)
        if option == "thought_level" and self._talk is not None:
            await self.command("model", self._talk.choice.model)  # the client is made for a level

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
        return suggest(self._options, request, ToolRegistry(self.shared.toolset.tools), None)

    def asked(self, request: PermissionRequest) -> Asked:
        found = planned_change(self._files, request.tool, request.args)
        data = {"tool": request.tool, "args": request.args, "reason": request.reason}
        text = question_text(data, IN_DIFF if found else ())
        return Asked(text, Planned(*found) if found else None, kind_of(request.tool, request.args))

    def add_rules(self, behavior: str, rules: list[str]) -> None:
        setattr(self._options, behavior, list(dict.fromkeys([*getattr(self._options, behavior), *rules])))

    def keep_rules(self, rules: list[str]) -> None:
        keep_rules(self.folder, rules)

    # -- what there is ----------------------------------------------------------------------------------

    def history(self) -> Iterable[Entry]:
        return read_story(default_store().read(self._id).records).entries

    def commands(self) -> Iterable[tuple[str, str]]:
        own = [(name, in_words(COMMANDS[name])) for name in _COMMANDS]
        custom = [(name, each.about) for name, each in self.custom.all().items()]
        return [(_GOES_ON, say("goes_on")), *own, *custom]

    async def command(self, name: str, words: str) -> tuple[str, str | None, bool]:
        if name == _GOES_ON:
            return "", None, True
        self._said.clear()
        task = await self._slash.do(f"/{name} {words}".strip())
        return "\n\n".join(self._said), task, bool(task)

    # -- the conversation that `Slash` is about ---------------------------------------------------------

    def say(self, text: str, role: str = "dim") -> None:  # noqa: ARG002 - an editor has its own colours
        """Say something."""
        self._said.append(text)

    def show(self, markdown: str) -> None:
        """Show Markdown."""
        self._said.append(markdown)

    def show_diff(self, name: str, text: str) -> None:  # noqa: ARG002 - it stands in the text
        """Show a diff."""
        self._said.append(f"```diff\n{text}\n```")

    def set_theme(self, theme: str) -> None:
        """Nothing here has colours."""

    def show_session(self) -> None:
        """Nothing: the editor shows it."""

    def unfolded(self, last: int) -> None:
        """Nothing is folded."""

    def leave(self) -> None:
        """The editor leaves."""
