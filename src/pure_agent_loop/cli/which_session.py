"""Which session a command is about, and clear words if there is no such one."""

from __future__ import annotations

import argparse
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from pure_agent_loop.cli.output import Output
from pure_agent_loop.cli.questions import Questions
from pure_agent_loop.cli.task import Answer
from pure_agent_loop.errors import ConfigError, SessionError, SessionNotFoundError, SessionWriteError
from pure_agent_loop.inbox import Inbox
from pure_agent_loop.media import MediaItem
from pure_agent_loop.sessions import (
    JsonlStore,
    SessionInfo,
    SessionStore,
    check_session_id,
    default_store,
    new_session_id,
)
from pure_agent_loop.stop_reasons import SUSPENDED
from pure_agent_loop.support.terminal import one_line
from pure_agent_loop.support.text import counted

if TYPE_CHECKING:
    from pure_agent_loop.agent import Agent
    from pure_agent_loop.cancel import CancelToken
    from pure_agent_loop.durable import Engine
    from pure_agent_loop.kernel.state import QueryState
    from pure_agent_loop.runs.run import Run
    from pure_agent_loop.sessions.story import Story

NEWEST = 3
DAY = 86_400.0
PICK = "?"  # no id: it cannot be one
MOST_TO_PICK, MOST_TITLE = 20, 60
FOLDER = "folder"  # the type of the record that says where a session began
MOST_PREVIEWED = 6
_PREVIEWED = {"task": ">", "user": ">", "answer": " ", "call": "·"}  # the mark of each kind of entry
_PICK_QUESTION = "Which one? Its number, 2? to look into it, words to search, or Enter for none: "


