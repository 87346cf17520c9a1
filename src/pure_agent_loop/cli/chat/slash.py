"""The commands behind a slash: what is to be seen and changed of a conversation."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pure_agent_loop.cli.chat.custom import CustomCommands, command_in, no_command
from pure_agent_loop.cli.chat.safe import THEMES, one_line
from pure_agent_loop.cli.chat.status import context_rows
from pure_agent_loop.cli.chat.talk import Shared, Talk
from pure_agent_loop.cli.chat.words import COMMANDS, HABITS, SAME, chat_word, in_words, keys_help
from pure_agent_loop.cli.choose import choose
from pure_agent_loop.cli.output import Output
from pure_agent_loop.cli.parser import parse, run_command
from pure_agent_loop.cli.toolset import rules_of, skills_loader
from pure_agent_loop.cli.which_session import MOST_TO_PICK, in_folder, numbered, preview, title_of
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.permissions import PERMISSION_MODES, PermissionRules

if TYPE_CHECKING:
    from pure_agent_loop.snapshots import UndoReport, WorkspaceSnapshots

BAR = 40  # columns
_LOOK = (
    "help",
    "permissions",
    "tools",
    "context",
    "cost",
    "memory",
    "skills",
    "agents",
    "tasks",
    "unfold",
    "theme",
    "mcp",
    "copy",
)


class Host(Protocol):
    """The conversation that these commands are about."""

    shared: Shared
    custom: CustomCommands
    theme: str
    prompt: Any

    @property
    def talk(self) -> Talk:
        """What is going on in it."""

    def say(self, text: str, role: str = "dim") -> None:
        """Say something."""

    def show(self, markdown: str) -> None:
        """Show Markdown."""

    def show_diff(self, name: str, text: str) -> None:
        """Show a diff."""

    def set_theme(self, theme: str) -> None:
        """Use other colours."""

    def show_session(self) -> None:
        """Show where the session stands."""

    def unfolded(self, last: int) -> None:
        """Show a folded thing."""

    def leave(self) -> None:
        """Leave."""


class Slash:
    """Does what stands behind a slash.

    Args:
        host: The conversation.
    """

    def __init__(self, host: Host) -> None:
        self._host = host

    def known(self) -> Iterable[tuple[str, str]]:
        """The commands there are, each with what it is for."""
        own = ((name, in_words(COMMANDS[name])) for name in COMMANDS)
        custom = ((name, each.about) for name, each in self._host.custom.all().items())
        servers = self._host.shared.toolset.mcp
        return [*own, *custom, *(servers.known_prompts if servers is not None else ())]

    def sessions(self) -> Iterable[tuple[str, str]]:
        """The sessions of the folder, the last used first."""
        store = self._host.talk.place.store
        if store is None:
            return []
        from pure_agent_loop.sessions.export import moment

        found = islice(in_folder(store, self._host.shared.workspace), MOST_TO_PICK)
        return [(info.id, f"{moment(info.updated)} {title_of(store, info.id)}") for info in found]

    def rules(self) -> PermissionRules:
        """Those in force."""
        return rules_of(self._host.shared.options)

    def looks_only(self, line: str) -> bool:
        """Whether a command may be given while the agent works; what is none may."""
        name, _ = self._meant(line)
        is_known = name in {*COMMANDS, *self._host.custom.all()} or self._server(name) is not None
        return name in _LOOK or not is_known

    def _meant(self, line: str) -> tuple[str, str]:
        name, words = command_in(line) or ("", "")
        return name if name in self._host.custom.all() else SAME.get(name, name), words

    def _server(self, name: str) -> Any:
        """Whose prompt that is; None for no server's."""
        servers = self._host.shared.toolset.mcp
        return servers.get(name.partition(":")[0]) if servers is not None and ":" in name else None

    async def do(self, line: str) -> str:
        """Do what a line says, and return the task that it stands for, if it stands for one.

        Args:
            line: What was typed, with its slash.

        Raises:
            PureAgentLoopError: It cannot be done.
        """
        name, words = self._meant(line)
        if name in COMMANDS:
            found: Callable[[str], Any] = getattr(self, f"_{name}")
            done = found(words)
            if asyncio.iscoroutine(done):
                await done
            return ""
        custom = self._host.custom.all()
        if name in custom:
            return await self._host.custom.task(custom[name], words)
        if self._server(name) is not None and (servers := await self._host.talk.servers()) is not None:
            from pure_agent_loop.cli.protocols.mcp_talk import with_named

            return await with_named(servers, line, line.strip())
        if name in HABITS:
            self._host.say(in_words(HABITS[name]))
            return ""
        servers = self._host.shared.toolset.mcp
        starts = [f"{each.name}:" for each in servers.servers] if servers is not None else []
        self._host.say(no_command(name, [*(each for each, _ in self.known()), *starts]), "error")
        return ""

    # -- to see ---------------------------------------------------------------------------------------

    def _help(self, _: str) -> None:
        rows = [f"- `/{name}` {one_line(about)}" for name, about in self.known()]
        self._host.show("\n".join([keys_help(), "", "---", "", *rows]))

    def _tools(self, _: str) -> None:
        toolset = self._host.shared.toolset
        tools = [*toolset.tools, *(toolset.subagents.tools() if toolset.subagents else [])]
        tools += toolset.mcp.known_tools if toolset.mcp else []
        self._list(f"`{tool.name}` {one_line(tool.description, 120)}" for tool in tools)

    def _permissions(self, words: str) -> None:
        options = self._host.shared.options
        verb, _, rule = words.partition(" ")
        if verb == "remove" and rule.strip() in options.allow:
            options.allow = [each for each in options.allow if each != rule.strip()]
            self._host.say(chat_word("rule_gone", rule=rule.strip()))
            return
        self._mode("")
        self._list(f"{kind} `{rule}`" for kind in ("deny", "ask", "allow") for rule in getattr(options, kind))

    def _context(self, _: str) -> None:
        talk = self._host.talk
        state, known = talk.state, talk.sums.context
        if state is None:  # what is sent is known when it is sent
            self._host.say(chat_word("nothing"))
            return
        width = max(5, min(BAR, self._host.prompt.columns - 32))  # beside names and numbers
        width = 0 if self._host.shared.options.screen_reader else width
        self._host.say(context_rows(state, known, width), "")

    def _cost(self, _: str) -> None:
        sums = self._host.talk.sums
        cost = f", {sums.cost:.4f}" if sums.cost else ""
        self._host.say(chat_word("cost", tokens=sums.tokens, steps=sums.steps, cost=cost))

    def _memory(self, words: str) -> None:
        memory = self._host.talk.memory()
        self._list(map(str, memory.search(words) if words else memory.read()))

    def _skills(self, _: str) -> None:
        loader = skills_loader(self._host.shared.workspace, self._host.shared.trusted)
        self._list(f"`{skill.name}` {one_line(skill.description)}" for skill in loader.skills)

    def _agents(self, _: str) -> None:
        from pure_agent_loop.subagents.definitions import in_language

        manager = self._host.shared.toolset.subagents
        found = [] if manager is None else manager.definitions
        self._list(f"`{each.name}` {one_line(in_language(each.description, None))}" for each in found)

    def _tasks(self, _: str) -> None:
        from pure_agent_loop.subagents.tasks import TaskStore

        found = TaskStore().list(self._host.talk.place.session_id or "")
        self._list(f"`{each.id}` {each.state}: {one_line(each.prompt, 80)}" for each in found)

    async def _mcp(self, _: str) -> None:
        servers = await self._host.talk.servers()
        if servers is None:
            self._host.say(chat_word("no_mcp"))
            return
        from pure_agent_loop.cli.protocols.mcp_talk import lines_about

        self._list(await lines_about(servers))

    def _copy(self, _: str) -> None:
        answers = [
            each.text for each in self._host.talk.story().entries if each.kind == "answer" and each.text
        ]
        if answers:
            self._host.prompt.copy(answers[-1])
        self._host.say(chat_word("copied", count=len(answers[-1])) if answers else chat_word("nothing"))

    def _editor(self, _: str) -> None:
        self._host.prompt.edit()

    def _unfold(self, words: str) -> None:
        self._host.unfolded(int(words) if words.isdecimal() else 1)

    async def _diff(self, words: str) -> None:
        snapshots, session = await self._snapshots()
        steps = [each for each in await snapshots.steps(session) if not each.is_undone] if session else []
        wanted = int(words) if words.isdecimal() else steps[-1].step if steps else 0
        for change in await snapshots.diff(session, wanted) if session and wanted else []:
            self._host.show_diff(change.path, change.diff)
        if not (session and wanted):
            self._host.say(chat_word("nothing"))

    async def _doctor(self, _: str) -> None:
        """As the command does it, with its words as they come."""
        options = self._host.shared.options
        words = [*(["--base-url", options.base_url] if options.base_url else [])]
        out, model = io.StringIO(), self._host.talk.choice.model
        found = parse(["doctor", "--model", model, *words])
        await asyncio.to_thread(run_command, found, Output(out, out, colour=False))
        self._host.say(out.getvalue(), "")

    def _list(self, rows: Iterable[str]) -> None:
        text = "\n".join(f"- {row}" for row in rows)
        if text:
            self._host.show(text)
        else:
            self._host.say(chat_word("nothing"))

    # -- to change ------------------------------------------------------------------------------------

    def _mode(self, words: str) -> None:
        options = self._host.shared.options
        if words and words not in PERMISSION_MODES:
            raise ConfigError(chat_word("mode", mode=one_line(words, 40), all=", ".join(PERMISSION_MODES)))
        options.permission_mode = words or options.permission_mode
        self._host.say(chat_word("mode", mode=options.permission_mode, all=", ".join(PERMISSION_MODES)))

    async def _model(self, words: str) -> None:
        talk, options = self._host.talk, self._host.shared.options
        if words:
            quiet = Output(io.StringIO(), io.StringIO(), colour=False)
            talk.choice = await asyncio.to_thread(
                choose, words, options.base_url, options.thinking, os.environ, quiet, options.configured
            )
            options.model = words
        self._host.say(chat_word("model", model=talk.choice.model, reason=talk.choice.reason))

    def _theme(self, words: str) -> None:
        if words and words not in THEMES:
            raise ConfigError(chat_word("theme", theme=one_line(words, 40), all=", ".join(THEMES)))
        if words:
            self._host.set_theme(words)
        self._host.say(chat_word("theme", theme=self._host.theme, all=", ".join(THEMES)))

    def _keys(self, words: str) -> None:
        from prompt_toolkit.enums import EditingMode

        app = self._host.prompt.app
        if words in ("vi", "emacs"):
            app.editing_mode = EditingMode(words.upper())
        self._host.say(chat_word("keys", keys=app.editing_mode.value.lower()))

    def _sessions(self, words: str) -> None:
        found = list(self.sessions())
        ids = [name for name, _ in found]
        chosen, store = numbered(words, ids), self._host.talk.place.store
        if chosen is not None and store is not None and words.endswith("?"):
            self._host.say("\n".join(preview(store, chosen)), "")
            return
        words = chosen or words
        if words in ids:
            self._host.talk.move_to(words)
            self._host.say(chat_word("session", id=words))
            self._host.show_session()
            return
        shown = [
            (number, each) for number, each in enumerate(found, 1) if words.lower() in " ".join(each).lower()
        ]
        self._host.say(
            "\n".join(f"{number:>2}  {name}  {about}" for number, (name, about) in shown)
            or chat_word("nothing"),
            "",
        )

    def _new(self, _: str) -> None:
        self._host.talk.move_to(None)
        self._host.say(chat_word("session", id=self._host.talk.place.session_id or "-"))

    def _fork(self, words: str) -> None:
        from pure_agent_loop.sessions.fork import fork_session

        store, session = self._kept()
        new = fork_session(store, session, int(words) if words.isdecimal() else None)
        self._host.talk.move_to(new)
        self._host.say(chat_word("forked", id=new))

    async def _rewind(self, words: str) -> None:
        """Take the files back to after a step, and go on in a session that ends there."""
        store, session = self._kept()
        if not words.isdecimal():
            asked = [
                f"{each.step:>3}  {one_line(each.text, 80)}"
                for each in self._host.talk.story().entries
                if each.kind in ("answer", "call") and each.step
            ]
            self._host.say("\n".join([chat_word("steps"), *asked]), "")
            return
        from pure_agent_loop.sessions.fork import fork_session, up_to_step

        new = fork_session(store, session, int(words))  # first: it fails if there is no such step
        end = up_to_step(store.read(session).records, int(words))[-1].time
        snapshots, known = await self._snapshots()
        steps = await snapshots.steps(known) if known else []
        later = [each for each in steps if each.time > end and not each.is_undone]
        if later:
            first = min(later, key=lambda each: each.time)
            self._report(await snapshots.undo(known, to_step=first.step, run=first.run))
        self._host.talk.move_to(new)
        self._host.say(chat_word("rewound", step=words, id=new))

    def _export(self, words: str) -> None:
        from pure_agent_loop.sessions.export import to_html, to_markdown

        store, session = self._kept()
        path = self._host.shared.workspace / Path(words or f"{session}.md").expanduser()
        make = to_html if path.suffix in (".html", ".htm") else to_markdown
        text = make(store.read(session).records, session)
        try:
            with path.open("x", encoding="utf-8", newline="\n") as file:
                file.write(text)
        except FileExistsError:
            raise ConfigError(chat_word("exists", path=path)) from None
        except OSError as error:
            raise ConfigError(chat_word("no_file", path=path, why=error.strerror)) from None
        self._host.say(chat_word("exported", path=path))

    def _kept(self) -> tuple[Any, str]:
        place = self._host.talk.place
        if place.store is None or place.session_id is None or not place.store.exists(place.session_id):
            raise ConfigError(chat_word("no_session"))
        return place.store, place.session_id

    def _compact(self, words: str) -> None:
        self._host.talk.compact_next = words
        self._host.say(chat_word("compact_next"))

    async def _undo(self, words: str) -> None:
        snapshots, session = await self._snapshots()
        if not session:
            self._host.say(chat_word("nothing_undone"))
            return
        report = await snapshots.undo(session, force=words == "force", dry_run=words not in ("yes", "force"))
        for step in report.steps if report.is_dry else ():
            for change in await snapshots.diff(session, step):
                self._host.show_diff(change.path, change.diff)
        self._report(report)

    async def _redo(self, _: str) -> None:
        snapshots, session = await self._snapshots()
        if session:
            self._report(await snapshots.redo(session), "redone")
        else:
            self._host.say(chat_word("nothing_undone"))

    async def _snapshots(self) -> tuple[WorkspaceSnapshots, str]:
        from pure_agent_loop.snapshots import WorkspaceSnapshots

        snapshots = self._host.shared.toolset.snapshots or WorkspaceSnapshots(self._host.shared.workspace)
        known, session = await snapshots.sessions(), self._host.talk.place.session_id
        return snapshots, session if session in known else ""

    def _report(self, report: UndoReport, done: str = "undone") -> None:
        paths = ", ".join(one_line(path) for path in (*report.restored, *report.removed))
        for conflict in report.conflicts:
            self._host.say(chat_word("left", path=conflict.path, reason=conflict.reason), "warning")
        if not report.steps:
            self._host.say(chat_word("nothing_undone"))
        elif report.is_dry:
            self._host.say(f"{chat_word('would_undo', steps=paths)}\n{chat_word('undo_first')}")
        else:
            self._host.say(chat_word(done, steps=paths))

    def _exit(self, _: str) -> None:
        self._host.leave()
