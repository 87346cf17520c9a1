"""Find the session that a command names."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pure_agent_loop.cli.database import at_database, open_engine
from pure_agent_loop.cli.options import PICK, CommandOptions
from pure_agent_loop.cli.output import CommandOutput, counted
from pure_agent_loop.cli.questions import TerminalQuestions
from pure_agent_loop.cli.session_list import preview, title_of
from pure_agent_loop.cli.task import PipedAnswer
from pure_agent_loop.errors import (
    ConfigError,
    SessionLockedError,
    SessionNotFoundError,
    SessionWriteError,
)
from pure_agent_loop.inbox import Inbox
from pure_agent_loop.media import MediaItem
from pure_agent_loop.sessions import (
    JsonlStore,
    SessionInfo,
    SessionStore,
    check_session_name,
    default_store,
    new_session_id,
)
from pure_agent_loop.support.language import model_text, notice, user_text
from pure_agent_loop.support.terminal import is_terminal, knows_escapes

if TYPE_CHECKING:
    from pure_agent_loop import QueryState
    from pure_agent_loop.agent import Agent
    from pure_agent_loop.cancel import CancelToken
    from pure_agent_loop.durable import Engine, SessionCopy
    from pure_agent_loop.runs import Run

NEWEST = 3
MAX_TO_PICK = 20
FOLDER = "folder"  # type of the record that contains a session's folder


class SessionTarget:
    """The session that records a run.

    Args:
        session_id: The session; None to record nothing.
        store: The store of the session; None for the default store.
        engine: The engine of the database, if there is one.
        folder: The folder of a new session; None to record no folder.
        database: The URL of ``--database``.
        named: True if the user named the session; otherwise, the run continues even if it cannot be recorded.
        is_last: True if ``--continue`` will find the session.
    """

    def __init__(
        self,
        session_id: str | None = None,
        store: SessionStore | None = None,
        engine: Engine | None = None,
        folder: Path | None = None,
        database: str | None = None,
        *,
        named: bool = True,
        is_last: bool = False,
    ) -> None:
        self.session_id = session_id
        self.store, self._engine, self._folder, self._named = store, engine, folder, named
        self._is_last = is_last
        self._database = database
        self._history: QueryState | None = None
        self._whole: str | None = None  # id of the session if none of its runs was moved to a worker
        self._leave = ExitStack()

    def prepare(
        self,
        agent: Agent,
        task: str | None,
        token: CancelToken,
        notify: Callable[[str], None],
        *,
        inbox: Inbox | None = None,
        media: Sequence[MediaItem] = (),
    ) -> Run:
        """Prepare a run in the session, and add pending notices to the run's inbox.

        An unrecorded run continues from the history of the previous run.
        """
        inbox = inbox or Inbox()
        try:
            self._note_folder()
        except SessionWriteError as error:
            if self._named:
                raise
            notify(user_text("cli.not_recorded", error=error))
            self.session_id = None
        left = self.left()
        earlier = self._history if self.session_id is None else None
        history = None if earlier is None else [dict(message) for message in earlier.messages]
        run = agent.prepare(
            task,
            history,
            cancel_token=token,
            session_id=self.session_id,
            sessions=self.store,
            inbox=inbox,
            media=media,
        )
        self._history = run.state
        if self.session_id is not None and self._engine is not None:
            self._engine.bring_notices(self.session_id, inbox, run.prompts, store=self.store)
        if left:
            # The model does not get the run's id, so that it cannot read an answer the user has not seen.
            inbox.put(model_text("run_left"), synthetic=True)
            for info in self.open_engine().queue.find_runs(workflow_ids=[left]):  # none if it was deleted
                if info.status not in ("pending", "running", "completed"):
                    about = {"run": left, "database": at_database(self._database)}
                    notify(user_text("cli.left_status", **about, status=info.status, error=info.error))
        return run

    def left(self) -> str:
        """Return the durable run that continues the session's last run; empty if there is none.

        Raises:
            PureAgentLoopError: The session or the database is unavailable.
        """
        if self.session_id is None or self.session_id == self._whole or self.store is None:
            return ""
        is_known = self.store.exists(self.session_id)
        records = self.store.read(self.session_id).records if is_known else ()
        if not any(record.type == "left" for record in records):
            self._whole = self.session_id
            return ""
        return self.receiver().left(self.store, self.session_id)

    def open_engine(self) -> Engine:
        """Return the engine of the session's database, or else of the default database."""
        if self._engine is None:
            from pure_agent_loop.durable import Engine

            self._engine = Engine()
        return self._engine

    def receiver(self, model: str = "", **options: Any) -> SessionCopy:
        """Return the receiver that continues a run of this session in a worker; see `SessionCopy`."""
        from pure_agent_loop.durable import SessionCopy

        self._whole = None
        return SessionCopy(self.open_engine(), model, **options)

    def attend(self) -> bool:
        """Mark the session as open in this process; return False if another process has it open."""
        self._leave.close()
        if isinstance(self.store, JsonlStore) and self.session_id is not None:
            try:
                self._leave.callback(self.store.attend(self.session_id).release)
            except SessionLockedError:
                return False
            except OSError:  # if the lock cannot be created, records cannot be either
                return True
        return True

    def stamp(self) -> object:
        """Return a value that changes with each record; None if the session or the store has no stamp."""
        stamp = getattr(self.store, "stamp", None)
        return None if stamp is None or self.session_id is None else stamp(self.session_id)

    def forget(self) -> None:
        """Forget the history of unrecorded runs."""
        self._history = None

    def _note_folder(self) -> None:
        """Record the folder of a new session."""
        if self.session_id is None or self._folder is None or self.store is None:
            return
        with self.store.open(self.session_id) as log:
            if not log.records:
                log.append(FOLDER, {"folder": str(self._folder)})

    def resume_hint(self) -> str:
        """Return the session and the command that resumes it; empty if nothing is recorded."""
        if self.session_id is None:
            return ""
        if self._is_last:
            return user_text("cli.resume_last")
        option = to_resume(self.session_id, self._database)
        return user_text("cli.resume_session", session=self.session_id, option=option)

    def close(self) -> None:
        """Close the connections."""
        self._leave.close()
        if self._engine is not None:
            self._engine.close()


