"""Operations on sessions: list, read, fork, export, delete, undo; questions and answers."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from starlette.responses import Response

from pure_agent_loop.errors import SessionNotFoundError
from pure_agent_loop.server.api import actions, models
from pure_agent_loop.server.api.files import files_of, sent_files
from pure_agent_loop.server.api.operation import ApiRequest, Handler, Operation, action_handler, session_in
from pure_agent_loop.server.api.runs import key_of, paginate, run_response
from pure_agent_loop.server.api.versions import family, versions_of
from pure_agent_loop.server.asking import NOT_WAITING
from pure_agent_loop.server.entries import Visibility
from pure_agent_loop.server.labels import VERSION, root_of
from pure_agent_loop.server.problems import ALREADY_ANSWERED, HttpProblem
from pure_agent_loop.server.runs_file import RunInfo
from pure_agent_loop.server.service import Service, session_named
from pure_agent_loop.sessions.questions import GivenAnswer
from pure_agent_loop.sessions.store import SessionInfo
from pure_agent_loop.sessions.stores.file_names import file_name
from pure_agent_loop.sessions.story import Entry, Story, read_story
from pure_agent_loop.support.language import notice

_UNSAFE = re.compile(r'[\x00-\x1f\x7f\\/:*?"<>|]')  # unsafe characters in a file name
_TYPES = {"markdown": "text/markdown; charset=utf-8", "html": "text/html; charset=utf-8"}
PINNED = 1e12  # seconds added to a pinned session's time, so that it sorts first
AROUND = 30  # characters of context before a search result
_OF_TASK = re.compile(r"(.+)\.[\w-]+-[0-9a-f]{6,8}")
_CUT = 64  # length of a subagent's session id in which the parent's id has been truncated
_HIDDEN = ("thinking", "notice")  # kinds of entries hidden from people without full visibility
_ONE = "/api/sessions/{session}"
_ANSWERED = (ALREADY_ANSWERED, NOT_WAITING)


async def _list(request: ApiRequest) -> models.Sessions:
    hub = request.service.hub
    every = await asyncio.to_thread(hub.sessions.list)
    known = {info.id for info in every}
    sessions = [info for info in every if request.person.owns(info.id) and not _is_of_task(info.id, known)]
    matches = None
    if request.query.q.strip():
        matches = await asyncio.to_thread(_search, request.service, sessions, request.query.q)
        sessions = [info for info in sessions if info.id in matches]
    pins = hub.file.labels["pin"]

    def place(info: SessionInfo) -> tuple[float, str]:
        return (info.updated + (PINNED if info.id in pins else 0), info.id)

    sessions.sort(key=place, reverse=True)
    roots = {info.id: root_of(hub.file.labels[VERSION], info.id) for info in sessions}
    newest = {roots[info.id]: info for info in sorted(sessions, key=lambda info: info.updated)}
    sessions = [info for info in sessions if newest[roots[info.id]] is info]
    page, cursor = paginate(sessions, request.query, place)
    titles = await asyncio.to_thread(
        lambda: {info.id: actions.title_of(request.service, info.id) for info in page}
    )
    found = [_summary(request.service, info, titles, matches or {}) for info in page]
    return models.Sessions(sessions=found, next=cursor)


def _is_of_task(session: str, known: Container[str]) -> bool:
    """Return True for a subagent's session, which `subagents.child` names after the parent and the task."""
    match = _OF_TASK.fullmatch(session)
    return match is not None and (match[1] in known or len(session) == _CUT)


def _search(service: Service, sessions: Sequence[SessionInfo], words: str) -> dict[str, str]:
    """Search the titles, tasks and answers of sessions for words.

    Return the text around the match by session id. The text is empty for a match in the title.
    """
    words, found = " ".join(words.lower().split()), {}
    for info in sessions:
        title, runs = actions.title_of(service, info.id), service.hub.of_session(info.id)
        texts = [
            " ".join(text.split())
            for text in (title, *(text for run in runs for text in (run.task, run.content)))
        ]
        match = next((text for text in texts if words in text.lower()), None)
        if match is not None:
            start = max(0, match.lower().index(words) - AROUND)
            around = f"{'…' if start else ''}{match[start : start + len(words) + 3 * AROUND]}"
            found[info.id] = "" if match is texts[0] else around
    return found