class Place:
    """Where ``run`` is kept.

    Args:
        session_id: The session; None for nowhere.
        store: The place of the session; None for the usual one.
        engine: The durable runs of that place, if it has any.
        folder: The folder a new session belongs to; None if it is not written down.
        database: The address that was given.
        named: Somebody asked for this session; else the run goes on also where nothing can be kept.
        is_last: ``--continue`` will find it.
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
        self._store, self._engine, self._folder, self._named = store, engine, folder, named
        self._is_last = is_last
        self._database = database
        self._history: QueryState | None = None

    @property
    def store(self) -> SessionStore | None:
        """Where its sessions are; None for nowhere."""
        return self._store

    def prepare(
        self,
        agent: Agent,
        task: str | None,
        token: CancelToken,
        say: Callable[[str], None],
        *,
        inbox: Inbox | None = None,
        media: Sequence[MediaItem] = (),
    ) -> Run:
        """A run there, which knows what came in meanwhile; what is not kept goes on from the run before."""
        inbox = inbox or Inbox()
        try:
            self._note_folder()
        except SessionWriteError as error:
            if self._named:
                raise
            say(f"nothing of this run is kept: {error}")
            self.session_id = None
        history = self._history.messages if self._history is not None and self.session_id is None else None
        run = agent.prepare(
            task,
            history,
            cancel_token=token,
            session_id=self.session_id,
            sessions=self._store,
            inbox=inbox,
            media=media,
        )
        self._history = run.state
        if self.session_id is not None and self._engine is not None:
            self._engine.bring_notices(self.session_id, inbox, run.prompts)
        return run

    def forget(self) -> None:
        """What was not kept is not gone on from."""
        self._history = None

    def _note_folder(self) -> None:
        """A new session says where it began."""
        if self.session_id is None or self._folder is None or self._store is None:
            return
        with self._store.open(self.session_id) as log:
            if not log.records:
                log.append(FOLDER, {"folder": str(self._folder)})

    def way_on(self) -> str:
        """Which session it is, and what to type to go on; empty if there is none."""
        if self.session_id is None:
            return ""
        if self._is_last:
            return "to go on: pal -c"
        return f"session {self.session_id}; to go on: pal run {to_resume(self.session_id, self._database)}"

    def close(self) -> None:
        """Give the connections back."""
        if self._engine is not None:
            self._engine.close()


def answer_there(place: Place, answer: Answer) -> int:
    """Keep the answer to a question of a session; how many more questions it has.

    Raises:
        ConfigError: Nothing is kept, nothing is asked about that call, or the call is none.
        SessionError: It cannot be read or written.
    """
    if place.store is None or place.session_id is None or not place.store.exists(place.session_id):
        raise ConfigError("There is no session whose question could be answered. Leave out --no-session.")
    from pure_agent_loop.session import SessionManager

    manager = SessionManager(place.store)
    manager.answer(place.session_id, answer.call_id, answer.verdict, answer.message)
    return len(manager.questions(place.session_id))


def prune(store: SessionStore, days: int, now: float) -> list[str]:
    """Delete the sessions that are finished and were not used for so many days; their ids.

    One that is in use, waits for a person, was cut off or cannot be read stays.

    Args:
        store: Where they are.
        now: Seconds since the epoch.
    """
    from pure_agent_loop.sessions.story import read_story

    gone = []
    for info in store.list():
        if now - info.updated < days * DAY:
            continue
        try:
            if read_story(store.read(info.id).records).stop_reason in ("", SUSPENDED):
                continue
            store.delete(info.id)
        except SessionError:
            continue
        gone.append(info.id)
    return gone


def is_going_on(options: argparse.Namespace) -> bool:
    """True if the command goes on with what there is, so that no task is needed."""
    return options.resume is not None or bool(options.go_on)


def place_for_run(
    options: argparse.Namespace, workspace: Path, questions: Questions | None, output: Output
) -> Place:
    """Where ``run`` is to be kept: in a new session of the folder, unless the options say otherwise.

    Args:
        questions: The person at the terminal, who may pick one.

    Raises:
        ConfigError: The id cannot be one, there is none to go on with, or the address is none.
        MissingExtraError: The extra for that kind of database is missing.
        SessionNotFoundError: There is no such session.
    """
    named = options.session is not None or is_going_on(options)
    if options.explain and named:
        raise ConfigError(
            "--explain shows the first request of a new run. Leave out --session, or --explain."
        )
    if options.database is not None and not named:
        raise ConfigError(
            "--database says where a session is. Say which: --session ID, --resume ID or --continue."
        )
    if not named and (options.no_session or options.explain):
        return Place()
    with ExitStack() as undo:
        engine = _open_engine(options.database)
        if engine is not None:
            undo.callback(engine.close)
            store: SessionStore = engine.sessions
            chosen = _session_id(options, store, None, questions, output)
            place = Place(chosen, store, engine, database=options.database)
        else:
            store = default_store()
            if options.keep_sessions is not None and (
                gone := prune(store, options.keep_sessions, time.time())
            ):
                output.say(
                    f"{counted(len(gone), 'session')} deleted: not used for {options.keep_sessions} days"
                )
            chosen = _session_id(options, store, workspace, questions, output) if named else new_session_id()
            is_last = options.go_on or not named
            place = Place(chosen, store, None, workspace, named=named, is_last=is_last)
        undo.pop_all()
        return place


@contextmanager
def store_for(database: str | None) -> Iterator[SessionStore]:
    """Where the sessions are that a command is about.

    Args:
        database: The option ``--database``.

    Raises:
        ConfigError: The address is none.
        MissingExtraError: The extra for that kind of database is missing.
    """
    engine = _open_engine(database)
    if engine is None:
        yield default_store()
    else:
        with closing(engine):
            yield engine.sessions


def to_resume(session_id: str, database: str | None) -> str:
    """What has to be typed after ``pal run`` to go on in a session; no password is in it."""
    return f"--resume {session_id}{at_database(database)}"


def at_database(database: str | None) -> str:
    """The option ``--database`` again, for a command that is proposed; no password is in it.

    Args:
        database: What was given; None if nothing was.
    """
    if database is None:
        return ""
    from pure_agent_loop.durable.database import hidden

    return f" --database {shlex.quote(hidden(database))}"


def _open_engine(database: str | None) -> Engine | None:
    if database is None:
        return None
    from pure_agent_loop.durable import Engine

    return Engine(database)


def _session_id(
    options: argparse.Namespace,
    store: SessionStore,
    folder: Path | None,
    questions: Questions | None,
    output: Output,
) -> str:
    if options.session is not None:
        return checked(options.session)
    if options.resume is not None and options.resume != PICK:
        return existing(options.resume, store)
    found = in_folder(store, folder)
    if options.resume == PICK:
        return _picked(list(islice(found, MOST_TO_PICK)), store, questions, output)
    return last_of(store, folder)


def last_of(store: SessionStore, folder: Path | None) -> str:
    """The session of a folder that was used last.

    Args:
        store: Where they are.
        folder: The folder; None for all sessions.

    Raises:
        ConfigError: There is none.
    """
    last = next(in_folder(store, folder), None)
    if last is None:
        where = "" if folder is None else f" of {folder}"
        raise ConfigError(f'There is no session{where} to go on with. Begin one: pal "your task"')
    return last.id


def in_folder(store: SessionStore, folder: Path | None) -> Iterator[SessionInfo]:
    """The sessions that began in a folder, the one used last first.

    Args:
        store: Where they are.
        folder: The folder; None for all sessions.
    """
    for info in store.list():
        if folder is None or folder_of(store, info.id) == str(folder):
            yield info


def folder_of(store: SessionStore, session_id: str) -> str:
    """Where a session began; empty if it does not say so, as those of subagents and of databases do not."""
    first = store.first(session_id) if isinstance(store, JsonlStore) else None
    return str(first.data.get("folder", "")) if first is not None and first.type == FOLDER else ""


def title_of(store: SessionStore, session_id: str) -> str:
    """The first task of a session, on one line."""
    return one_line(_story_of(store, session_id).title, MOST_TITLE)


def preview(store: SessionStore, session_id: str) -> list[str]:
    """The last things that were said and done in a session, a line each."""
    story = _story_of(store, session_id)
    shown = [each for each in story.entries if each.kind in _PREVIEWED][-MOST_PREVIEWED:]
    lines = [" ".join(filter(None, (_PREVIEWED[each.kind], each.tool, each.text))) for each in shown]
    return [one_line(each, 100) for each in lines] or [one_line(story.title, MOST_TITLE)]


def _story_of(store: SessionStore, session_id: str) -> Story:
    """What a session holds; one that was just deleted, or cannot be read, has that as its title."""
    from pure_agent_loop.sessions.story import Story, read_story

    try:
        return read_story(store.read(session_id).records)
    except SessionError as error:
        return Story(title=f"({error})")


def numbered(said: str, ids: Sequence[str]) -> str | None:
    """The id that a number names, with ``?`` behind it or not; None for other words."""
    at = said.removesuffix("?")
    return ids[int(at) - 1] if at.isdecimal() and 1 <= int(at) <= len(ids) else None


def _picked(
    found: list[SessionInfo], store: SessionStore, questions: Questions | None, output: Output
) -> str:
    if not found or questions is None:
        there = ", ".join(map(_named, found[:NEWEST])) or "there are none"
        raise ConfigError(f"--resume needs the id of a session here. Those of this folder: {there}.")
    from pure_agent_loop.sessions.export import moment

    lines = [f"{moment(info.updated)}  {title_of(store, info.id)}" for info in found]
    _show(lines, "", output)
    while said := (questions.line(_PICK_QUESTION) or "").strip():
        chosen = numbered(said, [each.id for each in found])
        if chosen is None:
            _show(lines, said, output)
        elif said.endswith("?"):
            output.say("\n".join(preview(store, chosen)))
        else:
            return chosen
    raise ConfigError("No session was picked.")


def _show(lines: Sequence[str], word: str, output: Output) -> None:
    for number, line in enumerate(lines, start=1):
        if word.lower() in line.lower():
            output.say(f"{number:>3}  {line}")


def existing(session_id: str, store: SessionStore) -> str:
    """The id, if there is such a session.

    Raises:
        ConfigError: The id cannot be one.
        SessionNotFoundError: There is none; the newest are named.
    """
    if store.exists(checked(session_id)):
        return session_id
    newest = ", ".join(_named(info) for info in store.list()[:NEWEST])
    there = f"The newest: {newest}." if newest else "There are none."
    raise SessionNotFoundError(f"There is no session {session_id!r}. {there}")


def checked(session_id: str) -> str:
    """The id, if it can be one.

    Raises:
        ConfigError: It cannot.
    """
    try:
        return check_session_id(session_id)
    except ConfigError as error:
        reason = str(error).partition("; new_session_id")[0].rstrip(".")
        raise ConfigError(f"{reason.replace('session_id=', '', 1)}.") from None


def _named(info: SessionInfo) -> str:
    from pure_agent_loop.sessions.export import moment

    return f"{info.id} ({moment(info.updated)})"
