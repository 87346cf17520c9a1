"""The command ``sessions``: list, answer, export, fork, repair and delete sessions."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
import textwrap
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pure_agent_loop.cli.arguments import (
    add_actions,
    add_count,
    add_json,
    add_options,
    describe,
)
from pure_agent_loop.cli.exits import DONE, FAILED
from pure_agent_loop.cli.options import SessionOptions
from pure_agent_loop.cli.output import CommandOutput, counted
from pure_agent_loop.cli.questions import TerminalQuestions, question_text
from pure_agent_loop.cli.which_session import (
    MAX_TITLE,
    at_database,
    checked,
    existing,
    folder_of,
    in_folder,
    last_of,
    prune,
    store_for,
    to_resume,
)
from pure_agent_loop.errors import ConfigError, SessionError, SessionWriteError
from pure_agent_loop.session import SessionManager
from pure_agent_loop.sessions import JsonlStore, Record, SessionInfo, SessionStore
from pure_agent_loop.sessions.export import about, moment, to_html, to_markdown
from pure_agent_loop.sessions.fork import fork_session
from pure_agent_loop.sessions.story import Entry, read_story
from pure_agent_loop.subagents import TaskStore
from pure_agent_loop.support.language import in_user_language, notice, user_text
from pure_agent_loop.support.numbers import positive
from pure_agent_loop.support.terminal import excerpt, is_terminal, one_line, safe_text

LONG_ANSWER, LONG_RESULT = 40, 8  # lines
FORMATS = ("markdown", "html", "jsonl")
MARKS = {"call": "->", "result": "<-", "thinking": "..", "notice": "--", "user": ">"}
_EPILOG = """\
examples:
  pal run --session trip "Plan a day in Oslo."
  pal sessions list
  pal sessions show trip
  pal sessions export trip --format html -o trip.html
  pal sessions fork trip --at 2 --as other-trip
  pal sessions waiting
  pal sessions answer trip call_1 deny --message "Not on Sundays."
