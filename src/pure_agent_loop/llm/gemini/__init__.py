"""Google's Gemini API.

`request` writes a history as contents, and `stream` reads responses. `client` has `GeminiClient`, which sends
requests over the transports of `llm.http`.
"""
