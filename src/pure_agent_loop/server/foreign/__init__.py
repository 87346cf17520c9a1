"""Protocols of others: agents for clients that know nothing of this package.

wanted      what is asked, in whatever protocol
history     messages of the chat-completions protocol, read
turn        one run of an agent for one request; it ends with its request
desk        runs at work here, and runs that wait for results of their callers
items       those of a request for a response
answers     a run as an answer: whole, or as Server-Sent Events
chat        /v1/models, /v1/chat/completions
responses   /v1/responses
agui        /agui
ui_stream   /api/ui-stream

A request brings its whole history, and no session is kept. docs/endpoints.md describes all of it.
"""

from __future__ import annotations

from pure_agent_loop.server.foreign import agui, chat, responses, ui_stream

OPERATIONS = [*chat.OPERATIONS, *responses.OPERATIONS, *agui.OPERATIONS, *ui_stream.OPERATIONS]
