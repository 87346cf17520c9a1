"""Anthropic's Messages API.

`families` lists, as data, what each Claude model accepts. `request` writes a history as a request, and
`stream` reads responses. `client` has `AnthropicClient`, which sends requests over the transports of
`llm.http`; `clouds` has the clients for Claude through Amazon Bedrock and Vertex AI.
"""
