"""The command ``sessions``: see, answer, export, fork, repair and delete what runs keep."""

from __future__ import annotations

import argparse
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
    add_database,
    add_json,
    describe,
)
from pure_agent_loop.cli.exits import DONE, FAILED
from pure_agent_loop.cli.output import Output
from pure_agent_loop.cli.questions import question_text
from pure_agent_loop.cli.which_session import (
    MOST_TITLE,
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
from pure_agent_loop.sessions import JsonlStore, SessionInfo, SessionStore
from pure_agent_loop.sessions.export import about, moment, to_html, to_markdown
from pure_agent_loop.sessions.fork import fork_session
from pure_agent_loop.sessions.stores.records import Record
from pure_agent_loop.sessions.story import Entry, read_story
from pure_agent_loop.subagents.tasks import TaskStore
from pure_agent_loop.support.numbers import positive
from pure_agent_loop.support.terminal import excerpt, is_terminal, one_line, safe_text
from pure_agent_loop.support.text import counted

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
    describe(parser, "See and change the sessions that 'pal' keeps.", _EPILOG)
    actions = add_actions(parser)
    listing = actions.add_parser("list", help="the sessions, the one used last first")
    add_count(listing)
    add_json(listing)
    add_database(listing)
    listing.add_argument("--all", action="store_true", help="also the sessions of subagents")
    listing.add_argument("--here", action="store_true", help="only those that began in this folder")
    listing.add_argument(
        "words", nargs="*", metavar="WORD", help="only those in which each of these was said"
    )
    show = actions.add_parser("show", help="what happened in a session; long texts are shortened")
    show.add_argument("id", metavar="ID", nargs="?", help="the session (default: the last of this folder)")
    add_database(show)
    show.add_argument("--answer", action="store_true", help="only the last answer, as it is")
    show.add_argument("--json", action="store_true", help="print one JSON object with all records")
    export = _with_id(actions, "export", "a session as a document, in full")
    export.add_argument("--format", choices=FORMATS, required=True, help="of the document")
    export.add_argument("-o", "--output", metavar="FILE", help="write it there instead of standard output")
    fork = _with_id(actions, "fork", "a new session that begins as another one did")
    fork.add_argument("--at", type=positive, metavar="N", help="the last step to copy (default: all)")
    fork.add_argument("--as", dest="new_id", metavar="NEW", help="the name of the new one")
    delete = actions.add_parser("delete", help="take sessions away")
    delete.add_argument("ids", nargs="+", metavar="ID", help="a session")
    add_database(delete)
    delete.add_argument("-y", "--yes", action="store_true", help="do not ask")
    pruned = actions.add_parser("prune", help="take away what is finished and was not used for long")
    pruned.add_argument("--days", type=positive, default=90, metavar="N", help="so long (default: 90)")
    add_database(pruned)
    _with_id(actions, "repair", "write what is whole in a damaged session into a new one")
    waiting = actions.add_parser(
        "waiting", help="the sessions that wait for a permission, and their questions"
    )
    add_json(waiting)
    add_database(waiting)
    answering = _with_id(actions, "answer", "answer a question of a session; nothing runs until it goes on")
    answering.add_argument("call_id", metavar="CALL", help="the call it is about; 'waiting' shows it")
    answering.add_argument("verdict", choices=("allow", "deny"), help="may the call be made?")
    answering.add_argument("--message", default="", metavar="TEXT", help="why; told to the model when denied")


def _with_id(actions: Any, name: str, meaning: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(name, help=meaning)
    parser.add_argument("id", metavar="ID", help="the session")
    add_database(parser)
    return parser


def sessions(options: argparse.Namespace, output: Output) -> int:
    """Do what the command line says and return the exit code."""
    with store_for(options.database) as store:
        return _ACTIONS[options.action](options, store, output)


def _list(options: argparse.Namespace, store: SessionStore, output: Output) -> int:
    every = list(in_folder(store, Path.cwd() if options.here else None))
    children = {record.session_id for record in TaskStore().list()}
    found = [info for info in every if options.all or info.id not in children]
    if options.words:
        found = [info for info in found if _has_said(info, store, options.words)]
    shown = [_summary(info, store) for info in found[: options.limit]]
    if options.json:
        output.json({"sessions": shown, "total": len(found)})
        return DONE
    width = output.width
    output.result("".join(_row(row, width) for row in shown))
    if len(found) > len(shown):
        output.say(f"{len(found) - len(shown)} more: pal sessions list -n {len(found)}")
    if len(every) > len(found):
        output.say(f"{len(every) - len(found)} more are of subagents: pal sessions list --all")
    if not found:
        there = at_database(options.database)
        output.say(f"there are no sessions; begin one: {_begin(there)}")
    return DONE


def _has_said(info: SessionInfo, store: SessionStore, words: Sequence[str]) -> bool:
    try:
        entries = read_story(store.read(info.id).records).entries
    except SessionError:
        return False
    said = "\n".join(each.text for each in entries).lower()
    return all(word.lower() in said for word in words)


def _begin(database: str) -> str:
    return f'pal run --session NAME{database} "your task"' if database else 'pal "your task"'


def _summary(info: SessionInfo, store: SessionStore) -> dict[str, Any]:
    row = asdict(info)
    try:
        loaded = store.read(info.id)
    except SessionError as error:  # just deleted, or not readable
        return {**row, "problem": str(error)}
    story = read_story(loaded.records)
    row.update(steps=story.steps, messages=story.messages, task=story.task, stop_reason=story.stop_reason)
    row.update(title=one_line(story.title, MOST_TITLE), folder=folder_of(store, info.id))
    return {**row, "problem": "; ".join(loaded.problems)} if loaded.problems else row


def _row(row: dict[str, Any], width: int) -> str:
    parts = [f"{row['id']:<24}", moment(row["updated"]), _size(row["size_bytes"])]
    if "steps" in row:
        parts += [counted(row["steps"], "step"), counted(row["messages"], "message")]
    words = [] if row.get("stop_reason") == "completed" or "steps" not in row else [_standing(row)]
    if row.get("problem"):
        words.append("damaged")
    about_it = f"({', '.join(words)}) " if words else ""
    task = one_line(about_it + _tasks(row), width - 4)
    return f"{'  '.join(parts)}\n    {task}".rstrip() + "\n"


def _tasks(row: dict[str, Any]) -> str:
    """The first task, and the last if it is another one."""
    first, last = row.get("title", row.get("problem", "")), row.get("task", "")
    return first if one_line(last, MOST_TITLE) in ("", first) else f"{first} (last: {last})"


def _standing(row: dict[str, Any]) -> str:
    return one_line(row["stop_reason"] or "not finished", 40)


def _show(options: argparse.Namespace, store: SessionStore, output: Output) -> int:
    session = last_of(store, None if options.database else Path.cwd()) if options.id is None else options.id
    loaded = store.read(existing(session, store))
    if options.answer:
        answers = [each.text for each in read_story(loaded.records).entries if each.kind == "answer"]
        output.result(f"{safe_text(answers[-1]) if answers else ''}\n")
        return DONE
    if options.json:
        records = [_fields(record) for record in loaded.records]
        output.json({"id": session, "problems": loaded.problems, "records": records})
        return DONE
    story = read_story(loaded.records)
    width = output.width
    parts = [_block("", f"Session {session}: {about(story, loaded.records)}", width, 1)]
    parts += [_entry(entry, width) for entry in story.entries]
    if story.entries and not story.stop_reason:
        parts.append("   in the middle of something: it is at work, or was cut off\n")
    output.result("".join(parts))
    for problem in loaded.problems:
        output.say(f"damaged: {problem}")
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
        return "   (what was before was shortened for the model)\n"
    failed = "failed: " if entry.failed else ""
    return _block(f"   {MARKS[entry.kind]} ", failed + entry.text, width, LONG_RESULT)


def _block(mark: str, text: str, width: int, lines: int) -> str:
    """Text behind a mark, indented as deep as that, each line not wider than the terminal."""
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


def _export(options: argparse.Namespace, store: SessionStore, output: Output) -> int:
    loaded = store.read(existing(options.id, store))
    for problem in loaded.problems:
        output.say(f"damaged, and left out: {problem}")
    text = _document(options.format, options.id, loaded.records)
    if options.output is None:
        output.result(text)
        return DONE
    path = Path(options.output).expanduser()
    try:
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise SessionWriteError(path, error.strerror or error) from error
    output.say(f"wrote {path}")
    return DONE


def _document(form: str, session_id: str, records: Sequence[Record]) -> str:
    if form == "jsonl":
        return b"".join(record.to_line() for record in records).decode("ascii")
    title = f"Session {session_id}"
    return to_html(records, title) if form == "html" else to_markdown(records, title)


def _fork(options: argparse.Namespace, store: SessionStore, output: Output) -> int:
    if options.new_id is not None:
        checked(options.new_id)
    new = fork_session(store, existing(options.id, store), options.at, options.new_id)
    output.result(f"{new}\n")
    output.say(f'to go on: pal run {to_resume(new, options.database)} "your task"')
    return DONE


def _prune(options: argparse.Namespace, store: SessionStore, output: Output) -> int:
    for each in prune(store, options.days, time.time()):
        output.say(f"deleted {each}")
    return DONE


def _delete(options: argparse.Namespace, store: SessionStore, output: Output) -> int:
    ids = list(dict.fromkeys(existing(each, store) for each in options.ids))
    if not options.yes and not _agreed(ids, output):
        output.say("nothing was deleted")
        return FAILED
    for each in ids:
        store.delete(each)
        output.say(f"deleted {each}")
    return DONE


def _agreed(ids: Sequence[str], output: Output) -> bool:
    if not (is_terminal(sys.stdin) and output.err_is_terminal):
        raise ConfigError("There is no terminal to ask at. To delete without a question: --yes")
    output.progress(f"Delete {', '.join(ids)}? [y]es, [n]o: ")
    line = sys.stdin.readline()
    if line.endswith("\n"):
        output.typed_line()
    return line.strip().lower() in ("y", "yes")


def _repair(options: argparse.Namespace, store: SessionStore, output: Output) -> int:
    if not isinstance(store, JsonlStore):
        raise ConfigError("--database: sessions in a database are not repaired; it keeps them whole itself.")
    report = store.repair(existing(options.id, store))
    if report.path is None:
        output.say(f"nothing is damaged in {options.id}: {counted(report.kept, 'record')}")
        return DONE
    for change in report.changes:
        output.say(change)
    output.result(f"{safe_text(str(report.path))}\n")
    output.say(
        f"{counted(report.kept, 'record')} kept, as the session {report.session_id}; the old one is as it was"
    )
    return DONE


def _waiting(options: argparse.Namespace, store: SessionStore, output: Output) -> int:
    manager = SessionManager(store)
    found = {info.id: manager.questions(info.id) for info in manager.waiting()}
    if options.json:
        rows = [{"id": each, "questions": [asdict(one) for one in asked]} for each, asked in found.items()]
        output.json({"sessions": rows})
        return DONE
    there = at_database(options.database)
    for session_id, asked in found.items():
        lines = [session_id]
        for each in asked:
            lines += [f"    {line}" for line in question_text(asdict(each)).splitlines()]
            call = shlex.quote(one_line(each.call_id))
            lines.append(f"    to answer: pal sessions answer {session_id} {call} allow{there}")
        output.result("\n".join(lines) + "\n")
    if not found:
        output.say("no session waits for a permission")
    return DONE


def _answer(options: argparse.Namespace, store: SessionStore, output: Output) -> int:
    manager = SessionManager(store)
    manager.answer(existing(options.id, store), options.call_id, options.verdict, options.message)
    left = len(manager.questions(options.id))
    if left:
        output.say(f"recorded; {counted(left, 'more question')} of {options.id}: pal sessions waiting")
    else:
        output.say(f"recorded; to go on: pal run {to_resume(options.id, options.database)}")
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
