"""Our tools and agents as an MCP server, for whichever transport.

offer         what is offered, and the answers to requests
published     prompts and resources of yours beside them
one_call      a call of a tool as a run
questions     what a run asks and tells, put to the client
changes       who wants to hear of resources that change
content       what came of a call, as blocks of the protocol
mounted       the server inside of an ASGI application

All but `published`, `one_call` and `mounted` import the SDK at their top: a server that is made loads them.
"""
