"""Anthropic's Messages API.

`families` holds what each Claude model accepts, as data; `request` writes a history as a request, `stream`
reads responses, `client` has `AnthropicClient`, which sends requests over the transports of `llm.http`, and
`clouds` the clients for Claude through Amazon Bedrock and Vertex AI.
"""
