"""The conversation at the terminal: what is typed goes to the agent, what happens is printed once."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pure_agent_loop.cli.chat.completion import Arguments, Completions
from pure_agent_loop.cli.chat.custom import CustomCommands, command_in
from pure_agent_loop.cli.chat.prompt import MOST_LIVE, Prompt, wants_vi
from pure_agent_loop.cli.chat.questions import Desk
from pure_agent_loop.cli.chat.safe import clean, theme_of
from pure_agent_loop.cli.chat.slash import Slash
from pure_agent_loop.cli.chat.talk import Shared, Talk
from pure_agent_loop.cli.chat.transcript import Transcript
from pure_agent_loop.cli.chat.words import chat_word
from pure_agent_loop.cli.exits import DONE, INTERRUPTED
from pure_agent_loop.cli.output import Output
from pure_agent_loop.cli.task import media_named
from pure_agent_loop.cli.which_session import Place, is_going_on
from pure_agent_loop.cli.words import language_of
from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.events import Event, EventType
from pure_agent_loop.permissions import PermissionPolicy, PermissionRequest
from pure_agent_loop.runs.choose import Choice
from pure_agent_loop.stop_reasons import SUSPENDED
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.support.threads import run_in_thread
from pure_agent_loop.tool_context import ToolContext, enter_call

TICK = 0.125  # seconds between two looks at what moves
LEAST_LIVE, OWN_ROWS = 1, 6  # lines that move at least; rows that the rest needs
_MODES = ("ask", "plan", "auto")  # that a key goes through
_RUNNING = ("pending", "running")


class Chat:
    """One conversation at a terminal.

    Args:
        shared: What it works with.
        choice: The model.
        place: Where it is kept.
        output: The terminal.
        attached: Images and PDF that the first task comes with.
    """

    def __init__(
        self,
        shared: Shared,
        choice: Choice,
        place: Place,
        output: Output,
        attached: Sequence[Path] = (),
    ) -> None:
        self.shared, self._output = shared, output
        self.set_theme(theme_of(shared.options.theme, os.environ))
        self.desk = Desk(shared, self._say_all, self._show_diff, self._changed)
        self.talk = Talk(shared, choice, place, self.desk.ask, self.say)
        self.custom = CustomCommands(shared.workspace, self.desk.confirm)
        self.slash = Slash(self)
        arguments = Arguments(self.talk, self.slash.sessions)
        completions = Completions(shared.workspace, self.slash.known, arguments)
        vi = wants_vi(Path.home())
        self.prompt = Prompt(self, completions, shared.workspace, vi=vi, color=output.colour)
        self._work: asyncio.Task[None] | None = None
        self._above: list[str] = []
        self._note = ""
        self._tasks: dict[str, str] = {}  # of subagents, with their states
        self._attached = list(attached)
        self._heard: list[str] = []  # what was run with `!`, for the next task
        self._is_leaving = False

    # -- from the first line to the last ------------------------------------------------------------

    async def run(self, first: str) -> int:
        """Talk until the person leaves, and return the exit code.

        Args:
            first: A task to begin with; empty for none.
        """
        self._measure()
        self._open(first)
        tick = asyncio.ensure_future(self._tick())
        try:
            await self.prompt.app.run_async(handle_sigint=False, set_exception_handler=False)
        finally:
            tick.cancel()
            await self._wind_up()
        if way := self.talk.place.way_on():
            self._output.say(way)
        return INTERRUPTED if self._is_leaving and self.is_working else DONE

    def _open(self, first: str) -> None:
        story = self.talk.story() if is_going_on(self.shared.options) else None
        if story is not None:
            self._print(self.screen.say(chat_word("session", id=self.talk.place.session_id)))
            self._show_story(story)
        else:
            self._print(self.screen.say(chat_word("welcome")))
        if first:
            self._begin(self._do(first))
        elif story is not None and story.entries and story.stop_reason in ("", SUSPENDED):
            self._print(self.screen.say(chat_word("goes_on")))
            self._begin(self._converse(None))

    def _show_story(self, story: Any) -> None:
        """What was said last, so that the person knows where they are."""
        tasks = [each.text for each in story.entries if each.kind == "task"][-1:]
        answers = [each.text for each in story.entries if each.kind == "answer" and each.text][-1:]
        for task in tasks:
            self._print(self.screen.asked(task))
        for answer in answers:
            self._print(self.screen.markdown(answer))

    def show_session(self) -> None:
        """Show what was said last in the session that it has moved to."""
        self._show_story(self.talk.story())

    async def _wind_up(self) -> None:
        """What still runs is stopped; what was said is in the session."""
        self._is_leaving = True
        if self._work is not None and not self._work.done():
            self.talk.stop()
            self._work.cancel()
            with suppress(asyncio.CancelledError):
                await self._work
        self._flush(redraw=False)
        await self.talk.close()

    # -- what the keys do; see `prompt.Acts` ----------------------------------------------------------

    @property
    def is_working(self) -> bool:
        """Whether something is going on."""
        return self._work is not None and not self._work.done()

    def enter(self, text: str, *, at_end: bool = False) -> None:
        """A text was sent: the answer to a question, something for the agent at work, or a new task."""
        self._note = ""
        if self.desk.pending is not None:
            wanted = self.desk.answer(text)
            if wanted is not None:
                self.prompt.put(wanted)
        elif not self.is_working:
            self._begin(self._do(text))
        elif command_in(text):
            self._begin_beside(text)
        else:
            self.talk.steer(text, at_end=at_end)
        self.prompt.app.invalidate()

    def stop(self) -> None:
        """Stop what goes on; the second time, or where nothing goes on, leave."""
        if self.is_working and not self.talk.is_stopping:
            self._note = chat_word("stopping")
            if self.talk.is_working:
                self.talk.stop()
            elif self._work is not None:
                self._work.cancel()
        elif self._note:
            self.leave()
        else:
            self._note = chat_word("leave_again")
        self.prompt.app.invalidate()

    def leave(self) -> None:
        """Leave the conversation."""
        if not self._is_leaving:
            self._is_leaving = True
            self.prompt.app.exit()

    def unfold(self) -> None:
        """Show the last folded thing in full."""
        self._print(self.screen.unfold())

    def unfolded(self, last: int) -> None:
        """Show a folded thing in full."""
        self._print(self.screen.unfold(last))

    def to_background(self) -> None:
        """Move a task that the run waits for to the background."""
        running = [each for each, state in self._tasks.items() if state in _RUNNING]
        manager = self.shared.toolset.subagents
        move = getattr(manager, "background", None)
        word = "no_background"
        with suppress(LookupError):  # it has just ended
            if move is not None and running:
                move(running[-1])
                word = "moved"
        self.say(chat_word(word))

    def next_mode(self) -> None:
        """Let it do more or less: from the next task on, and from the next question on."""
        mode = self.shared.options.permission_mode
        place = _MODES.index(mode) if mode in _MODES else -1
        self.shared.options.permission_mode = _MODES[(place + 1) % len(_MODES)]
        self.prompt.app.invalidate()

    def live(self) -> list[str]:
        """The lines that move."""
        self._measure()
        return self.screen.live()

    def _measure(self) -> None:
        """The terminal may have another size by now."""
        self.screen.width = max(self.prompt.columns, 10)
        self.screen.live_lines = max(LEAST_LIVE, min(MOST_LIVE, self.prompt.rows - OWN_ROWS))

    def asked(self) -> str:
        """What can be answered now."""
        return clean(self.desk.choices())

    def status(self) -> str:
        """The last line."""
        talk, queued = self.talk, self.talk.queued
        is_read = self.shared.options.screen_reader  # aloud: a line that changes each second is a noise
        note = self._note or (chat_word("queued", count=queued) if queued else "")
        return self.screen.status(
            model=talk.choice.model,
            mode=self.shared.options.permission_mode,
            cost=talk.sums.cost or None,
            seconds=time.monotonic() - talk.begun if talk.is_working and not is_read else None,
            note=note,
        )

    # -- what is printed ------------------------------------------------------------------------------

    def say(self, text: str, role: str = "dim") -> None:
        """Say something of ours."""
        self._print(self.screen.close() + self.screen.say(text, role))

    def _say_all(self, text: str, role: str) -> None:
        """Say something of which nothing may be left out."""
        self._print(self.screen.close() + self.screen.say(text, role, most=None))

    def show(self, markdown: str) -> None:
        """Show a whole text as Markdown."""
        self._print(self.screen.markdown(markdown))

    def show_diff(self, name: str, text: str) -> None:
        """Show a whole diff."""
        self._show_diff(name, text, None)

    def set_theme(self, theme: str) -> None:
        """Use these colours from now on."""
        colour = self._output.colour
        reader = self.shared.options.screen_reader
        self.theme = theme
        self.screen = Transcript(
            color=colour, animation=colour, theme=theme, language=language_of(), screen_reader=reader
        )

    def _show_diff(self, name: str, text: str, most: int | None) -> None:
        self._print(self.screen.close() + self.screen.diff(name, text, most))

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
        self.prompt.app.invalidate()

    async def _tick(self) -> None:
        """Print what is finished and draw what moves; while nothing goes on, nothing is written."""
        getting_ready: asyncio.Future[Any] | None = (
            None  # the first task's modules load while the person types
        )
        while True:
            await asyncio.sleep(TICK)
            if self._is_leaving or not self.prompt.app.is_running:
                continue
            if getting_ready is None:
                getting_ready = asyncio.ensure_future(run_in_thread(self.talk.prepare))
            if self._above:
                self._flush()
            elif self.is_working and self.screen.is_due():
                self.prompt.app.invalidate()

    # -- what goes on -----------------------------------------------------------------------------------

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        self._work = asyncio.ensure_future(self._guarded(work))

    def _begin_beside(self, text: str) -> None:
        """A command while the agent works: only those that look at something."""
        if self.slash.looks_only(text):
            beside = asyncio.ensure_future(self._guarded(self._slash(text)))
            beside.add_done_callback(lambda _: self._changed())
        else:
            self.say(chat_word("not_now"))

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except asyncio.CancelledError:
            self._print(self.screen.close())
        except PureAgentLoopError as error:
            self.say(safe_str(error), "error")
        except Exception as error:  # noqa: BLE001 - the border to the person: the conversation goes on
            self.say(f"{type(error).__name__}: {safe_str(error)}", "error")
        finally:
            if not self._is_leaving:
                self._note = ""
                asyncio.get_running_loop().call_soon(self._changed)

    async def _do(self, text: str) -> None:
        if command_in(text):
            await self._slash(text)
        elif text.startswith("!") and text[1:].strip():
            await self._shell(text[1:].strip())
        elif text.startswith("#") and text.strip("# "):
            is_new = self.talk.memory().write(text.lstrip("# "))
            self.say(chat_word("noted" if is_new else "known"))
        else:
            await self._converse(text)

    async def _slash(self, text: str) -> None:
        task = await self.slash.do(text)
        if task:  # a server's prompt may look up as little as any other text from outside
            await self._converse(task, is_own=":" not in text.partition(" ")[0])

    async def _converse(self, task: str | None, *, is_own: bool = True) -> None:
        attached, self._attached = self._attached, []
        while True:
            if task is not None:
                self._print(self.screen.asked(task))
            heard, self._heard = self._heard, []
            said = None if task is None else "\n\n".join([task, *heard])  # a title is made of its start
            end = ""
            typed = task if task is not None and is_own else ""
            media = [*attached, *media_named(typed, self.shared.workspace)]
            attached = []
            async for event in self.talk.run(said, media, typed):
                self._take(event)
                end = event.data["stop_reason"] if event.type is EventType.LOOP_END else end
            task, is_own = self.talk.left_over(), True
            if not task:
                return
            if end != "completed":
                self.prompt.put(task)  # it was not read: it is the person's again
                return

    def _take(self, event: Event) -> None:
        if event.type is EventType.TASK:
            task = event.data["task"]
            self._tasks[str(task.get("id") or task.get("task_id"))] = str(task.get("state"))
        if event.type is EventType.FILE_CHANGE and self.desk.has_shown(event.data["diff"]):
            data = event.data  # a change is shown once
            self._print(self.screen.say(f"~ {data['path']} +{data['added']} -{data['removed']}"))
        else:
            self._print(self.screen.feed(event))

    async def _shell(self, command: str) -> None:
        """Run a command of the person: in the same sandbox, under the same rules and questions."""
        shell = self.shared.toolset.shell
        if shell is None:
            self.say(chat_word("no_shell"), "error")
            return
        self._print(self.screen.say(f"! {command}", "bold"))
        options, call_id = self.shared.options, f"person-{time.monotonic_ns()}"
        policy = PermissionPolicy(options.permission_mode, self.slash.rules())
        args = {"command": command}
        context = policy.judge_context("shell", args, attended=True)
        own = shell.judge(args, context)
        own = await own if asyncio.iscoroutine(own) else own
        found = policy.suggest("shell", args, read_only=False, own=own, judges=True)
        if found.behavior == "ask":
            found = await self.desk.ask(PermissionRequest(call_id, "shell", args, found.message))
        if found.behavior == "deny":
            self.say(found.message or chat_word("stopping"), "error")
            return
        command = str((found.updated_args or args)["command"])
        enter_call(ToolContext("shell", call_id, 0, read_only=found.read_only))
        text = await shell.shell(command)
        self._print(self.screen.say(text, ""))
        self._heard.append(f"{chat_word('ran')}\n$ {command}\n{text}")


def converse(
    shared: Shared,
    choice: Choice,
    place: Place,
    output: Output,
    first: str,
    attached: Sequence[Path] = (),
) -> int:
    """Hold a conversation at the terminal, and return the exit code.

    Args:
        shared: What it works with.
        choice: The model.
        place: Where it is kept.
        output: The terminal.
        first: A task to begin with; empty for none.
        attached: Images and PDF that come with it.

    Raises:
        MissingExtraError: The extra ``[cli]`` is missing.
    """

    async def talk() -> int:
        return await Chat(shared, choice, place, output, attached).run(first)

    return asyncio.run(talk())
