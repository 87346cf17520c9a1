"""OpenAI's Responses API.

`request` writes a history as items, and `stream` reads responses. `client` has `ResponsesClient`, which sends
requests over the transports of `llm.http`.
"""
