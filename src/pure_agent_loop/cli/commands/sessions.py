"""The command ``sessions``: list, answer, export, fork, repair and delete sessions."""

from __future__ import annotations

import argparse
import re
import shlex
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
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
from pure_agent_loop.cli.database import at_database, store_for
from pure_agent_loop.cli.deletion import deletion_for, is_deletion_confirmed
from pure_agent_loop.cli.exits import DONE, FAILED
from pure_agent_loop.cli.options import SessionOptions
from pure_agent_loop.cli.output import BOLD, DIM, RED, CommandOutput, counted
from pure_agent_loop.cli.questions import question_text
from pure_agent_loop.cli.session_list import MAX_TITLE, age
from pure_agent_loop.cli.which_session import checked, existing, folder_of, in_folder, last_of, to_resume
from pure_agent_loop.errors import ConfigError, MissingExtraError, SessionError, SessionWriteError
from pure_agent_loop.server import first_versions
from pure_agent_loop.session import DAY, SessionManager, prune
from pure_agent_loop.sessions import JsonlStore, Record, SessionInfo, SessionStore
from pure_agent_loop.sessions.export import moment, to_html, to_markdown
from pure_agent_loop.sessions.fork import fork_session
from pure_agent_loop.sessions.story import Entry, read_story
from pure_agent_loop.subagents import TaskStore
from pure_agent_loop.support.language import in_user_language, notice, user_language, user_text
from pure_agent_loop.support.numbers import positive
from pure_agent_loop.support.terminal import (
    aligned,
    excerpt,
    one_line,
    one_row,
    safe_text,
    width_of,
    wrap_text,
)

LONG_ANSWER, LONG_RESULT = 40, 8  # lines
MIN_TITLE = 20  # columns
FORMATS = ("markdown", "html", "jsonl")
_OTHER_FORMATS = {"md": "markdown", "htm": "html", "json": "jsonl"}
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
    """Add the arguments of the command."""
    describe(parser, "List and manage the sessions that 'pal' records.", _EPILOG)
    actions = add_actions(parser)
    listing = _action(actions, "list", "list sessions, most recently used first")
    add_count(listing)
    add_json(listing)
    listing.add_argument(
        "--all", action="store_true", help="include subagent sessions, and each version of an answer"
    )
    listing.add_argument("-v", "--verbose", action="store_true", help="add times, sizes and messages")
    listing.add_argument("--here", action="store_true", help="only sessions started in this folder")
    listing.add_argument("words", nargs="*", metavar="WORD", help="only sessions that contain every WORD")
    show = _action(actions, "show", "show the history of a session, long texts shortened")
    show.add_argument("id", metavar="ID", nargs="?", help="session (default: the last one in this folder)")
    show.add_argument("--answer", action="store_true", help="print only the last answer, unformatted")
    show.add_argument("--json", action="store_true", help="print one JSON object with all records")
    export = _action(actions, "export", "export a session as a document", has_id=True)
    export.add_argument(
        "--format",
        choices=FORMATS,
        type=lambda name: _OTHER_FORMATS.get(name, name),
        help="document format (default: from the extension of FILE)",
    )
    export.add_argument("-o", "--output", metavar="FILE", help="write to FILE instead of standard output")
    fork = _action(actions, "fork", "start a new session from a point in another", has_id=True)
    fork.add_argument("--at", type=positive, metavar="N", help="last step to copy (default: all)")
    fork.add_argument("--as", dest="new_id", metavar="NEW", help="ID of the new session")
    delete = _action(actions, "delete", "delete sessions")
    delete.add_argument("ids", nargs="+", metavar="ID", help="a session")
    delete.add_argument("-y", "--yes", action="store_true", help="do not ask for confirmation")
    pruned = _action(actions, "prune", "delete finished sessions unused for a long time")
    pruned.add_argument(
        "--days", type=positive, default=90, metavar="N", help="days since the last use (default: 90)"
    )
    pruned.add_argument(
        "--dry-run", action="store_true", help="list what would be deleted, and delete nothing"
    )
    _action(actions, "repair", "copy the intact records of a session into a new one", has_id=True)
    add_json(_action(actions, "waiting", "list suspended sessions and their questions"))
    answering = _action(
        actions, "answer", "answer a question; 'pal run --resume' continues the run", has_id=True
    )
    answering.add_argument("call_id", metavar="CALL", help="id of the call; 'waiting' shows it")
    answering.add_argument("verdict", choices=("allow", "deny"), help="allow or deny the call")
    answering.add_argument("--message", default="", metavar="TEXT", help="reason for the model when denied")


