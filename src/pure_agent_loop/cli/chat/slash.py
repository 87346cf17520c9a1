"""The slash commands of a conversation."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pure_agent_loop.cli.chat.calls import main_argument, seconds
from pure_agent_loop.cli.chat.custom import CustomCommands, command_in, no_command
from pure_agent_loop.cli.chat.diffs import reverse
from pure_agent_loop.cli.chat.status import short
from pure_agent_loop.cli.chat.styling import THEMES, one_line
from pure_agent_loop.cli.chat.talk import ChatConfig, ChatSession
from pure_agent_loop.cli.chat.words import COMMANDS, HABITS, SAME, Groups, commands_help, keys_help
from pure_agent_loop.cli.choose import plan_of
from pure_agent_loop.cli.output import CommandOutput, currency_of, error_text, money
from pure_agent_loop.cli.parser import parse, run_command
from pure_agent_loop.cli.session_list import preview, title_of
from pure_agent_loop.cli.toolset import rules_of, skills_loader
from pure_agent_loop.cli.which_session import MAX_TO_PICK, can_pick, in_folder, numbered
from pure_agent_loop.errors import ConfigError, PureAgentLoopError
from pure_agent_loop.permissions import PERMISSION_MODES, PermissionRules
from pure_agent_loop.runs import Embedded, protocol_of, show_url
from pure_agent_loop.sessions.stores.file_names import file_name
from pure_agent_loop.support.language import user_text
from pure_agent_loop.support.parsing import parsed_object
from pure_agent_loop.support.terminal import aligned

if TYPE_CHECKING:
    from pure_agent_loop import QueryState
    from pure_agent_loop.cli.chat.talk import Spent
    from pure_agent_loop.sessions.story import Entry
    from pure_agent_loop.snapshots import UndoReport, WorkspaceSnapshots

BAR = 40  # columns
WORTH_COMPACTING = 2_000  # minimum tokens; rewriting a shorter conversation costs more than it saves
_READ_ONLY = (
    "help",
    "status",
    "permissions",
    "tools",
    "context",
    "cost",
    "memory",
    "skills",
    "agents",
    "tasks",
    "background",
    "unfold",
    "theme",
    "mcp",
    "copy",
    "time",
)
_ROLES = ("system", "user", "assistant", "tool")


class ChatHost(Protocol):
    """The interface of the conversation for slash commands."""

    shared: ChatConfig
    custom: CustomCommands
    theme: str
    prompt: Any

    @property
    def talk(self) -> ChatSession:
        """The session and its current run."""

    def print_notice(self, text: str, role: str = "dim", *, is_whole: bool = False) -> None:
        """Print a notice; a long one is cut unless `is_whole`."""

    def show(self, markdown: str) -> None:
        """Print Markdown."""

    def show_groups(self, groups: Groups) -> None:
        """Print names with descriptions, by group."""

    def show_diff(self, name: str, text: str) -> None:
        """Print a diff."""

    def set_theme(self, theme: str) -> None:
        """Change the color theme."""

    def show_session(self) -> None:
        """Show the last task and answer of the session."""

    def unfold(self, last: int) -> None:
        """Show a folded block in full."""

    def leave(self) -> None:
        """Exit the conversation."""


class Slash:
    """Runs slash commands."""

    def __init__(self, host: ChatHost) -> None:
        self._host = host

    def known(self) -> Iterable[tuple[str, str]]:
        """Return the available commands with their descriptions."""
        own = ((name, user_text(f"chat.command_{name}")) for name in COMMANDS)
        custom = ((name, command.about) for name, command in self._host.custom.all().items())
        servers = self._host.shared.toolset.mcp
        return [*own, *custom, *(servers.known_prompts if servers is not None else ())]

    def sessions(self) -> Iterable[tuple[str, str]]:
        """Return the sessions of the folder with their titles, most recently used first."""
        store = self._host.talk.place.store
        if store is None:
            return []
        from pure_agent_loop.sessions.export import moment

        sessions = islice(in_folder(store, self._host.shared.workspace), MAX_TO_PICK)
        return [(info.id, f"{moment(info.updated)} {title_of(store, info.id)}") for info in sessions]

    def rules(self) -> PermissionRules:
        """Return the rules that are in effect."""
        return rules_of(self._host.shared.options)

    def is_read_only(self, line: str) -> bool:
        """Return True if a line may be executed during a run: a read-only command or an unknown one."""
        name, _ = self._resolve(line)
        is_known = name in {*COMMANDS, *self._host.custom.all()} or self._server(name) is not None
        return name in _READ_ONLY or not is_known

    def _resolve(self, line: str) -> tuple[str, str]:
        name, words = command_in(line) or ("", "")
        return name if name in self._host.custom.all() else SAME.get(name, name), words

    def _server(self, name: str) -> Any:
        """Return the MCP server of a prompt name; None if there is none."""
        servers = self._host.shared.toolset.mcp
        return servers.get(name.partition(":")[0]) if servers is not None and ":" in name else None

    async def do(self, line: str) -> str:
        """Run a command line; return the task that it expands to, empty if there is none.

        Args:
            line: The line, including the slash.

        Raises:
            PureAgentLoopError: The command failed.
        """
        name, words = self._resolve(line)
        if name in COMMANDS:
            command: Callable[[str], Any] = getattr(self, f"_{name}")
            result = command(words)
            if asyncio.iscoroutine(result):
                await result
            return ""
        custom = self._host.custom.all()
        if name in custom:
            return await self._host.custom.task(custom[name], words)
        if self._server(name) is not None and (servers := await self._host.talk.servers()) is not None:
            from pure_agent_loop.cli.protocols.mcp_talk import with_named

            return await with_named(servers, line, line.strip())
        if name in HABITS:
            self._host.print_notice(user_text(f"chat.habit_{name}"))
            return ""
        servers = self._host.shared.toolset.mcp
        prefixes = [f"{server.name}:" for server in servers.servers] if servers is not None else []
        self._host.print_notice(
            no_command(name, [*(command for command, _ in self.known()), *prefixes]), "error"
        )
        return ""

    # -- read-only commands -----------------------------------------------------------------------------

    def _help(self, words: str) -> None:
        if words == "?":
            self._host.show_groups(keys_help())
            return
        own = [(f"/{name}", one_line(about)) for name, about in self.known() if name not in COMMANDS]
        self._host.show_groups(commands_help(own))

    def _tools(self, _: str) -> None:
        toolset = self._host.shared.toolset
        tools = [*toolset.tools, *(toolset.subagents.tools() if toolset.subagents else [])]
        tools += toolset.mcp.known_tools if toolset.mcp else []
        self._list((f"`{tool.name}` {one_line(tool.description, 120)}" for tool in tools), "no_tools")

    def _permissions(self, words: str) -> None:
        options, kinds = self._host.shared.options, ("deny", "ask", "allow")
        verb, _, rest = words.partition(" ")
        rule, known = rest.strip(), [kind for kind in kinds if rest.strip() in getattr(options, kind)]
        if rule and verb in kinds:
            PermissionRules(allow=[rule])  # raises an error for an invalid rule
            setattr(options, verb, list(dict.fromkeys([*getattr(options, verb), rule])))
            self._host.print_notice(user_text("chat.rule_set", rule=f"{verb} {rule}", remove=rule))
        elif verb == "remove" and known:
            for kind in known:
                setattr(options, kind, [other for other in getattr(options, kind) if other != rule])
            self._host.print_notice(user_text("chat.rule_gone", rule=rule))
        else:
            self._mode("")
            self._list((f"{kind} `{rule}`" for kind in kinds for rule in getattr(options, kind)), "no_rules")

    def _status(self, _: str) -> None:
        shared = self._host.shared
        shell = shared.toolset.shell.describe() if shared.toolset.shell else user_text("cli.no_shell")
        mode = user_text(f"mode_{shared.options.permission_mode}")
        facts = [self._model_line(), str(shared.workspace), f"{mode}; {shell}"]
        self._host.print_notice("\n".join(facts), "")

    def _context(self, words: str) -> None:
        talk = self._host.talk
        state, known = talk.state, talk.usage.context
        if state is None:  # no request has been sent yet
            self._host.print_notice(user_text("chat.no_context"))
            return
        facts = [str(message["content"]) for message in state.messages if _is_facts(message)]
        if words == "prompt":
            self._host.print_notice("\n\n".join([state.system_prompt, *facts]), "")
            return
        prompt = self._host.prompt  # None if the client is an editor
        is_plain = prompt is None or self._host.shared.options.screen_reader
        # Names and numbers take 32 columns.
        width = 0 if is_plain else max(5, min(BAR, prompt.columns - 32))
        known = {**known, "window": talk.window}
        self._host.print_notice("\n\n".join([context_rows(state, known, width), *facts]), "")

    def _cost(self, _: str) -> None:
        usage = self._host.talk.usage
        if usage.task is None or usage.all is None:
            self._host.print_notice(user_text("chat.no_cost"))
        else:
            currency = currency_of(self._host.shared.options.price)
            self._host.print_notice(cost_rows(usage.task, usage.all, currency), "")

    def _memory(self, words: str) -> None:
        memory = self._host.talk.memory()
        notes = map(str, memory.search(words) if words else memory.read())
        self._list(notes, "no_such_note" if words else "no_notes")

    def _skills(self, _: str) -> None:
        loader = skills_loader(self._host.shared.workspace, self._host.shared.trusted)
        skills = (f"`{skill.name}` {one_line(skill.description)}" for skill in loader.skills)
        self._list(skills, "no_skills")

    def _agents(self, _: str) -> None:
        from pure_agent_loop.subagents.definitions import in_language

        manager = self._host.shared.toolset.subagents
        agents = [] if manager is None else manager.definitions
        rows = (f"`{agent.name}` {one_line(in_language(agent.description, None))}" for agent in agents)
        self._list(rows, "no_agents")

    def _tasks(self, _: str) -> None:
        from pure_agent_loop.subagents import TaskStore

        tasks = TaskStore().list(self._host.talk.place.session_id or "")
        rows = (f"`{task.id}` {task.state}: {one_line(task.prompt, 80)}" for task in tasks)
        self._list(rows, "no_tasks")

    async def _background(self, words: str) -> None:
        from pure_agent_loop.cli.chat.background import background_row, newest_output, numbered_command

        talk, (verb, _, rest) = self._host.talk, words.partition(" ")
        if not words:
            self._list((f"`{background_row(each)}`" for each in talk.background), "no_background_commands")
        elif verb == "end":
            command = numbered_command(talk.background, rest.strip())
            await talk.end_background([command])
            self._host.print_notice(background_row(command))
        else:
            text = newest_output(numbered_command(talk.background, words), talk.choice.client)
            self._host.print_notice(text, "", is_whole=True)

    async def _mcp(self, _: str) -> None:
        servers = await self._host.talk.servers()
        if servers is None:
            self._host.print_notice(user_text("chat.no_mcp"))
            return
        from pure_agent_loop.cli.protocols.mcp_talk import lines_about

        self._list(await lines_about(servers), "no_mcp")

    def _copy(self, _: str) -> None:
        answers = [
            entry.text for entry in self._host.talk.story().entries if entry.kind == "answer" and entry.text
        ]
        if answers:
            self._host.prompt.copy(answers[-1])
        self._host.print_notice(
            user_text("chat.copied", count=len(answers[-1])) if answers else user_text("chat.no_answer_yet")
        )

    def _editor(self, _: str) -> None:
        self._host.prompt.edit()

    def _unfold(self, words: str) -> None:
        self._host.unfold(int(words) if words.isdecimal() else 1)

    async def _diff(self, words: str) -> None:
        snapshots, session = await self._snapshots()
        steps = [step for step in await snapshots.steps(session) if not step.is_undone] if session else []
        number = int(words) if words.isdecimal() else steps[-1].step if steps else 0
        for change in await snapshots.diff(session, number) if session and number else []:
            self._host.show_diff(change.path, change.diff)
        if not (session and number):
            self._host.print_notice(user_text("chat.no_changes"))

    async def _doctor(self, _: str) -> None:
        """Run `pal doctor` for the current model and show its output."""
        options = self._host.shared.options
        words = [*(["--base-url", options.base_url] if options.base_url else [])]
        out, model = io.StringIO(), self._host.talk.choice.model
        if protocol := protocol_of(options.model or os.environ.get("PAL_MODEL", "")):
            model = f"{protocol}:{model}"
        arguments = parse(["doctor", "--model", model, *words])
        self._host.print_notice(user_text("chat.examining"))
        err = io.StringIO()  # gets progress, which the results repeat, or an error
        await asyncio.to_thread(run_command, arguments, CommandOutput(out, err, colour=False))
        self._host.print_notice(out.getvalue() or err.getvalue(), "", is_whole=True)

    def _list(self, rows: Iterable[str], empty: str) -> None:
        """Print rows, or the message `empty` if there are no rows."""
        text = "\n".join(f"- {row}" for row in rows)
        if text:
            self._host.show(text)
        else:
            self._host.print_notice(user_text(f"chat.{empty}"))

    # -- commands that change something -----------------------------------------------------------------

    def _mode(self, words: str) -> None:
        options = self._host.shared.options
        if words and words not in PERMISSION_MODES:
            every = ", ".join(PERMISSION_MODES)
            raise ConfigError(user_text("chat.no_mode", mode=one_line(words, 40), all=every))
        mode = options.permission_mode = words or options.permission_mode
        others = ", ".join(name for name in PERMISSION_MODES if name != mode)
        self._host.print_notice(user_text("chat.mode", mode=mode, others=others))

    async def _model(self, words: str) -> None:
        if words:
            await asyncio.to_thread(self._host.talk.use_model, words)
        self._host.print_notice(user_text("chat.model", model=self._model_line()))
        if not words:
            await self._list_models()

    async def _key(self, _: str) -> None:
        """Ask for another key for the model's server, try it once, and save it as at the first start."""
        from pure_agent_loop.cli.first_start import replace_key

        options, prompt = self._host.shared.options, self._host.prompt
        plan = await asyncio.to_thread(plan_of, options)
        if isinstance(plan, Embedded) or not hasattr(prompt, "secret"):
            raise ConfigError(user_text("chat.no_key"))
        self._host.print_notice(user_text("cli.first_secret", place=show_url(plan.base_url)))
        key = (await prompt.secret()).strip()
        place = await replace_key(options, plan, key)
        self._host.print_notice(user_text("cli.first_key_kept", place=place))
        await asyncio.to_thread(self._host.talk.use_model, options.model)

    def _model_line(self) -> str:
        """Return the model and its server."""
        choice = self._host.talk.choice
        url = getattr(getattr(choice.client, "inner", choice.client), "base_url", "")
        return f"{choice.model} · {show_url(str(url))}" if url else choice.model

    async def _list_models(self) -> None:
        """Print the models of the server except the current one."""
        try:
            names = await self._host.talk.models()
        except PureAgentLoopError as error:
            self._host.print_notice(user_text("chat.no_models", why=one_line(error_text(error))))
            return
        others = [one_line(name) for name in names if name != self._host.talk.choice.model]
        word = "models" if others else "no_other_model"
        self._host.print_notice("\n".join([user_text(f"chat.{word}"), *others]), "" if others else "dim")

    def _theme(self, words: str) -> None:
        if words and words not in THEMES:
            raise ConfigError(user_text("chat.theme", theme=one_line(words, 40), all=", ".join(THEMES)))
        if words:
            self._host.set_theme(words)
        self._host.print_notice(user_text("chat.theme", theme=self._host.theme, all=", ".join(THEMES)))

    def _keys(self, words: str) -> None:
        self._host.print_notice(user_text("chat.keys", keys=self._host.prompt.keys(words)))

    async def _sessions(self, words: str) -> None:
        store, pick = self._host.talk.place.store, getattr(self._host.prompt, "pick", None)
        if pick and store and not words and can_pick(self._host.shared.options):
            found = list(islice(in_folder(store, self._host.shared.workspace), MAX_TO_PICK))
            words = (found and await pick(found, store, self._host.theme)) or ""
            if found and not words:
                return
        sessions = list(self.sessions())
        ids = [name for name, _ in sessions]
        chosen = numbered(words, ids)
        if chosen is not None and store is not None and words.endswith("?"):
            self._host.print_notice("\n".join(preview(store, chosen)), "")
            return
        words = chosen or words
        if words in ids:
            self._host.talk.move_to(words)
            self._host.print_notice(user_text("chat.session", id=words))
            self._host.show_session()
            return
        shown = [
            (number, row) for number, row in enumerate(sessions, 1) if words.lower() in " ".join(row).lower()
        ]
        rows = "\n".join(f"{number:>2}  {name}  {about}" for number, (name, about) in shown)
        if rows:
            self._host.print_notice(rows, "")
        self._host.print_notice(user_text("chat.pick_session" if rows else "chat.no_sessions"))

    def _new(self, _: str) -> None:
        word = "new_session_after" if self._host.talk.story().entries else "new_session"
        self._host.talk.move_to(None)
        self._host.print_notice(user_text(f"chat.{word}"))

    def _fork(self, words: str) -> None:
        from pure_agent_loop.sessions.fork import fork_session

        store, session = self._recorded_session()
        new = fork_session(store, session, int(words) if words.isdecimal() else None)
        self._host.talk.move_to(new)
        self._host.print_notice(user_text("chat.forked", id=new))

    async def _rewind(self, words: str) -> None:
        """Restore the files as they were at the end of a step, and continue in a session forked from it."""
        store, session = self._recorded_session()
        if not words.isdecimal():
            self._list_steps("steps")
            return
        from pure_agent_loop.sessions.fork import end_of_step, fork_session

        new = fork_session(store, session, int(words))  # first, because it fails if the step is missing
        moment = end_of_step(store.read(session).records, int(words))
        snapshots, known = await self._snapshots()
        report = await snapshots.undo(known, since=moment) if known else None
        if report is not None and (report.restored or report.removed or report.conflicts):
            self._report(report)
        self._host.talk.move_to(new)
        self._host.print_notice(user_text("chat.rewound", step=words, id=new))

    async def _time(self, words: str) -> None:
        """Show the last action of a step, and how the files have changed since. Nothing is changed."""
        from pure_agent_loop.sessions.export import moment as clock
        from pure_agent_loop.sessions.fork import end_of_step

        store, session = self._recorded_session()
        if not words.isdecimal():
            self._list_steps("time")
            return
        moment = end_of_step(store.read(session).records, int(words))
        story = self._host.talk.story()
        last = [entry for entry in self._steps() if entry.step <= int(words)][-1:]
        did = "".join(map(_did, last))
        self._host.print_notice(
            user_text("chat.time_step", step=words, steps=story.steps, time=clock(moment), did=did), ""
        )
        snapshots, known = await self._snapshots()
        changes = await snapshots.changes_since(known, moment=moment) if known else []
        for change in changes:
            self._host.show_diff(change.path, change.diff)
        files = "since" if changes else "same" if known else "unknown"
        self._host.print_notice(user_text(f"chat.time_files_{files}", step=words))

    def _steps(self) -> list[Entry]:
        """Return the answers and calls of the session."""
        entries = self._host.talk.story().entries
        return [entry for entry in entries if entry.kind in ("answer", "call") and entry.step]

    def _list_steps(self, word: str) -> None:
        rows = [f"{entry.step:>3}  {_did(entry)}" for entry in self._steps()]
        self._host.print_notice("\n".join([user_text(f"chat.{word}"), *rows]), "")

    def _export(self, words: str) -> None:
        from pure_agent_loop.sessions.export import to_html, to_markdown

        store, session = self._recorded_session()
        path = self._host.shared.workspace / Path(words or f"{file_name(session)}.md").expanduser()
        make = to_html if path.suffix in (".html", ".htm") else to_markdown
        text = make(store.read(session).records)
        try:
            with path.open("x", encoding="utf-8", newline="\n") as file:
                file.write(text)
        except FileExistsError:
            raise ConfigError(user_text("chat.exists", path=path)) from None
        except OSError as error:
            raise ConfigError(user_text("chat.no_file", path=path, why=error.strerror)) from None
        self._host.print_notice(user_text("chat.exported", path=path))

    def _recorded_session(self) -> tuple[Any, str]:
        place = self._host.talk.place
        if place.store is None or place.session_id is None or not place.store.exists(place.session_id):
            raise ConfigError(user_text("chat.no_session"))
        return place.store, place.session_id

    def _compact(self, words: str) -> None:
        from pure_agent_loop.llm.tokens import estimate_message

        state = self._host.talk.state
        tokens = sum(map(estimate_message, state.messages)) if state else 0
        if state and tokens < WORTH_COMPACTING:
            self._host.print_notice(user_text("chat.compact_little", tokens=f"{tokens:,}"))
        self._host.talk.compact_next = words
        self._host.print_notice(user_text("chat.compact_next"))

    async def _undo(self, words: str) -> None:
        snapshots, session = await self._snapshots()
        if not session:
            self._host.print_notice(user_text("chat.nothing_undone"))
            return
        report = await snapshots.undo(session, force=words == "force", dry_run=words not in ("yes", "force"))
        for step in report.steps if report.is_dry else ():
            for change in await snapshots.diff(session, step):
                self._host.show_diff(change.path, reverse(change.diff))
        self._report(report)

    async def _redo(self, _: str) -> None:
        snapshots, session = await self._snapshots()
        if session:
            self._report(await snapshots.redo(session), "redone")
        else:
            self._host.print_notice(user_text("chat.nothing_undone"))

    async def _snapshots(self) -> tuple[WorkspaceSnapshots, str]:
        from pure_agent_loop.snapshots import WorkspaceSnapshots

        snapshots = self._host.shared.toolset.snapshots or WorkspaceSnapshots(self._host.shared.workspace)
        known, session = await snapshots.sessions(), self._host.talk.place.session_id
        return snapshots, session if session in known else ""

    def _report(self, report: UndoReport, done: str = "undone") -> None:
        paths = ", ".join(one_line(path) for path in (*report.restored, *report.removed))
        for conflict in report.conflicts:
            self._host.print_notice(
                user_text("chat.left", path=conflict.path, reason=conflict.reason), "warning"
            )
        # Even if no step is undone, files that a later undo changed may have been restored.
        if not report.steps and not paths:
            self._host.print_notice(user_text("chat.nothing_undone"))
        elif report.is_dry:
            self._host.print_notice(user_text("chat.would_undo", files=paths))
        elif paths:
            self._host.print_notice(user_text(f"chat.{done}", files=paths))

    def _exit(self, _: str) -> None:
        self._host.leave()


