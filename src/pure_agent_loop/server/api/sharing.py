"""Links to sessions: documents that need no login and show each session as it was when shared."""

from __future__ import annotations

import asyncio
import html
import logging

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from pure_agent_loop.errors import ConfigError, PureAgentLoopError
from pure_agent_loop.server.api import actions, models
from pure_agent_loop.server.api.operation import ApiRequest, Operation, session_in
from pure_agent_loop.server.api.sessions import seen_by
from pure_agent_loop.server.gate import SHARED
from pure_agent_loop.server.problems import HttpProblem, language_of, not_found
from pure_agent_loop.server.service import Service
from pure_agent_loop.sessions.export import to_html
from pure_agent_loop.support.language import message_in, notice
from pure_agent_loop.support.text import safe_str

LOG = logging.getLogger("pure_agent_loop.server")
SHOWN = f"{SHARED}{{token}}"  # the path of a shared document
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Robots-Tag": "noindex, nofollow, noarchive",
}
_OF = "/api/sessions/{session}/links"


async def show(request: Request) -> Response:
    """Return a shared document, or the same 404 whether the link is invalid or the session was deleted."""
    service: Service = request.app.state.service
    hub, token = service.hub, request.path_params["token"]
    request.scope["state"]["route"] = SHOWN
    found = await asyncio.to_thread(hub.links.find, token) if service.settings.share else None
    try:
        if found is not None and await asyncio.to_thread(hub.sessions.exists, found[0].session):
            return HTMLResponse(found[1], headers=_HEADERS)
    except PureAgentLoopError as error:
        LOG.warning("A shared session cannot be read: %s", safe_str(error))
    language = language_of(request.headers.get("accept-language", ""))
    text = html.escape(message_in(language, "library.server_no_link"))
    page = f'<!DOCTYPE html><html lang="{language}"><meta charset="utf-8"><title>404</title><p>{text}</p>'
    return HTMLResponse(page, 404, headers=_HEADERS)


async def _share(request: ApiRequest) -> models.NewLink:
    session, service = session_in(request), request.service
    if not service.settings.share:
        raise HttpProblem(403, notice("library.server_no_share"))
    loaded = await asyncio.to_thread(service.hub.sessions.store.read, session)
    title = await asyncio.to_thread(actions.title_of, service, session)
    document = await asyncio.to_thread(to_html, loaded.records, title, seen_by(request, session))
    days, name = request.body.days, request.person.name
    try:
        token, link = await asyncio.to_thread(service.hub.links.add, session, title, document, days, name)
    except ConfigError as error:
        raise HttpProblem(409, error) from error
    path = f"{request.http.scope.get('root_path', '')}{SHARED}{token}"
    return models.NewLink.of(link, path=path)


async def _list(request: ApiRequest) -> models.Links:
    session = session_in(request)
    await actions.check_exists(request.service, session)
    links = await asyncio.to_thread(request.service.hub.links.list, session)
    return models.Links(links=[models.LinkAbout.of(link) for link in links])


async def _end(request: ApiRequest) -> None:
    session = session_in(request)
    if not await asyncio.to_thread(request.service.hub.links.end, request.path["link"], session):
        raise not_found("link")


OPERATIONS = [
    Operation("POST", _OF, "share_session",
              "Create a link that shows the session as it is now, without a login, until it ends.", _share,
              models.NewLink, body=models.Share, status=201, problems=(403, 404, 409)),
    Operation("GET", _OF, "session_links", "List the links of a session.", _list, models.Links,
              problems=(404,)),
    Operation("DELETE", f"{_OF}/{{link}}", "end_link", "End a link, by its id.", _end, status=204,
              problems=(404,)),
]  # fmt: skip