def _action(actions: Any, name: str, summary: str, *, has_id: bool = False) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(name, help=summary)
    if has_id:
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
    subagents = len(sessions) - len(matches)
    firsts = {} if options.all else first_versions()
    versions = Counter(firsts.get(info.id, info.id) for info in matches)
    excerpts: dict[str, str] = {}
    if options.words:
        excerpts = {info.id: text for info in matches if (text := _excerpt(info, store, options.words))}
        matches = [info for info in matches if info.id in excerpts]
    newest: dict[str, SessionInfo] = {}
    for info in matches:  # list only the version that was used last
        newest.setdefault(firsts.get(info.id, info.id), info)
    matches = list(newest.values())
    shown = [_summary(info, store) for info in matches[: options.limit]]
    for row in shown:
        row.update(versions=versions[firsts.get(row["id"], row["id"])])
        row.update({"said": excerpts[row["id"]]} if excerpts else {})
    if options.json:
        output.json({"sessions": shown, "total": len(matches)})
        return DONE
    _print_rows(shown, options.verbose, output)
    if len(matches) > len(shown):
        output.info(notice("cli.sessions_more", number=len(matches) - len(shown), count=len(matches)))
    if subagents:
        output.info(notice("cli.sessions_of_subagents", number=subagents))
    if not matches:
        database = at_database(options.database)
        begin = notice("cli.begin_in", database=database) if database else notice("cli.begin")
        output.info(notice("cli.sessions_none", begin=begin))
    return DONE


def _excerpt(info: SessionInfo, store: SessionStore, words: Sequence[str]) -> str:
    """Return the text around the first of these words; empty if the session does not contain all of them."""
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


def _summary(info: SessionInfo, store: SessionStore) -> dict[str, Any]:
    row = asdict(info)
    try:
        loaded = store.read(info.id)
    except SessionError as error:  # the session was deleted in the meantime, or is unreadable
        return {**row, "problem": str(error)}
    story = read_story(loaded.records)
    row.update(steps=story.steps, messages=story.messages, task=story.task, stop_reason=story.stop_reason)
    row.update(title=one_line(story.title, MAX_TITLE), folder=folder_of(store, info.id))
    return {**row, "problem": "; ".join(loaded.problems)} if loaded.problems else row


def _print_rows(rows: Sequence[dict[str, Any]], is_verbose: bool, output: CommandOutput) -> None:
    now, width = time.time(), output.width
    ages = [age(row["updated"], now) for row in rows]
    steps = [_counts(row, "step") for row in rows]
    room = width - 6 - max(map(width_of, [*ages, ""])) - max(map(width_of, [*steps, ""]))
    texts = [one_row(_titled(row), max(MIN_TITLE, room - len(row["id"]))) for row in rows]
    cells_of = [aligned(cells) for cells in (ages, texts, steps)]
    for row, *cells in zip(rows, *cells_of, strict=True):
        output.lines(f"{'  '.join(cells)}  {output.paint(DIM, row['id'])}\n")
        if is_verbose:
            facts = f"{moment(row['updated'])} UTC  {_size(row['size_bytes'])}  {_counts(row, 'message')}"
            output.lines(f"    {facts.rstrip()}\n")
        if "said" in row:
            output.lines(f"    {user_text('cli.said', text=one_row(row['said'], width - 10))}\n")


def _counts(row: dict[str, Any], noun: str) -> str:
    return in_user_language(counted(row[f"{noun}s"], noun)) if f"{noun}s" in row else ""


def _titled(row: dict[str, Any]) -> str:
    notes: list[str] = []
    if row["versions"] > 1:
        notes.append(user_text("cli.versions", number=row["versions"]))
    if row.get("stop_reason") != "completed" and "steps" in row:
        notes.append(one_line(row["stop_reason"] or user_text("cli.not_finished"), 40))
    if row.get("problem"):
        notes.append(user_text("cli.damaged"))
    return user_text("cli.row_notes", notes=", ".join(notes), text=_tasks(row)) if notes else _tasks(row)


def _tasks(row: dict[str, Any]) -> str:
    """Return the first task, and the last task if it differs."""
    first, last = row.get("title", row.get("problem", "")), row.get("task", "")
    return (
        first
        if one_line(last, MAX_TITLE) in ("", first)
        else user_text("cli.row_last", first=first, last=last)
    )


def _show(options: argparse.Namespace, store: SessionStore, output: CommandOutput) -> int:
    folder = Path.cwd() if isinstance(store, JsonlStore) else None
    session = last_of(store, folder) if options.id is None else options.id
    loaded = store.read(existing(session, store))
    if options.answer:
        answers = [entry.text for entry in read_story(loaded.records).entries if entry.kind == "answer"]
        output.result(f"{safe_text(answers[-1]) if answers else ''}\n")
        return DONE
    if options.json:
        names = ("id", "parent", "time", "type", "data")
        records = [{name: getattr(record, name) for name in names} for record in loaded.records]
        output.json({"id": session, "problems": loaded.problems, "records": records})
        return DONE
    story = read_story(loaded.records)
    width = output.width
    counts = (counted(story.steps, "step"), counted(story.messages, "message"))
    begun = [f"{moment(loaded.records[0].time)} UTC"] if loaded.records else []
    about = ", ".join(filter(None, [*map(in_user_language, counts), *begun, story.model]))
    parts = [_block("", user_text("cli.session_about", session=session, about=about), width, 1)]
    if any(entry.kind in MARKS for entry in story.entries):
        parts.append(output.paint(DIM, user_text("cli.session_marks")) + "\n")
    parts += [_entry(entry, width, output) for entry in story.entries]
    if story.entries and not story.stop_reason:
        parts.append(f"   {user_text('cli.session_unfinished')}\n")
    output.lines("".join(parts))
    for problem in loaded.problems:
        output.info(notice("cli.damaged_why", problem=problem))
    return DONE