def answer_there(place: SessionTarget, answer: PipedAnswer) -> int:
    """Record the answer to a question and return the number of pending questions.

    Raises:
        ConfigError: Nothing is recorded, or no question is pending for the call.
        SessionError: The session cannot be read or written.
    """
    if place.store is None or place.session_id is None or not place.store.exists(place.session_id):
        raise ConfigError(notice("cli.no_session_option"))
    from pure_agent_loop.session import SessionManager

    manager = SessionManager(place.store)
    manager.answer(place.session_id, answer.call_id, answer.verdict, answer.message)
    return len(manager.questions(place.session_id))


def is_resuming(options: CommandOptions) -> bool:
    """True if the command resumes a session, so that no task is needed."""
    return options.resume is not None or options.continue_last


def place_for_run(
    options: CommandOptions, workspace: Path, questions: TerminalQuestions | None, output: CommandOutput
) -> SessionTarget:
    """Choose the session for a run: a new one in the folder, unless options name another.

    Raises:
        ConfigError: The id or the URL is invalid, or no session can be resumed.
        MissingExtraError: The extra for the database is missing.
        SessionNotFoundError: The session does not exist.
    """
    named = options.session is not None or is_resuming(options)
    if options.explain and named:
        raise ConfigError(notice("cli.explain_session"))
    if not named and (options.no_session or options.explain):
        if options.database is not None:
            raise ConfigError(notice("cli.database_session"))
        return SessionTarget()
    with ExitStack() as undo:
        engine = open_engine(options.database)
        if engine is not None:
            undo.callback(engine.close)
            store: SessionStore = engine.sessions
            chosen = _session_id(options, store, None, questions, output) if named else new_session_id()
            place = SessionTarget(chosen, store, engine, database=options.database)
        else:
            store = default_store()
            if deleted := _prune(store, options.keep_sessions):
                output.info(
                    notice(
                        "cli.kept_sessions",
                        count=counted(len(deleted), "session"),
                        keep_sessions=options.keep_sessions,
                    )
                )
            chosen = _session_id(options, store, workspace, questions, output) if named else new_session_id()
            is_last = options.continue_last or not named
            place = SessionTarget(chosen, store, None, workspace, named=named, is_last=is_last)
        if named:
            place.left()  # if a process died while moving its run to a worker, this makes the run resumable
        undo.pop_all()
        if not place.attend() and named:
            output.info(user_text("cli.open_elsewhere", session=shlex.quote(chosen)))
        return place


def _prune(store: SessionStore, days: int | None) -> list[str]:
    if days is None:
        return []
    from pure_agent_loop.session import prune

    return prune(store, days, time.time())


def to_resume(session_id: str, database: str | None) -> str:
    """Return the arguments of ``pal run`` that resume a session, without passwords."""
    return f"--resume {shlex.quote(session_id)}{at_database(database)}"