def _summary(
    service: Service, info: SessionInfo, titles: Mapping[str, str], found: Mapping[str, str]
) -> models.SessionSummary:
    runs = service.hub.of_session(info.id)
    return models.SessionSummary(
        id=info.id,
        title=titles.get(info.id, ""),
        created=info.created,
        updated=info.updated,
        bytes=info.size_bytes,
        run=runs[-1].id if runs else None,
        state=runs[-1].state if runs else "",
        folder=service.hub.file.labels["folder"].get(info.id, ""),
        pinned=info.id in service.hub.file.labels["pin"],
        versions=[one for one in family(service.hub, info.id) if one != info.id],
        found=found.get(info.id, ""),
    )


async def _get(request: ApiRequest) -> models.SessionBody:
    session, hub, query = session_in(request), request.service.hub, request.query
    runs = hub.of_session(session)
    last_event = hub.channel(session).last if runs else 0
    try:
        loaded = await asyncio.to_thread(hub.sessions.store.read, session)
        story = await asyncio.to_thread(read_story, loaded.records)
    except LookupError:
        if not runs:
            raise
        # The run has started, but its session has not been stored yet.
        loaded, story = None, Story(title=runs[0].task)
    visibility = request.service.settings.visibility_of(request.person)
    files = files_of(loaded.records, visibility) if loaded else []
    numbered = _page(story.entries, query)
    if (engine := request.service.engine) is not None:
        numbered = await asyncio.to_thread(_with_answers, numbered, runs, engine.given_answers)
    page = [
        models.SessionEntry.of(
            entry,
            index=number,
            media=sent_files(entry.media, files),
            **_shown(entry, visibility, _run_at(entry.time, runs)),
        )
        for number, entry in numbered
    ]
    return models.SessionBody.of(
        story,
        id=session,
        title=hub.file.labels["title"].get(session) or story.title[: actions.TITLE],
        run=runs[-1].id if runs else None,
        state=runs[-1].state if runs else "",
        last_event=last_event,
        entries=page,
        total=len(story.entries),
        problems=list(loaded.problems) if loaded and request.person.may("operate") else [],
        versions=await versions_of(hub, session, story.entries),
    )


def _page(entries: Sequence[Entry], query: models.EntriesQuery) -> list[tuple[int, Entry]]:
    """Return a page of entries with their numbers."""
    numbered, first, last = list(enumerate(entries)), query.after, query.after + query.limit
    if query.before is not None:
        last = min(query.before, len(numbered))
        first = max(0, last - query.limit)
        while first > 0 and entries[first].kind != "task":
            first -= 1
    return numbered[first:last]


def _with_answers(
    page: Sequence[tuple[int, Entry]], runs: Sequence[RunInfo], given_of: Callable[[str], list[GivenAnswer]]
) -> list[tuple[int, Entry]]:
    """Add people's answers to a page of entries; durable runs store them outside the session."""
    given: dict[str, list[GivenAnswer]] = {}
    entries = []
    for number, entry in page:
        run = _run_at(entry.time, runs)
        if entry.kind == "result" and not entry.by and run is not None and run.durable:
            if run.durable not in given:
                given[run.durable] = given_of(run.durable)
            for answer in given[run.durable]:
                if answer.call_id == entry.call_id:
                    _, verdict, said, by, at = answer
                    entry = replace(entry, verdict=verdict, said=said, by=by, answered_at=at)  # noqa: PLW2901 - with the answer
        entries.append((number, entry))
    return entries


def _run_at(time: float, runs: Sequence[RunInfo]) -> RunInfo | None:
    """Return the newest run that had started by a given time."""
    return next((run for run in reversed(runs) if run.created <= time), None)


