"""Anthropic's Messages API: `AnthropicClient`, and the families of Claude models as data.

`families` holds what each model accepts, `request` writes a history as a request, `stream` reads responses,
`client` sends requests over the transports of `llm.http`.
"""

from typing import TYPE_CHECKING

from pure_agent_loop.support.lazy import lazy_exports

if TYPE_CHECKING:
    from pure_agent_loop.llm.anthropic.client import AnthropicClient
    from pure_agent_loop.llm.anthropic.families import ClaudeFamily, family_for, register

__all__ = ["AnthropicClient", "ClaudeFamily", "family_for", "register"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "AnthropicClient": "client",
        "ClaudeFamily": "families",
        "family_for": "families",
        "register": "families",
    },
)