def _session_id(
    options: CommandOptions,
    store: SessionStore,
    folder: Path | None,
    questions: TerminalQuestions | None,
    output: CommandOutput,
) -> str:
    if options.session is not None:
        return checked(options.session)
    if options.resume is not None and options.resume != PICK:
        return existing(options.resume, store)
    sessions = in_folder(store, folder)
    if options.resume == PICK:
        if questions is not None and can_pick(options):
            return _picked_on_screen(list(islice(sessions, MAX_TO_PICK)), store, options, output)
        return _picked(list(islice(sessions, MAX_TO_PICK)), store, questions, output)
    return last_of(store, folder)


def last_of(store: SessionStore, folder: Path | None) -> str:
    """Return the most recently used session in a folder.

    Args:
        folder: The folder; None for all sessions.

    Raises:
        ConfigError: No session exists.
    """
    last = next(in_folder(store, folder), None)
    if last is None:
        raise ConfigError(
            user_text("cli.no_session_of_folder" if folder else "cli.no_session_to_resume", folder=folder)
        )
    return last.id


def in_folder(store: SessionStore, folder: Path | None) -> Iterator[SessionInfo]:
    """Yield the sessions in a folder (None for all folders), most recently used first."""
    for info in store.list():
        if folder is None or folder_of(store, info.id) == str(folder):
            yield info


def folder_of(store: SessionStore, session_id: str) -> str:
    """Return the folder of a session; empty for sessions of subagents and in databases."""
    first = store.first(session_id) if isinstance(store, JsonlStore) else None
    return str(first.data.get("folder", "")) if first is not None and first.type == FOLDER else ""


def numbered(text: str, ids: Sequence[str]) -> str | None:
    """Return the session id for a listed number, with or without a trailing ``?``; None for other text."""
    number = text.removesuffix("?")
    return ids[int(number) - 1] if number.isdecimal() and 1 <= int(number) <= len(ids) else None


def can_pick(options: CommandOptions) -> bool:
    """True if sessions can be chosen on a screen: no screen reader, and a terminal with escape sequences."""
    streams = is_terminal(sys.stdin) and is_terminal(sys.stdout)
    packages = all(map(importlib.util.find_spec, ("prompt_toolkit", "rich")))
    return streams and knows_escapes() and packages and not options.screen_reader


def _picked_on_screen(
    sessions: list[SessionInfo], store: SessionStore, options: CommandOptions, output: CommandOutput
) -> str:
    from pure_agent_loop.cli.chat.picker import SessionPicker
    from pure_agent_loop.cli.chat.styling import Styler, theme_of

    if not sessions:
        raise ConfigError(user_text("cli.pick_by_id", newest=user_text("cli.no_items")))
    styler = Styler(output.colour, theme_of(options.theme, os.environ), reader=False)
    chosen = asyncio.run(SessionPicker(sessions, store, styler).run())
    if chosen is None:
        raise ConfigError(user_text("cli.none_picked"))
    return chosen


def _picked(
    sessions: list[SessionInfo],
    store: SessionStore,
    questions: TerminalQuestions | None,
    output: CommandOutput,
) -> str:
    if not sessions or questions is None:
        newest = ", ".join(map(_named, sessions[:NEWEST])) or user_text("cli.no_items")
        raise ConfigError(user_text("cli.pick_by_id", newest=newest))
    from pure_agent_loop.sessions.export import moment

    lines = [f"{moment(info.updated)}  {title_of(store, info.id)}" for info in sessions]
    _show(lines, "", output)
    while reply := (questions.line(user_text("cli.which_session")) or "").strip():
        chosen = numbered(reply, [info.id for info in sessions])
        if chosen is None:
            _show(lines, reply, output)
        elif reply.endswith("?"):
            output.info("\n".join(preview(store, chosen)))
        else:
            return chosen
    raise ConfigError(user_text("cli.none_picked"))


def _show(lines: Sequence[str], word: str, output: CommandOutput) -> None:
    for number, line in enumerate(lines, start=1):
        if word.lower() in line.lower():
            output.info(f"{number:>3}  {line}")


def existing(session_id: str, store: SessionStore) -> str:
    """Return the id if the session exists.

    Raises:
        ConfigError: The id is invalid.
        SessionNotFoundError: The session does not exist; the message names the newest ones.
    """
    if store.exists(checked(session_id)):
        return session_id
    newest = ", ".join(_named(info) for info in store.list()[:NEWEST])
    raise SessionNotFoundError(
        user_text(
            "cli.no_such_session" if newest else "cli.no_sessions_at_all", session=session_id, newest=newest
        )
    )


def checked(session_id: str) -> str:
    """Return the id if it is valid.

    Raises:
        ConfigError: The id is invalid.
    """
    try:
        return check_session_name(session_id)
    except ConfigError as error:
        raise ConfigError(notice("cli.session_id", **error.args[0].values)) from None


def _named(info: SessionInfo) -> str:
    from pure_agent_loop.sessions.export import moment

    return f"{info.id} ({moment(info.updated)})"