def _entry(entry: Entry, width: int, output: CommandOutput) -> str:
    number = f"{entry.step:>2} " if entry.step and entry.kind in ("answer", "call") else "   "
    if entry.kind == "task":
        return "\n" + output.paint(BOLD, _block("# ", entry.text, width, LONG_ANSWER))
    if entry.kind == "answer":
        return _answer_text(number, entry.text, width, output)
    if entry.kind == "call":
        tool = one_line(entry.tool, 60)
        args = one_row(entry.text, max(20, width - 7 - width_of(tool)))
        return f"{number}-> {output.paint(BOLD, tool)} {args}\n"
    if entry.kind == "end":
        return f"   ({one_line(entry.text, 60)})\n"
    if entry.kind == "shortened":
        return f"   {user_text('cli.session_compacted')}\n"
    text = user_text("cli.result_failed", text=entry.text) if entry.failed else entry.text
    block = _block(f"   {MARKS[entry.kind]} ", text, width, LONG_RESULT)
    return (
        block
        if entry.kind == "user"
        else output.paint(RED, block)
        if entry.failed
        else output.paint(DIM, block)
    )


def _answer_text(mark: str, text: str, width: int, output: CommandOutput) -> str:
    """Return the mark of the step and the answer; at a terminal, Markdown is rendered as in a chat."""
    if output.out_is_terminal and text.strip():
        with suppress(MissingExtraError):
            from pure_agent_loop.cli.chat.transcript import TranscriptView

            screen = TranscriptView(width - len(mark), color=output.result_colour, language=user_language())
            shown = screen.markdown(excerpt(text, LONG_ANSWER)).rstrip("\n")
            return f"{mark}{shown}\n".replace("\n", "\n" + " " * len(mark)).rstrip(" ")
    return _block(mark, text, width, LONG_ANSWER)


def _block(mark: str, text: str, width: int, lines: int) -> str:
    """Return a text after a mark, wrapped to the width and indented by the width of the mark."""
    room = max(20, width - len(mark))
    shown = wrap_text(excerpt(safe_text(text), lines).expandtabs(4), room, fold=True).split("\n")
    indent = " " * len(mark)
    return "".join(
        f"{mark if number == 0 else indent}{line}".rstrip() + "\n" for number, line in enumerate(shown)
    )


def _export(options: argparse.Namespace, store: SessionStore, output: CommandOutput) -> int:
    loaded = store.read(existing(options.id, store))
    for problem in loaded.problems:
        output.info(notice("cli.export_omitted", problem=problem))
    form = options.format or _format_of(options.output or "")
    text = _document(form, loaded.records)
    if options.output in (None, "-"):
        output.result(text)
        return DONE
    path = Path(options.output).expanduser()
    try:
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise SessionWriteError(path, error.strerror or error) from error
    output.info(notice("cli.wrote", path=path))
    return DONE


def _format_of(name: str) -> str:
    ending = Path(name).suffix[1:].lower()
    form = _OTHER_FORMATS.get(ending, ending)
    if form not in FORMATS:
        raise ConfigError(user_text("cli.export_format", formats=", ".join(FORMATS)))
    return form


def _document(form: str, records: Sequence[Record]) -> str:
    if form == "jsonl":
        return b"".join(record.to_line() for record in records).decode("ascii")
    return to_html(records) if form == "html" else to_markdown(records)


def _fork(options: argparse.Namespace, store: SessionStore, output: CommandOutput) -> int:
    if options.new_id is not None:
        checked(options.new_id)
    new = fork_session(store, existing(options.id, store), options.at, options.new_id)
    output.result(f"{new}\n")
    output.info(notice("cli.resume_with_task", to_resume=to_resume(new, options.database)))
    return DONE


def _prune(options: argparse.Namespace, store: SessionStore, output: CommandOutput) -> int:
    now = time.time()
    with deletion_for(options.database, is_trial=options.dry_run) as deletion:
        deleted = prune(store, options.days, now, deletion.delete)
        deleted += deletion.delete_stray(now - options.days * DAY)
    for name in deleted:
        if options.dry_run:
            output.result(f"{name}\n")
        else:
            output.info(notice("cli.deleted", session_id=name))
    return DONE


def _delete(options: argparse.Namespace, store: SessionStore, output: CommandOutput) -> int:
    ids = list(dict.fromkeys(existing(session_id, store) for session_id in options.ids))
    if not options.yes and not is_deletion_confirmed(ids, output):
        output.info(notice("cli.nothing_deleted"))
        return FAILED
    with deletion_for(options.database) as deletion:
        for session_id in ids:
            deletion.delete(session_id)
            output.info(notice("cli.deleted", session_id=session_id))
    return DONE


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
        output.lines("\n".join(lines) + "\n")
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