def _did(entry: Entry) -> str:
    """Return an answer or a call on one line."""
    if entry.kind != "call":
        return one_line(entry.text, 80)
    return one_line(entry.title or f"{entry.tool} {main_argument(parsed_object(entry.text) or {})}", 80)


# -- tables ----------------------------------------------------------------------------------------------


def context_rows(state: QueryState, known: Mapping[str, Any], width: int) -> str:
    """Return what fills the context window: one row per kind of content, and the sum.

    Args:
        known: ``tokens`` of the last request and the ``window``; empty or 0 if unknown.
        width: Columns of the bars; 0 for no bars.
    """
    from pure_agent_loop.llm.tokens import estimate_message, estimate_tokens

    sizes = dict.fromkeys(_ROLES, 0)
    sizes["system"] = estimate_tokens(state.system_prompt)
    for message in state.messages:
        role = "facts" if _is_facts(message) else str(message.get("role"))
        sizes[role] = sizes.get(role, 0) + estimate_message(message)
    used, window = known.get("tokens") or sum(sizes.values()), known.get("window") or 0
    sizes["definitions"] = max(0, used - sum(sizes.values()))
    if window:
        sizes["free"] = max(0, window - used)
    whole = max(window or used, *sizes.values(), 1)
    filled = {name: min(width, -(-width * size // whole)) for name, size in sizes.items()}
    rows = [
        (user_text(f"chat.context_{name}"), f"{size:,}", "█" * filled[name] + "░" * (width - filled[name]))
        for name, size in sizes.items()
        if size or name in _ROLES
    ]
    total = (
        user_text("chat.context_of", used=short(used), window=short(window), share=f"{used / window:.0%}")
        if window
        else user_text("chat.context_unknown", used=short(used))
    )
    return "\n".join([*_aligned(rows), total])


def _is_facts(message: Mapping[str, Any]) -> bool:
    return bool((message.get("meta") or {}).get("facts"))


def cost_rows(task: Spent, every: Spent, currency: str) -> str:
    """Return the usage of the last task and of all tasks: tokens, money and time."""
    unknown = user_text("chat.unknown")
    rows: list[tuple[str, ...]] = [("", user_text("chat.cost_task"), user_text("chat.cost_all"))]
    for name in ("prompt", "cached", "completion"):
        counts = [getattr(spent.usage, f"{name}_tokens") for spent in (task, every)]
        if name != "cached" or any(counts):
            rows.append((user_text(f"chat.cost_{name}"), *(f"{count or 0:,}" for count in counts)))
    costs = (unknown if spent.cost is None else money(spent.cost, currency) for spent in (task, every))
    rows.append((user_text("chat.cost_money"), *costs))
    rows.append((user_text("chat.cost_time"), *(seconds(round(spent.seconds)) for spent in (task, every))))
    return "\n".join(_aligned(rows))


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return rows as lines: the first column left-aligned, all other columns right-aligned."""
    first, *others = zip(*rows, strict=True)
    columns = [aligned(first), *(aligned(column, right=True) for column in others)]
    return ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]
