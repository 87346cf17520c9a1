"""The interactive conversation: send input to the agent and print each event once."""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pure_agent_loop._version import __version__
from pure_agent_loop.cli.chat.attention import AWAY_SECONDS
from pure_agent_loop.cli.chat.calls import seconds
from pure_agent_loop.cli.chat.completion import Arguments, InputCompletions
from pure_agent_loop.cli.chat.custom import CustomCommands
from pure_agent_loop.cli.chat.pasted import InputEntry
from pure_agent_loop.cli.chat.prompt import Prompt, wants_vi
from pure_agent_loop.cli.chat.questions import PermissionPrompt
from pure_agent_loop.cli.chat.slash import Slash
from pure_agent_loop.cli.chat.status import short
from pure_agent_loop.cli.chat.styling import clean, one_line, theme_of
from pure_agent_loop.cli.chat.talk import ChatConfig, ChatSession
from pure_agent_loop.cli.chat.transcript import TranscriptView
from pure_agent_loop.cli.chat.words import Groups
from pure_agent_loop.cli.database import at_database
from pure_agent_loop.cli.exits import DONE, INTERRUPTED, folder_trouble
from pure_agent_loop.cli.output import CommandOutput, currency_of, error_text, money
from pure_agent_loop.cli.task import media_named
from pure_agent_loop.cli.which_session import SessionTarget, is_resuming
from pure_agent_loop.errors import ConfigError, PureAgentLoopError
from pure_agent_loop.events import Event, EventType
from pure_agent_loop.permissions import Permission, PermissionPolicy, PermissionRequest
from pure_agent_loop.runs import Choice
from pure_agent_loop.sessions import JsonlStore
from pure_agent_loop.stop_reasons import SUSPENDED
from pure_agent_loop.support.language import user_language, user_text
from pure_agent_loop.support.terminal import knows_escapes
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.support.threads import run_in_thread
from pure_agent_loop.tool_context import ToolContext, enter_call

if TYPE_CHECKING:
    from pure_agent_loop.cli.chat.line_prompt import LinePrompt
    from pure_agent_loop.sessions.story import Entry, Story
    from pure_agent_loop.toolbox import Shell

TICK = 0.125  # seconds between checks for changes to print or draw
_MODES = ("ask", "guard", "plan", "auto")  # permission modes in the order of Shift+Tab
_INPUT_ROWS = 2  # rows of the input and the status line
_PINNED = 3  # lines of a question to repeat below its title if they have scrolled out of view
LEAVE_WORDS = ("exit", "quit", ":q")  # these words alone exit, as in Python, bash, psql and vi
_RUNNING = ("pending", "running")