def _shown(entry: Entry, visibility: Visibility, run: RunInfo | None) -> dict[str, Any]:
    """Return the fields of an entry that depend on who sees it."""
    if not _is_shown(entry, visibility):
        return {"text": "", "command": {}, "said": ""}
    text = run.shown if entry.kind == "task" and run is not None and run.shown else entry.text
    if entry.kind == "end" and not visibility.full:
        text = text.partition(":")[0]  # errors may name servers and files
    return {"text": text, "command": dict(entry.command)}


def seen_by(request: ApiRequest, session: str) -> Callable[[Entry], Entry | None]:
    """Return a function that reduces an entry to what the person may see; a hidden entry becomes None."""
    visibility = request.service.settings.visibility_of(request.person)
    runs = request.service.hub.of_session(session)

    def seen(entry: Entry) -> Entry | None:
        if not _is_shown(entry, visibility):
            return None
        return replace(entry, **_shown(entry, visibility, _run_at(entry.time, runs)))

    return seen


def _is_shown(entry: Entry, visibility: Visibility) -> bool:
    if visibility.full:
        return True
    if entry.kind in ("call", "result"):
        is_error = entry.failed and not entry.exit_code  # errors may name URLs and files
        return visibility.shows(entry.tool) and not is_error
    return entry.kind not in _HIDDEN or (entry.kind == "thinking" and visibility.reasoning)


async def _delete(request: ApiRequest) -> None:
    session, hub = session_in(request), request.service.hub
    versions = family(hub, session)
    for each in versions:
        await hub.wait_stopped(each)
        hub.check_free(each)
    engine = request.service.engine
    for each in versions:
        with contextlib.suppress(SessionNotFoundError) if each != session else contextlib.nullcontext():
            await asyncio.to_thread(hub.sessions.delete if engine is None else engine.delete_session, each)
        hub.forget_session(each)


async def _changes(request: ApiRequest) -> models.ChangedSteps:
    session, agents = session_in(request), request.service.hub.agents.values()
    found = [snapshots for agent in agents if (snapshots := actions.snapshots_of(agent)) is not None]
    steps = {step.time: step for snapshots in found for step in await snapshots.steps(session)}
    return models.ChangedSteps(changes=[models.ChangedStep.of(steps[time]) for time in sorted(steps)])


async def _export(request: ApiRequest) -> Response:
    session, form = session_in(request), request.query.form
    if not request.service.settings.visibility_of(request.person).full:
        raise HttpProblem(403, notice("library.server_export_role"))
    text = await asyncio.to_thread(request.service.hub.sessions.export, session, form)
    suffix = "md" if form == "markdown" else "html"
    title = await asyncio.to_thread(actions.title_of, request.service, session)
    named = quote(f"{_UNSAFE.sub(' ', title).strip(' .') or session}.{suffix}", safe="")
    disposition = f"attachment; filename=\"{file_name(session)}.{suffix}\"; filename*=UTF-8''{named}"
    return Response(text, 200, {"Content-Disposition": disposition}, _TYPES[form])


async def _files(request: ApiRequest) -> models.StepFiles:
    session, step, service = session_in(request), request.query.step, request.service
    moment = await actions.end_of(service, session, step)
    snapshots = await actions.snapshots_with(service, session)
    changes = [] if snapshots is None else await snapshots.changes_since(session, moment=moment)
    hidden = {} if service.settings.visibility_of(request.person).full else {"diff": ""}
    return models.StepFiles(
        session=session,
        step=step,
        time=moment,
        known=snapshots is not None,
        changes=[models.FileDifference.of(change, **hidden) for change in changes],
    )


async def _edit(request: ApiRequest) -> Response:
    session, key = session_in(request), key_of(request)
    run, is_new = await actions.edit(request.service, request.person, session, request.body, key)
    return run_response(request, run, is_new=is_new)


def _label(kind: str, text_of: Callable[[Any], str]) -> Handler:
    """Return a handler that labels a session and its versions with a string from the request body."""

    async def handle(request: ApiRequest) -> None:
        session = session_in(request)
        await actions.check_exists(request.service, session)
        for version in family(request.service.hub, session):
            request.service.hub.file.label(kind, version, text_of(request.body))

    return handle


