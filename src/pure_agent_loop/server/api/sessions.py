"""Sessions: listed, read, forked, exported, deleted; their questions, and undo."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from starlette.responses import Response

from pure_agent_loop.server.api import actions, models
from pure_agent_loop.server.api.operation import Asked, Operation, acting
from pure_agent_loop.server.api.runs import begun, key_of, part_of
from pure_agent_loop.server.entries import Sight
from pure_agent_loop.server.problems import Problem
from pure_agent_loop.server.service import Service, session_named
from pure_agent_loop.sessions.store import SessionInfo
from pure_agent_loop.sessions.story import Entry, Story, read_story

_TITLE = 200
_TYPES = {"markdown": "text/markdown; charset=utf-8", "html": "text/html; charset=utf-8"}
_HIDDEN = ("thinking", "notice")  # from who only uses it


def session_in(asked: Asked) -> str:
    """The session that a path names, if its person may see it.

    Raises:
        Problem: It is none, or somebody else's.
    """
    return asked.service.session_of(asked.person, asked.path["session"])


async def _list(asked: Asked) -> models.Sessions:
    hub = asked.service.hub
    found = [each for each in await asyncio.to_thread(hub.sessions.list) if asked.person.owns(each.id)]
    found.sort(key=lambda each: (each.updated, each.id), reverse=True)
    part, after = part_of(found, asked.query, lambda each: (each.updated, each.id))
    titles = await asyncio.to_thread(_titles, asked.service, part)
    return models.Sessions(sessions=[_summary(asked.service, each, titles) for each in part], next=after)


def _titles(service: Service, part: Sequence[SessionInfo]) -> Mapping[str, str]:
    """What each session was first asked; of one that this server began, without reading it."""
    titles: dict[str, str] = {}
    for info in part:
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
        folder=service.hub.folders.get(info.id, ""),
    )


async def _get(asked: Asked) -> models.Session:
    session, hub, query = session_in(asked), asked.service.hub, asked.query
    runs = hub.of_session(session)
    last_event = hub.channel(session).last if runs else 0
    try:
        loaded = await asyncio.to_thread(hub.sessions.load, session)
        story = await asyncio.to_thread(read_story, loaded.records)
    except LookupError:
        if not runs:
            raise
        loaded, story = None, Story(title=runs[0].task)  # it has only just begun
    sight = asked.service.settings.sight_of(asked.person)
    part = list(enumerate(story.entries))[query.after : query.after + query.limit]
    operates = asked.person.may("operate")
    return models.Session.of(
        story,
        id=session,
        title=story.title[:_TITLE],
        run=runs[-1].id if runs else None,
        state=runs[-1].state if runs else "",
        last_event=last_event,
        entries=[_entry(number, each, sight) for number, each in part],
        total=len(story.entries),
        problems=loaded.problems if loaded and operates else [],
    )


def _entry(number: int, entry: Entry, sight: Sight) -> models.SessionEntry:
    text = entry.text if _is_shown(entry, sight) else ""
    return models.SessionEntry.of(entry, index=number, text=text)


def _is_shown(entry: Entry, sight: Sight) -> bool:
    if sight.full:
        return True
    if entry.kind in ("call", "result"):
        return sight.shows(entry.tool) and not entry.failed
    return entry.kind not in _HIDDEN or (entry.kind == "thinking" and sight.reasoning)


async def _delete(asked: Asked) -> None:
    session, hub = session_in(asked), asked.service.hub
    hub.check_free(session)
    await asyncio.to_thread(hub.sessions.delete, session)
    hub.forget_session(session)


async def _export(asked: Asked) -> Response:
    session, form = session_in(asked), asked.query.form
    if not asked.service.settings.sight_of(asked.person).full:
        raise Problem(403, "An export holds everything: it needs the role 'operate'.")
    text = await asyncio.to_thread(asked.service.hub.sessions.export, session, form)
    ending = "md" if form == "markdown" else "html"
    disposition = {"Content-Disposition": f'attachment; filename="{session}.{ending}"'}
    return Response(text, 200, disposition, _TYPES[form])


async def _edit(asked: Asked) -> Response:
    given = (asked.service, asked.person, session_in(asked), asked.body, key_of(asked))
    run, is_new = await actions.edit(*given)
    return begun(run, is_new=is_new)


async def _folder(asked: Asked) -> None:
    session = session_in(asked)
    await actions.check_exists(asked.service, session)
    asked.service.hub.put_in_folder(session, asked.body.folder.strip())


async def _questions(asked: Asked) -> models.Questions:
    session = session_named(asked.path["session"]) if asked.person.may("approve") else session_in(asked)
    return models.Questions(questions=await actions.questions_of(asked.service, session))


async def _all_questions(asked: Asked) -> models.Questions:
    hub = asked.service.hub
    waiting = [each.session for each in hub.runs.values() if each.is_open]
    mine = [each for each in waiting if asked.person.may("approve") or asked.person.owns(each)]
    found = [await actions.questions_of(asked.service, each) for each in dict.fromkeys(mine)]
    return models.Questions(questions=[each for some in found for each in some])


_ONE = "/api/sessions/{session}"
OPERATIONS = [
    Operation("GET", "/api/sessions", "list_sessions", "The sessions, the one used last first.", _list,
              models.Sessions, query=models.Page, problems=(404,)),
    Operation("GET", _ONE, "get_session", "What a session holds, in the order of reading.", _get,
              models.Session, query=models.EntriesQuery, problems=(404,)),
    Operation("DELETE", _ONE, "delete_session", "Take a session away.", _delete, status=204,
              problems=(404, 409)),
    Operation("POST", f"{_ONE}/fork", "fork_session", "Make a new session that begins as this one did.",
              acting(actions.fork, "session"), models.Forked, body=models.Fork, status=201,
              problems=(404, 409, 422)),
    Operation("POST", f"{_ONE}/edit", "edit_message", "Say something else behind a step, in a new session.",
              _edit, models.Run, body=models.Edit, status=201, problems=(404, 409, 422, 503), keyed=True),
    Operation("POST", f"{_ONE}/folder", "move_session", "Put a session into a folder of the list.", _folder,
              body=models.Folder, status=204, problems=(404, 422)),
    Operation("POST", f"{_ONE}/undo", "undo_changes", "Change files of the workspace back.",
              acting(actions.undo, "session"),
              models.Undone, body=models.Undo, problems=(404, 409, 422)),
    Operation("GET", f"{_ONE}/export", "export_session", "A session as a document.", _export,
              query=models.ExportQuery, media=("text/markdown", "text/html"), problems=(404,)),
    Operation("GET", f"{_ONE}/questions", "session_questions", "What a session waits for.", _questions,
              models.Questions, role="", problems=(404,)),
    Operation("POST", f"{_ONE}/answers", "answer_question", "Answer a question.",
              acting(actions.answer, "session"), models.Done,
              role="", body=models.Verdict, problems=(404, 409, 422)),
    Operation("POST", f"{_ONE}/results", "give_result", "Bring the result of a call made elsewhere.",
              acting(actions.give_result, "session"), models.Done, body=models.Result,
              problems=(404, 409, 422)),
    Operation("GET", "/api/questions", "list_questions", "What waits for a person.", _all_questions,
              models.Questions, role=""),
]  # fmt: skip