class Chat:
    """An interactive conversation at a terminal.

    Args:
        attached: Images and PDFs to send with the first task.
    """

    def __init__(
        self,
        shared: ChatConfig,
        choice: Choice,
        place: SessionTarget,
        output: CommandOutput,
        attached: Sequence[Path] = (),
    ) -> None:
        self.shared, self._output = shared, output
        self.set_theme(theme_of(shared.options.theme, os.environ))
        self.permission_prompt = PermissionPrompt(
            shared, partial(self.print_notice, is_whole=True), self.show_diff, self._changed, self._call
        )
        on_ask = self.permission_prompt.ask
        self.talk = ChatSession(shared, choice, place, on_ask, self.print_notice, shows_reasoning=True)
        self.custom = CustomCommands(shared.workspace, self.permission_prompt.confirm)
        self.slash = Slash(self)
        self.prompt = self._new_prompt()
        self._work: asyncio.Task[None] | None = None
        self._leaving: asyncio.Task[None] | None = None  # the run is being handed over to a worker
        self._finding: asyncio.Task[None] | None = None  # thread that looks up the context window
        self._above: list[str] = []
        self._note = ""
        self._tasks: dict[str, str] = {}  # states of subagent tasks, by id
        self._attached = list(attached)
        self._shell_transcript: list[str] = []  # `!` commands and their output, sent with the next task
        self._is_leaving = self._is_stopping = self._has_plan = False
        self._run_since = math.inf  # when a run or a `!` command began
        self._next: list[InputEntry] = []  # input sent while a run was stopping

    def _new_prompt(self) -> Prompt | LinePrompt:
        if not knows_escapes():
            from pure_agent_loop.cli.chat.line_prompt import LinePrompt

            return LinePrompt(self, self._output.result)
        completions = InputCompletions(
            self.shared.workspace, self.slash.known, Arguments(self.talk, self.slash.sessions)
        )
        vi = wants_vi(Path.home())
        plain = self.shared.options.screen_reader
        calls, colour = not self.shared.options.no_bell, self._output.colour
        return Prompt(self, completions, self.shared.workspace, vi=vi, color=colour, plain=plain, calls=calls)

    # -- start and end ----------------------------------------------------------------------------------

    async def run(self, first: str) -> int:
        """Run the conversation until the user exits; return the exit code.

        Args:
            first: The first task; empty for none.
        """
        self._measure()
        self._open(first)
        tick = asyncio.ensure_future(self._draw_loop())
        try:
            await self.prompt.run()
        finally:
            tick.cancel()
            await self._wind_up()
        if hint := self.talk.place.resume_hint():
            self._output.info(hint)
        return INTERRUPTED if self._is_leaving and self.is_working else DONE

    def _open(self, first: str) -> None:
        story = self.talk.story() if is_resuming(self.shared.options) else None
        if story is not None:
            self.talk.use_model_of(story)
        resumes = bool(story and story.entries and story.stop_reason in ("", SUSPENDED) and not first)
        session = user_text("chat.session", id=self.talk.place.session_id)
        told = user_text("chat.welcome") if story is None else session
        self._print(self.screen.card(f"pal {__version__}", self._start_facts(), told))
        if story is not None:
            self._show_story(story, resumes=resumes)
        if first:
            entry = InputEntry.typed(first)  # may come from a script, so only `/` commands are executed
            self._begin(self._do(entry if entry.sign == "/" else InputEntry(first, first)))
        elif resumes:
            self._print(self.screen.notice(user_text("chat.resuming")))
            self._begin(self._converse(None))

    def _start_facts(self) -> str:
        """Return the model, the folder and what the agent may do without asking; `/status` shows more."""
        folder, home = str(self.shared.workspace), str(Path.home())
        shown = f"~{folder[len(home) :]}" if folder.startswith(f"{home}/") else folder
        mode = user_text(f"mode_{self.shared.options.permission_mode}")
        return " · ".join((self.talk.choice.model, shown, mode))

    def _show_story(self, story: Story, *, resumes: bool = False) -> None:
        """Show the last turn, preceded by as many earlier turns as fit into the window.

        Args:
            resumes: True if the last run is about to resume; its unfinished step is omitted, because it will
                be repeated.
        """
        entries = [entry for entry in story.entries if not resumes or entry.step < story.steps]
        end = "" if resumes else story.stop_reason
        begins = [number for number, entry in enumerate(entries) if entry.kind == "task"] or [0]
        start = begins.pop()
        while (
            begins
            and _recorded(self._new_screen(), entries[begins[-1] :], end).count("\n") < self.prompt.rows
        ):
            start = begins.pop()
        self._print(_recorded(self.screen, entries[start:], end))
        if story.left and not resumes:
            self._tell_of_left(story.left)

    def _show_entries(self, entries: Iterable[Entry]) -> None:
        shown = [entry for entry in entries if entry.kind in ("task", "user", "answer", "end")]
        self._print("".join(map(self.screen.recorded, shown)))

    def _follow_session(self) -> bool:
        """Show what other processes have added to the session; return False if it has been deleted."""
        news = self.talk.news()
        if news is None:
            self.print_notice(user_text("chat.deleted_elsewhere"), "error", is_whole=True)
            self.talk.move_to(None)
        elif news:
            self.print_notice(user_text("chat.added_elsewhere"), is_whole=True)
            self._show_entries(news)
        return news is not None

    def show_session(self) -> None:
        """Show the last turn of the current session, and use its model."""
        story = self.talk.story()
        self.talk.use_model_of(story)
        self._show_story(story)

    async def _wind_up(self) -> None:
        """Stop the run, print the remaining output and close connections."""
        self._is_leaving = True
        if self._work is not None and not self._work.done():
            self.talk.stop()
            self._work.cancel()
            with suppress(asyncio.CancelledError):
                await self._work
        self.talk.stop_background()
        self._flush(redraw=False)
        await self.talk.close()

    # -- key actions; see `prompt.PromptActions` ------------------------------------------------------------

    @property
    def is_working(self) -> bool:
        """True while a run or a command is running."""
        return self._work is not None and not self._work.done()

    def enter(self, entry: InputEntry, *, at_end: bool = False) -> None:
        """Handle submitted input: an answer to a question, a message for the running agent, or a new task."""
        self._note = ""
        if self.permission_prompt.pending is not None:
            text_to_edit = self.permission_prompt.answer(entry.text)
            if text_to_edit is not None:
                self.prompt.put(text_to_edit)
        elif entry.has_key:
            self.print_notice(user_text("chat.holds_key"), "error")
        elif entry.named in LEAVE_WORDS and entry.named == entry.text:
            self.leave()
        elif not self.is_working:
            self._begin(self._do(entry))
        elif self._is_stopping:
            self._next.append(entry)
        elif entry.sign == "/":
            self._begin_during_run(entry)
        else:
            self.talk.steer(entry.text, at_end=at_end)
        self.prompt.redraw()

    def enter_nothing(self) -> None:
        """Handle an empty line: after an answer in mode ``plan``, carry the plan out in mode ``ask``."""
        if self._has_plan and not self.is_working:
            self.shared.options.permission_mode = "ask"
            self._begin(self._converse(user_text("chat.carry_out")))

    def stop(self) -> None:
        """Stop the run if one is in progress; a second call exits."""
        if self.is_working and not self.talk.is_stopping:
            self._note, self._is_stopping = user_text("chat.stopping"), True
            if self.talk.is_working:
                self.talk.stop()
            elif self._work is not None:
                self._work.cancel()
        elif self._note:
            self.leave()
        else:
            self._note = user_text("chat.leave_again")
        self.prompt.redraw()

    def leave(self) -> None:
        """Exit the conversation."""
        if not self._is_leaving:
            self._is_leaving = True
            self.prompt.exit()

    def unfold(self, last: int = 1) -> None:
        """Show a folded block in full; number 1 is the last block."""
        self._print(self.screen.unfold(last))

    def to_background(self) -> None:
        """Move a running subagent task to the background; if there is none, hand the run over to a worker."""
        running = [task_id for task_id, state in self._tasks.items() if state in _RUNNING]
        manager = self.shared.toolset.subagents
        move = getattr(manager, "background", None)
        if move is not None and running:
            with suppress(LookupError):  # the task has already ended
                move(running[-1])
                self.print_notice(user_text("chat.moved"))
        elif self._leaving is None and self.talk.is_working:
            self._leaving = asyncio.ensure_future(self._leave())
        else:
            self.print_notice(user_text("chat.no_background"))
        self.prompt.redraw()

    async def _leave(self) -> None:
        """Hand the run over to a worker; if that fails, the run continues here."""
        work = self._work
        try:
            receiver = await self.talk.prepare_to_leave()
            self._note = user_text("chat.leaving")
            self.prompt.redraw()
            asks = self.permission_prompt.pending is not None
            run_id, has_worker = await self.talk.leave(receiver, at_once=asks)
            self._tell_of_left(run_id, f"chat.left_{'has' if has_worker else 'no'}_worker")
        except PureAgentLoopError as error:
            self.print_notice(user_text("chat.stays", reason=error_text(error)), "error", is_whole=True)
            state = self.talk.state
            # If the run has already stopped, resume it here.
            if work and state and state.stop_reason and not isinstance(error, ConfigError):
                await asyncio.wait([work])
                self._begin(self._converse(None))
        finally:
            self._leaving, self._note = None, ""
            self._changed()

    def _tell_of_left(self, run_id: str, hint: str = "") -> None:
        about = {"run": run_id, "database": at_database(self.shared.options.database)}
        told = user_text("chat.left_for", **about, hint=user_text(hint, **about) if hint else "")
        self.print_notice(told.strip(), is_whole=True)

    def next_mode(self) -> None:
        """Switch to the next permission mode, which applies from the next task or question."""
        mode = self.shared.options.permission_mode
        index = _MODES.index(mode) if mode in _MODES else -1
        self.shared.options.permission_mode = _MODES[(index + 1) % len(_MODES)]
        self.prompt.redraw()

    def live(self) -> list[str]:
        """Return the live lines, including messages that the agent has not read yet."""
        self._measure()
        is_asking = self.permission_prompt.pending is not None  # a question needs the lines
        running = [one_line(each.command) for each in self.talk.background if each.finished is None]
        return self.screen.live(
            queued=() if is_asking else self.queued(), background=() if is_asking else running
        )

    def _measure(self) -> None:
        """Update the screen to the current size of the terminal."""
        self.screen.width = max(self.prompt.columns, 10)
        self.screen.live_lines = self.prompt.live_lines
        self.screen.room = self.prompt.room

    def answer_choices(self) -> str:
        """Return the possible answers to the pending question; empty if none is pending.

        If a question has more lines than the terminal, its title is repeated above the answers; in a small
        terminal, the first changed lines are repeated too.
        """
        pending, choices = self.permission_prompt.pending, clean(self.permission_prompt.choices())
        if pending is None:
            return choices
        lines = self.screen.choices(choices.split("\n"), len(pending.letters))
        room = self.prompt.rows - _INPUT_ROWS - len(lines)
        if pending.height >= room:
            is_hidden = room <= 2 * _PINNED  # in a small terminal, the visible lines may contain no change
            shown = pending.pinned[: min(max(room - 1, 0), _PINNED) if is_hidden else 0]
            lines = [*self.screen.question(pending.title, shown), *lines]
        return "\n".join(lines)

    @property
    def answer_keys(self) -> list[str]:
        """Keys that choose or give an answer."""
        return self.permission_prompt.keys

    def press_answer_key(self, key: str) -> None:
        """Handle one of the `answer_keys`."""
        self.permission_prompt.press(key)
        self.prompt.redraw()

    def status(self) -> str:
        """Return the status line."""
        talk = self.talk
        is_read = self.shared.options.screen_reader  # a screen reader would read a changing line each second
        return self.screen.status(
            model=talk.choice.model,
            mode=self.shared.options.permission_mode,
            cost=(cost := None if talk.usage.all is None else talk.usage.all.cost),
            currency=currency_of(self.shared.options.price) if cost else "",
            seconds=time.monotonic() - talk.begun if talk.is_working and not is_read else None,
            note=self.note(),
            window=talk.window,
        )

    def note(self) -> str:
        """Return a short notice, for example that the run is stopping; empty if there is none."""
        return self._note

    def queued(self) -> list[str]:
        """Return the sent messages that the agent has not read yet; Esc returns them to the input."""
        return [*self.talk.queued, *(entry.text for entry in self._next)]

    # -- output -----------------------------------------------------------------------------------------

    def print_notice(self, text: str, role: str = "dim", *, is_whole: bool = False) -> None:
        """Print a notice from the program; a long one is cut unless `is_whole`."""
        limits: dict[str, None] = {"max_lines": None} if is_whole else {}
        self._print(self.screen.close() + self.screen.notice(text, role, **limits))

    def show(self, markdown: str) -> None:
        """Print Markdown."""
        self._print(self.screen.markdown(markdown))

    def show_groups(self, groups: Groups) -> None:
        """Print names with descriptions, by group."""
        self._print(self.screen.groups(groups))

    def show_diff(self, name: str, text: str, max_lines: int | None = None) -> None:
        """Print up to `max_lines` lines of a diff."""
        self._print(self.screen.close() + self.screen.diff(name, text, max_lines))

    def set_theme(self, theme: str) -> None:
        """Change the color theme."""
        self.theme = theme
        self.screen = self._new_screen()

    def _new_screen(self) -> TranscriptView:
        colour, reader = self._output.colour, self.shared.options.screen_reader
        return TranscriptView(
            color=colour, animation=colour, theme=self.theme, language=user_language(), screen_reader=reader
        )

    def _print(self, text: str) -> None:
        if text:
            self._above.append(text)

    def _flush(self, *, redraw: bool = True) -> None:
        if not self._above or self.prompt.is_away:
            return
        text, self._above = "".join(self._above), []
        if redraw:
            self.prompt.print_above(text)
        else:
            self._output.result(text)

    def _changed(self) -> None:
        self._flush()
        self.prompt.redraw()

    def _call(self, text: str, *, until_back: bool = False) -> None:
        self.prompt.attention.call(text, until_back=until_back)

    async def _draw_loop(self) -> None:
        """Print finished lines and draw live ones; write nothing while idle."""
        getting_ready: asyncio.Future[Any] | None = (
            None  # loads the modules for the first task while the user types
        )
        while True:
            await asyncio.sleep(TICK)
            if self._is_leaving or not self.prompt.is_running:
                continue
            if getting_ready is None:
                getting_ready = asyncio.ensure_future(run_in_thread(self.talk.prepare))
            if self._above:
                self._flush()
            elif self.is_working:
                self._print(self.screen.still_working(time.time()))
                if self.screen.is_due():
                    self.prompt.redraw()
            elif isinstance(self.talk.place.store, JsonlStore):  # costs a file stat, not a query
                self._follow_session()

    # -- work -------------------------------------------------------------------------------------------

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        self._call("")
        self._work = asyncio.ensure_future(self._guarded(work))

    def _begin_during_run(self, entry: InputEntry) -> None:
        """Run a read-only command during a run; queue or reject any other command."""
        if self.slash.is_read_only(entry.text):
            command = asyncio.ensure_future(self._guarded(self._slash(entry.text)))
            command.add_done_callback(lambda _: self._changed())
        elif not self.talk.is_working:
            self._next.append(entry)
        else:
            self.print_notice(user_text("chat.not_now"))

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except asyncio.CancelledError:
            self._print(self.screen.close())
        except PureAgentLoopError as error:
            from pure_agent_loop.support.explained import explain  # only needed after an error

            told, kind = explain(error), getattr(error, "kind", "unknown")
            text = folder_trouble(error, self.shared.workspace) or (
                safe_str(error) if told.title else error_text(error)
            )
            self._handle_event(Event.error(0, text, True, kind, **told._asdict()))
        except Exception as error:  # noqa: BLE001 - no error may end the conversation
            trouble = folder_trouble(error, self.shared.workspace)
            self.print_notice(trouble or f"{type(error).__name__}: {safe_str(error)}", "error")
        finally:
            if not self._is_leaving:
                self._note = ""
                asyncio.get_running_loop().call_soon(self._ended)

    def _ended(self) -> None:
        """Start the input that was waiting for the end of the run; alert the person after a long run."""
        took, self._run_since = time.monotonic() - self._run_since, math.inf
        if took >= AWAY_SECONDS and not self._is_stopping:
            self._call(user_text("chat.ended_after", seconds=seconds(took)), until_back=True)
        if self._next and not self.is_working:
            self._is_stopping = False
            self._begin(self._do(self._next.pop(0)))
        self._is_stopping = self._is_stopping and self.is_working
        self._changed()

    async def _do(self, entry: InputEntry) -> None:
        text = entry.text
        if entry.sign == "/":
            await self._slash(text)
        elif entry.sign == "!":
            await self._shell(text[1:].strip())
        elif entry.sign == "#":
            note = text.lstrip("# \t")
            word = "noted" if self.talk.memory().write(note) else "known"
            self.print_notice(user_text(f"chat.{word}", note=note))
        else:
            await self._converse(text, named=entry.named)

    async def _slash(self, text: str) -> None:
        self._print(self.screen.notice(text, "bold"))
        task = await self.slash.do(text)
        if task:  # text from a server must not attach files
            await self._converse(task, named="" if ":" in text.partition(" ")[0] else task)

    async def _converse(self, task: str | None, *, named: str = "") -> None:
        if task is not None and not self._follow_session():
            self.prompt.put(task)
            return
        self._run_since = time.monotonic()
        attached, self._attached = self._attached, []
        is_plan, self._has_plan = self.shared.options.permission_mode == "plan", False
        while True:
            if task is not None:
                self._print(self.screen.user_input(task))
            shell_runs, self._shell_transcript = self._shell_transcript, []
            message = (
                None if task is None else "\n\n".join([task, *shell_runs])
            )  # the task comes first, because it becomes the title
            end = ""
            media = [*attached, *media_named(named, self.shared.workspace)]
            attached = []
            async for event in self.talk.run(message, media, named):
                self._handle_event(event)
                end = event.data["stop_reason"] if event.type is EventType.LOOP_END else end
            self._print_cost()
            task = named = self.talk.left_over()
            if not task:
                self._has_plan = is_plan and end == "completed"
                if self._has_plan:
                    self.print_notice(user_text("chat.plan_ready"))
                return
            if end != "completed":
                self.prompt.put(task)  # the model has not read the message: return it to the user
                return

    def _print_cost(self) -> None:
        """Print the usage of the task if it has cost money; `/cost` shows the usage of free models too."""
        spent, whole = self.talk.usage.task, self.talk.usage.all
        if spent is None or whole is None or not spent.cost:
            return
        currency = currency_of(self.shared.options.price)
        text = user_text(
            "chat.task_cost",
            sent=short(spent.usage.prompt_tokens),
            received=short(spent.usage.completion_tokens),
            cost=money(spent.cost, currency),
            all=user_text("chat.unknown") if whole.cost is None else money(whole.cost, currency),
        )
        self._print(self.screen.notice(text))

    def _handle_event(self, event: Event) -> None:
        if event.type is EventType.TASK:
            task = event.data["task"]
            self._tasks[str(task.get("id") or task.get("task_id"))] = str(task.get("state"))
        if event.type is EventType.STEP_END:
            self._finding = asyncio.ensure_future(self.talk.find_window())
            self._finding.add_done_callback(lambda _: self.prompt.redraw())
        if event.type is EventType.FILE_CHANGE and self.permission_prompt.has_shown(event.data["diff"]):
            self._print(self.screen.changed(event, has_diff=False))
        else:
            self._print(self.screen.feed(event))

    async def _shell(self, command: str) -> None:
        """Run a `!` command in the sandbox, with the same rules and questions as a command of the model."""
        shell = self.shared.toolset.shell
        if shell is None:
            self.print_notice(user_text("chat.no_shell"), "error")
            return
        self._run_since = time.monotonic()
        self._print(self.screen.notice(f"! {command}", "bold"))
        call_id = f"person-{time.monotonic_ns()}"
        try:
            permission = await self._decide_shell(shell, command, call_id)
            if permission.behavior == "deny":
                self.print_notice(permission.message or user_text("chat.not_run"))
                return
            command = str((permission.updated_args or {"command": command})["command"])
            self._show_shell(command, call_id)
            show = self._progress_of(call_id)
            enter_call(ToolContext("shell", call_id, 0, read_only=permission.read_only, on_piece=show))
            ended = await shell.execute(command)
        except asyncio.CancelledError:
            self._handle_event(Event.loop_end(0, "cancelled"))
            raise
        finally:
            self.screen.forget(call_id)
        self._print(self.screen.command_end(ended.end, ended.output))
        self._shell_transcript.append(f"{user_text('chat.ran')}\n$ {command}\n{ended.text}")

    async def _decide_shell(self, shell: Shell, command: str, call_id: str) -> Permission:
        """Decide whether to run a `!` command; if necessary, try it read-only or ask the user."""
        policy = PermissionPolicy(self.shared.options.permission_mode, self.slash.rules())
        args = {"command": command}
        context = policy.judge_context("shell", args, attended=True)
        self._show_shell(command, call_id)
        own = shell.judge(args, replace(context, call_id=call_id, on_piece=self._progress_of(call_id)))
        own = await own if asyncio.iscoroutine(own) else own
        permission = policy.suggest("shell", args, read_only=False, own=own, judges=True)
        if permission.behavior != "ask":
            return permission
        self.screen.forget(call_id)
        return await self.permission_prompt.ask(PermissionRequest(call_id, "shell", args, permission.message))

    def _show_shell(self, command: str, call_id: str) -> None:
        self._handle_event(Event.action(0, "shell", {"command": command}, call_id))

    def _progress_of(self, call_id: str) -> Callable[[str], Awaitable[None]]:
        async def show(piece: str) -> None:
            self._handle_event(Event.progress(0, "shell", piece, call_id))

        return show


def _recorded(screen: TranscriptView, entries: Sequence[Entry], end: str) -> str:
    """Render a session's entries and the end of its last run, which the entries may already include."""
    lines = "".join(map(screen.recorded, entries))
    if entries and entries[-1].kind == "end":
        return lines
    return lines + screen.feed(Event.loop_end(0, end))


def converse(
    shared: ChatConfig,
    choice: Choice,
    place: SessionTarget,
    output: CommandOutput,
    first: str,
    attached: Sequence[Path] = (),
) -> int:
    """Run a conversation at the terminal; return the exit code.

    Args:
        first: The first task; empty for none.

    Raises:
        MissingExtraError: The extra ``[cli]`` is not installed.
    """

    async def talk() -> int:
        return await Chat(shared, choice, place, output, attached).run(first)

    return asyncio.run(talk())