async def _questions(request: ApiRequest) -> models.QuestionsBody:
    session = session_named(request.path["session"]) if request.person.may("approve") else session_in(request)
    return models.QuestionsBody(
        questions=await actions.questions_of(request.service, request.person, session)
    )


async def _all_questions(request: ApiRequest) -> models.QuestionsBody:
    hub = request.service.hub
    sessions = dict.fromkeys(run.session for run in hub.runs.values() if run.is_open)
    questions = [
        question
        for session in sessions
        if request.person.may("approve") or request.person.owns(session)
        for question in await actions.questions_of(request.service, request.person, session)
    ]
    return models.QuestionsBody(questions=questions)


OPERATIONS = [
    Operation("GET", "/api/sessions", "list_sessions", "List sessions, pinned and last used first.", _list,
              models.Sessions, query=models.SessionsQuery, problems=(404,)),
    Operation("GET", _ONE, "get_session", "Get the entries of a session, in order.", _get,
              models.SessionBody, query=models.EntriesQuery, problems=(404,)),
    Operation("DELETE", _ONE, "delete_session", "Delete a session.", _delete, status=204,
              problems=(404, 409)),
    Operation("POST", f"{_ONE}/fork", "fork_session", "Copy a session, up to a step.",
              action_handler(actions.fork, "session"), models.Forked, body=models.Fork, status=201,
              problems=(404, 409)),
    Operation("POST", f"{_ONE}/edit", "edit_message", "Copy a session up to a step, and start a run.",
              _edit, models.RunBody, body=models.Edit, status=201, problems=(404, 409, 503), keyed=True),
    Operation("POST", f"{_ONE}/folder", "move_session", "Move a session to a folder.",
              _label("folder", lambda body: body.folder.strip()),
              body=models.Folder, status=204, problems=(404,)),
    Operation("POST", f"{_ONE}/title", "rename_session", "Name a session; empty for its first task.",
              _label("title", lambda body: body.title.strip()),
              body=models.Title, status=204, problems=(404,)),
    Operation("POST", f"{_ONE}/pin", "pin_session", "Put a session on top of the list.",
              _label("pin", lambda body: "yes" if body.pinned else ""),
              body=models.Pin, status=204, problems=(404,)),
    Operation("POST", f"{_ONE}/undo", "undo_changes", "Undo or redo changes of workspace files.",
              action_handler(actions.undo, "session"),
              models.UndoBody, body=models.Undo, problems=(404, 409), types=(actions.NOTHING_TO_UNDO,)),
    Operation("GET", f"{_ONE}/time", "files_at_step",
              "Compare the files now with their state at the end of a step.", _files, models.StepFiles,
              query=models.StepQuery, problems=(404, 409)),
    Operation("GET", f"{_ONE}/changes", "session_changes", "List the steps that changed files.", _changes,
              models.ChangedSteps, problems=(404,)),
    Operation("GET", f"{_ONE}/export", "export_session", "Export a session as a document.", _export,
              query=models.ExportQuery, media=("text/markdown", "text/html"), problems=(404,)),
    Operation("GET", f"{_ONE}/questions", "session_questions", "List pending questions.", _questions,
              models.QuestionsBody, role="", problems=(404,)),
    Operation("POST", f"{_ONE}/answers", "answer_question",
              "Answer a question. Requires the role `approve`, or owning the session if a tool asked.",
              action_handler(actions.answer, "session"), models.Done,
              role="", body=models.VerdictBody, problems=(404, 409), types=_ANSWERED),
    Operation("POST", f"{_ONE}/results", "give_result", "Deliver the result of a call executed elsewhere.",
              action_handler(actions.give_result, "session"), models.Done, body=models.Result,
              problems=(404, 409), types=_ANSWERED),
    Operation("GET", "/api/questions", "list_questions", "List all pending questions.", _all_questions,
              models.QuestionsBody, role=""),
]  # fmt: skip
