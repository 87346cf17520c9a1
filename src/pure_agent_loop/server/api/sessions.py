"""Operations on sessions: list, read, fork, export, delete, undo; questions and answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from urllib.parse import quote

from starlette.responses import Response

from pure_agent_loop.server.api import actions, models
from pure_agent_loop.server.api.openapi import ApiRequest, Operation, action_handler
from pure_agent_loop.server.api.runs import key_of, paginate, run_response
from pure_agent_loop.server.people import HttpProblem
from pure_agent_loop.server.runs_file import Visibility
from pure_agent_loop.server.serving import Service, session_named
from pure_agent_loop.sessions.store import SessionInfo
from pure_agent_loop.sessions.stores.records import file_name
from pure_agent_loop.sessions.story import Entry, Story, read_story

_TITLE = 200
_TYPES = {"markdown": "text/markdown; charset=utf-8", "html": "text/html; charset=utf-8"}
_HIDDEN = ("thinking", "notice")  # from people without full visibility


def session_in(request: ApiRequest) -> str:
    """Return the session of the path if the person may see it.

    Raises:
        HttpProblem: The id is invalid, or the session belongs to another person.
    """
    return request.service.session_of(request.person, request.path["session"])


async def _list(request: ApiRequest) -> models.Sessions:
    hub = request.service.hub
    sessions = [info for info in await asyncio.to_thread(hub.sessions.list) if request.person.owns(info.id)]
    sessions.sort(key=lambda info: (info.updated, info.id), reverse=True)
    page, cursor = paginate(sessions, request.query, lambda info: (info.updated, info.id))
    titles = await asyncio.to_thread(_titles, request.service, page)
    return models.Sessions(sessions=[_summary(request.service, info, titles) for info in page], next=cursor)


def _titles(service: Service, sessions: Sequence[SessionInfo]) -> Mapping[str, str]:
    """Return the first task of each session, without reading the session where possible."""
    titles: dict[str, str] = {}
    for info in sessions:
        runs = service.hub.of_session(info.id)
        first = getattr(service.hub.sessions.store, "first", None)
        if runs and runs[0].task:
            titles[info.id] = runs[0].task[:_TITLE]
        elif first is not None and (record := first(info.id)) is not None:
            titles[info.id] = str(record.data.get("task") or "")[:_TITLE]
    return titles


def _summary(service: Service, info: SessionInfo, titles: Mapping[str, str]) -> models.SessionSummary:
    runs = service.hub.of_session(info.id)
    return models.SessionSummary(
        id=info.id,
        title=titles.get(info.id, ""),
        created=info.created,
        updated=info.updated,
        bytes=info.size_bytes,
        run=runs[-1].id if runs else None,
        state=runs[-1].state if runs else "",
        folder=service.hub.file.folders.get(info.id, ""),
    )


async def _get(request: ApiRequest) -> models.Session:
    session, hub, query = session_in(request), request.service.hub, request.query
    runs = hub.of_session(session)
    last_event = hub.channel(session).last if runs else 0
    try:
        loaded = await asyncio.to_thread(hub.sessions.load, session)
        story = await asyncio.to_thread(read_story, loaded.records)
    except LookupError:
        if not runs:
            raise
        loaded, story = None, Story(title=runs[0].task)  # the run has just started
    visibility = request.service.settings.visibility_of(request.person)
    page = list(enumerate(story.entries))[query.after : query.after + query.limit]
    operates = request.person.may("operate")
    return models.Session.of(
        story,
        id=session,
        title=story.title[:_TITLE],
        run=runs[-1].id if runs else None,
        state=runs[-1].state if runs else "",
        last_event=last_event,
        entries=[_entry_model(number, entry, visibility) for number, entry in page],
        total=len(story.entries),
        problems=loaded.problems if loaded and operates else [],
    )


def _entry_model(number: int, entry: Entry, visibility: Visibility) -> models.SessionEntry:
    text = entry.text if _is_shown(entry, visibility) else ""
    return models.SessionEntry.of(entry, index=number, text=text)


def _is_shown(entry: Entry, visibility: Visibility) -> bool:
    if visibility.full:
        return True
    if entry.kind in ("call", "result"):
        return visibility.shows(entry.tool) and not entry.failed
    return entry.kind not in _HIDDEN or (entry.kind == "thinking" and visibility.reasoning)


async def _delete(request: ApiRequest) -> None:
    session, hub = session_in(request), request.service.hub
    await hub.wait_stopped(session)
    hub.check_free(session)
    await asyncio.to_thread(hub.sessions.delete, session)
    hub.forget_session(session)


async def _export(request: ApiRequest) -> Response:
    session, form = session_in(request), request.query.form
    if not request.service.settings.visibility_of(request.person).full:
        raise HttpProblem(403, "The role 'operate' is required: an export contains everything.")
    text = await asyncio.to_thread(request.service.hub.sessions.export, session, form)
    suffix = "md" if form == "markdown" else "html"
    name = file_name(session)  # safe in a header
    disposition = {"Content-Disposition": f'attachment; filename="{name}.{suffix}"'}
    if name != session:
        disposition["Content-Disposition"] += f"; filename*=UTF-8''{quote(f'{session}.{suffix}', safe='')}"
    return Response(text, 200, disposition, _TYPES[form])


async def _edit(request: ApiRequest) -> Response:
    session, key = session_in(request), key_of(request)
    run, is_new = await actions.edit(request.service, request.person, session, request.body, key)
    return run_response(request, run, is_new=is_new)


async def _folder(request: ApiRequest) -> None:
    session = session_in(request)
    await actions.check_exists(request.service, session)
    request.service.hub.file.put_in_folder(session, request.body.folder.strip())


async def _questions(request: ApiRequest) -> models.Questions:
    session = session_named(request.path["session"]) if request.person.may("approve") else session_in(request)
    return models.Questions(questions=await actions.questions_of(request.service, session))


async def _all_questions(request: ApiRequest) -> models.Questions:
    hub = request.service.hub
    sessions = dict.fromkeys(run.session for run in hub.runs.values() if run.is_open)
    questions = [
        question
        for session in sessions
        if request.person.may("approve") or request.person.owns(session)
        for question in await actions.questions_of(request.service, session)
    ]
    return models.Questions(questions=questions)


_ONE = "/api/sessions/{session}"
OPERATIONS = [
    Operation("GET", "/api/sessions", "list_sessions", "List sessions, last used first.", _list,
              models.Sessions, query=models.PageQuery, problems=(404,)),
    Operation("GET", _ONE, "get_session", "Get the entries of a session, in order.", _get,
              models.Session, query=models.EntriesQuery, problems=(404,)),
    Operation("DELETE", _ONE, "delete_session", "Delete a session.", _delete, status=204,
              problems=(404, 409)),
    Operation("POST", f"{_ONE}/fork", "fork_session", "Copy a session, up to a step.",
              action_handler(actions.fork, "session"), models.Forked, body=models.Fork, status=201,
              problems=(404, 409, 422)),
    Operation("POST", f"{_ONE}/edit", "edit_message", "Copy a session up to a step, and start a run.",
              _edit, models.Run, body=models.Edit, status=201, problems=(404, 409, 422, 503), keyed=True),
    Operation("POST", f"{_ONE}/folder", "move_session", "Move a session to a folder.", _folder,
              body=models.Folder, status=204, problems=(404, 422)),
    Operation("POST", f"{_ONE}/undo", "undo_changes", "Undo or redo changes of workspace files.",
              action_handler(actions.undo, "session"),
              models.Undone, body=models.Undo, problems=(404, 409, 422)),
    Operation("GET", f"{_ONE}/export", "export_session", "Export a session as a document.", _export,
              query=models.ExportQuery, media=("text/markdown", "text/html"), problems=(404,)),
    Operation("GET", f"{_ONE}/questions", "session_questions", "List pending questions.", _questions,
              models.Questions, role="", problems=(404,)),
    Operation("POST", f"{_ONE}/answers", "answer_question", "Answer a question.",
              action_handler(actions.answer, "session"), models.Done,
              role="", body=models.Verdict, problems=(404, 409, 422)),
    Operation("POST", f"{_ONE}/results", "give_result", "Deliver the result of a call made elsewhere.",
              action_handler(actions.give_result, "session"), models.Done, body=models.Result,
              problems=(404, 409, 422)),
    Operation("GET", "/api/questions", "list_questions", "List all pending questions.", _all_questions,
              models.Questions, role=""),
]  # fmt: skip
