"""Other products' protocols, for clients made for OpenAI, AG-UI or the AI SDK.

run_request  a request for a run, independent of its protocol
history      validation of chat-completions messages
turn         a run that lasts as long as its request
pending      suspended runs that are waiting for results from the caller's tools
items        input items of the responses protocol
replies      responses: complete, or as Server-Sent Events
chat         /v1/models, /v1/chat/completions
responses    /v1/responses
agui         /agui
ui_stream    /api/ui-stream

A request contains its whole history, and no session is stored. See docs/endpoints.md.
"""

from __future__ import annotations

from pure_agent_loop.server.foreign import agui, chat, responses, ui_stream

OPERATIONS = [*chat.OPERATIONS, *responses.OPERATIONS, *agui.OPERATIONS, *ui_stream.OPERATIONS]
