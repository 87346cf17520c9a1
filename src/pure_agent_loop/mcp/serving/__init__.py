"""Tools and agents as an MCP server, for any transport.

server        the tools and agents, and the request handlers
published     additional prompts and resources of the user
one_call      one tool call as a run
questions     questions and progress of a run, sent to the client
changes       subscriptions to resources
open_ids      rejection of requests whose ID is in use
content       results as blocks of the protocol
mounted       the server within an ASGI application

All modules but `published`, `one_call` and `mounted` import the SDK at the top, so they are imported only
when a server is created.
"""