"""


def add_sessions(parser: argparse.ArgumentParser) -> None:
    """Add its arguments."""
    describe(parser, "List and manage the sessions that 'pal' records.", _EPILOG)
    actions = add_actions(parser)
    listing = actions.add_parser("list", help="list sessions, most recently used first")
    add_count(listing)
    add_json(listing)
    add_options(listing, SessionOptions, only=("database",))
    listing.add_argument("--all", action="store_true", help="include sessions of subagents")
    listing.add_argument("--here", action="store_true", help="only sessions started in this folder")
    listing.add_argument("words", nargs="*", metavar="WORD", help="only sessions that contain every WORD")
    show = actions.add_parser("show", help="show the history of a session, long texts shortened")
    show.add_argument("id", metavar="ID", nargs="?", help="session (default: the last of this folder)")
    add_options(show, SessionOptions, only=("database",))
    show.add_argument("--answer", action="store_true", help="print only the last answer, unformatted")
    show.add_argument("--json", action="store_true", help="print one JSON object with all records")
    export = _with_id(actions, "export", "export a session as a document")
    export.add_argument("--format", choices=FORMATS, required=True, help="format of the document")
    export.add_argument("-o", "--output", metavar="FILE", help="write to FILE instead of standard output")
    fork = _with_id(actions, "fork", "start a new session from a point of another")
    fork.add_argument("--at", type=positive, metavar="N", help="last step to copy (default: all)")
    fork.add_argument("--as", dest="new_id", metavar="NEW", help="ID of the new session")
    delete = actions.add_parser("delete", help="delete sessions")
    delete.add_argument("ids", nargs="+", metavar="ID", help="a session")
    add_options(delete, SessionOptions, only=("database",))
    delete.add_argument("-y", "--yes", action="store_true", help="do not ask for confirmation")
    pruned = actions.add_parser("prune", help="delete finished sessions that were not used for long")
    pruned.add_argument(
        "--days", type=positive, default=90, metavar="N", help="days since the last use (default: 90)"
    )
    add_options(pruned, SessionOptions, only=("database",))
    _with_id(actions, "repair", "copy the intact records of a session into a new one")
    waiting = actions.add_parser("waiting", help="list suspended sessions and their questions")
    add_json(waiting)
    add_options(waiting, SessionOptions, only=("database",))
    answering = _with_id(actions, "answer", "answer a question; 'pal run --resume' continues the run")
    answering.add_argument("call_id", metavar="CALL", help="id of the call; 'waiting' shows it")
    answering.add_argument("verdict", choices=("allow", "deny"), help="allow or deny the call")
    answering.add_argument("--message", default="", metavar="TEXT", help="reason for the model when denied")


def _with_id(actions: Any, name: str, summary: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(name, help=summary)
    parser.add_argument("id", metavar="ID", help="session")
    add_options(parser, SessionOptions, only=("database",))
    return parser


def sessions(options: argparse.Namespace, output: CommandOutput) -> int:
    """Run the action and return the exit code."""
    with store_for(options.database) as store:
        return _ACTIONS[options.action](options, store, output)


def _list(options: argparse.Namespace, store: SessionStore, output: CommandOutput) -> int:
    sessions = list(in_folder(store, Path.cwd() if options.here else None))
    children = {record.session_id for record in TaskStore().list()}
    matches = [info for info in sessions if options.all or info.id not in children]
    excerpts: dict[str, str] = {}
    if options.words:
        excerpts = {info.id: text for info in matches if (text := _excerpt(info, store, options.words))}
        matches = [info for info in matches if info.id in excerpts]
    shown = [_summary(info, store) for info in matches[: options.limit]]
    for row in shown:
        row.update({"said": excerpts[row["id"]]} if excerpts else {})
    if options.json:
        output.json({"sessions": shown, "total": len(matches)})
        return DONE
    width = output.width
    output.result("".join(_row(row, width) for row in shown))
    if len(matches) > len(shown):
        output.info(notice("cli.sessions_more", number=len(matches) - len(shown), count=len(matches)))
    if len(sessions) > len(matches):
        output.info(notice("cli.sessions_of_subagents", number=len(sessions) - len(matches)))
    if not matches:
        database = at_database(options.database)
        output.info(notice("cli.sessions_none", begin=_begin(database)))
    return DONE


def _excerpt(info: SessionInfo, store: SessionStore, words: Sequence[str]) -> str:
    """Return the text around the first of these words; empty if the session lacks one of them."""
    try:
        entries = read_story(store.read(info.id).records).entries
    except SessionError:
        return ""
    text = "\n".join(entry.text for entry in entries)
    places = [re.search(re.escape(word), text, re.IGNORECASE) for word in words]
    if not places or not all(places):
        return ""
    start = max(0, min(place.start() for place in places if place) - 20)
    return f"{'...' if start else ''}{one_line(text[start : start + 200])}"


def _begin(database: str) -> str:
    return notice("cli.begin_in", database=database) if database else notice("cli.begin")


def _summary(info: SessionInfo, store: SessionStore) -> dict[str, Any]:
    row = asdict(info)
    try:
        loaded = store.read(info.id)
    except SessionError as error:  # deleted meanwhile, or unreadable
        return {**row, "problem": str(error)}
    story = read_story(loaded.records)
    row.update(steps=story.steps, messages=story.messages, task=story.task, stop_reason=story.stop_reason)
    row.update(title=one_line(story.title, MAX_TITLE), folder=folder_of(store, info.id))
    return {**row, "problem": "; ".join(loaded.problems)} if loaded.problems else row


def _row(row: dict[str, Any], width: int) -> str:
    parts = [f"{row['id']:<24}", moment(row["updated"]), _size(row["size_bytes"])]
    if "steps" in row:
        parts += [in_user_language(counted(row[f"{noun}s"], noun)) for noun in ("step", "message")]
    notes = [] if row.get("stop_reason") == "completed" or "steps" not in row else [_end_of(row)]
    if row.get("problem"):
        notes.append(user_text("cli.damaged"))
    text = user_text("cli.row_notes", notes=", ".join(notes), text=_tasks(row)) if notes else _tasks(row)
    task = one_line(text, width - 4)
    excerpt = (
        f"\n    {user_text('cli.said', text=one_line(row['said'], width - 10))}" if "said" in row else ""
    )
    return f"{'  '.join(parts)}\n    {task}".rstrip() + f"{excerpt}\n"


def _tasks(row: dict[str, Any]) -> str:
    """Return the first task, and the last if it differs."""
    first, last = row.get("title", row.get("problem", "")), row.get("task", "")
    return (
        first
        if one_line(last, MAX_TITLE) in ("", first)
        else user_text("cli.row_last", first=first, last=last)
    )


def _end_of(row: dict[str, Any]) -> str:
    return one_line(row["stop_reason"] or user_text("cli.not_finished"), 40)


def _show(options: argparse.Namespace, store: SessionStore, output: CommandOutput) -> int:
    session = last_of(store, None if options.database else Path.cwd()) if options.id is None else options.id
    loaded = store.read(existing(session, store))
    if options.answer:
        answers = [entry.text for entry in read_story(loaded.records).entries if entry.kind == "answer"]
        output.result(f"{safe_text(answers[-1]) if answers else ''}\n")
        return DONE
    if options.json:
        records = [_fields(record) for record in loaded.records]
        output.json({"id": session, "problems": loaded.problems, "records": records})
        return DONE
    story = read_story(loaded.records)
    width = output.width
    parts = [
        _block(
            "", user_text("cli.session_about", session=session, about=about(story, loaded.records)), width, 1
        )
    ]
    parts += [_entry(entry, width) for entry in story.entries]
    if story.entries and not story.stop_reason:
        parts.append(f"   {user_text('cli.session_unfinished')}\n")
    output.result("".join(parts))
    for problem in loaded.problems:
        output.info(notice("cli.damaged_why", problem=problem))
    return DONE


def _entry(entry: Entry, width: int) -> str:
    number = f"{entry.step:>2} " if entry.step and entry.kind in ("answer", "call") else "   "
    if entry.kind == "task":
        return "\n" + _block("# ", entry.text, width, LONG_ANSWER)
    if entry.kind == "answer":
        return _block(number, entry.text, width, LONG_ANSWER)
    if entry.kind == "call":
        return f"{number}-> {one_line(entry.tool, 60)} {one_line(entry.text, max(20, width - 10))}\n"
    if entry.kind == "end":
        return f"   ({one_line(entry.text, 60)})\n"
    if entry.kind == "shortened":
        return f"   {user_text('cli.session_compacted')}\n"
    text = user_text("cli.result_failed", text=entry.text) if entry.failed else entry.text
    return _block(f"   {MARKS[entry.kind]} ", text, width, LONG_RESULT)


def _block(mark: str, text: str, width: int, lines: int) -> str:
    """Return a text after a mark, wrapped to the width and indented by the width of the mark."""
    room = max(20, width - len(mark))
    shown = [
        piece
        for line in excerpt(safe_text(text), lines).expandtabs(4).split("\n")
        for piece in textwrap.wrap(line, room, drop_whitespace=False, replace_whitespace=False) or [""]
    ]
    indent = " " * len(mark)
    return "".join(
        f"{mark if number == 0 else indent}{line}".rstrip() + "\n" for number, line in enumerate(shown)
    )


def _export(options: argparse.Namespace, store: SessionStore, output: CommandOutput) -> int:
    loaded = store.read(existing(options.id, store))
    for problem in loaded.problems:
        output.info(notice("cli.export_omitted", problem=problem))
    text = _document(options.format, options.id, loaded.records)
    if options.output is None:
        output.result(text)
        return DONE
    path = Path(options.output).expanduser()
    try:
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise SessionWriteError(path, error.strerror or error) from error
    output.info(notice("cli.wrote", path=path))
    return DONE


def _document(form: str, session_id: str, records: Sequence[Record]) -> str:
    if form == "jsonl":
        return b"".join(record.to_line() for record in records).decode("ascii")
    title = f"Session {session_id}"
    return to_html(records, title) if form == "html" else to_markdown(records, title)


def _fork(options: argparse.Namespace, store: SessionStore, output: CommandOutput) -> int:
    if options.new_id is not None:
        checked(options.new_id)
    new = fork_session(store, existing(options.id, store), options.at, options.new_id)
    output.result(f"{new}\n")
    output.info(notice("cli.resume_with_task", to_resume=to_resume(new, options.database)))
    return DONE


def _prune(options: argparse.Namespace, store: SessionStore, output: CommandOutput) -> int:
    for session_id in prune(store, options.days, time.time()):
        output.info(notice("cli.deleted", session_id=session_id))
    return DONE


def _delete(options: argparse.Namespace, store: SessionStore, output: CommandOutput) -> int:
    ids = list(dict.fromkeys(existing(session_id, store) for session_id in options.ids))
    if not options.yes and not _confirmed(ids, output):
        output.info(notice("cli.nothing_deleted"))
        return FAILED
    for session_id in ids:
        store.delete(session_id)
        output.info(notice("cli.deleted", session_id=session_id))
    return DONE


def _confirmed(ids: Sequence[str], output: CommandOutput) -> bool:
    questions = TerminalQuestions.at_terminal(output) if is_terminal(sys.stdin) else None
    if questions is None:
        raise ConfigError(notice("cli.needs_yes"))
    return questions.confirm(user_text("cli.delete_question", sessions=", ".join(ids)))


def _repair(options: argparse.Namespace, store: SessionStore, output: CommandOutput) -> int:
    if not isinstance(store, JsonlStore):
        raise ConfigError(notice("cli.repair_database"))
    report = store.repair(existing(options.id, store))
    if report.path is None:
        output.info(notice("cli.repair_intact", id=options.id, kept=counted(report.kept, "record")))
        return DONE
    for change in report.changes:
        output.info(change)
    output.result(f"{safe_text(str(report.path))}\n")
    output.info(
        notice("cli.repair_copied", kept=counted(report.kept, "record"), session_id=report.session_id)
    )
    return DONE


def _waiting(options: argparse.Namespace, store: SessionStore, output: CommandOutput) -> int:
    manager = SessionManager(store)
    pending = {info.id: manager.questions(info.id) for info in manager.waiting()}
    if options.json:
        rows = [{"id": key, "questions": list(map(asdict, questions))} for key, questions in pending.items()]
        output.json({"sessions": rows})
        return DONE
    database = at_database(options.database)
    for session_id, questions in pending.items():
        lines = [session_id]
        for question in questions:
            lines += [f"    {line}" for line in question_text(question).splitlines()]
            call = shlex.quote(one_line(question.call_id))
            answer = f"{shlex.quote(session_id)} {call} allow{database}"
            lines.append(f"    {user_text('cli.answer_how', answer=answer)}")
        output.result("\n".join(lines) + "\n")
    if not pending:
        output.info(notice("cli.no_questions"))
    return DONE


def _answer(options: argparse.Namespace, store: SessionStore, output: CommandOutput) -> int:
    manager = SessionManager(store)
    manager.answer(existing(options.id, store), options.call_id, options.verdict, options.message)
    left = len(manager.questions(options.id))
    if left:
        output.info(notice("cli.answer_more", left=counted(left, "question"), id=options.id))
    else:
        output.info(notice("cli.answer_recorded", to_resume=to_resume(options.id, options.database)))
    return DONE


def _fields(record: Record) -> dict[str, Any]:
    return {name: getattr(record, name) for name in ("id", "parent", "time", "type", "data")}


def _size(number: int) -> str:
    return f"{number / 1e6:.1f} MB" if number >= 1e6 else f"{number / 1e3:.1f} kB"


_ACTIONS = {
    "list": _list,
    "show": _show,
    "export": _export,
    "fork": _fork,
    "delete": _delete,
    "prune": _prune,
    "repair": _repair,
    "waiting": _waiting,
    "answer": _answer,
}
