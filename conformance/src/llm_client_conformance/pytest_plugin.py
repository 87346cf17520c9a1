"""A pytest plugin: a fixture for each strict server, and one for quirks.

    def test_my_client_answers(messages_server):
        server = messages_server(["It is 5."])
        assert ask(server.base_url) == "It is 5."

A fixture starts any number of servers. At the end of the test, each server is closed; a rejected request or
an unused script item fails the test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from llm_client_conformance.quirks import Quirk
    from llm_client_conformance.scripted.server import ScriptedServer

StartServer = Callable[..., "ScriptedServer"]


def _started(make: Callable[..., ScriptedServer]) -> Iterator[StartServer]:
    with ExitStack() as stack:
        yield lambda *arguments, **options: stack.enter_context(make(*arguments, **options))


@pytest.fixture
def chat_server() -> Iterator[StartServer]:
    """Start servers of chat completions; ``dialect="deepseek"`` selects a vendor's rules."""
    from llm_client_conformance.protocols import ChatServer
    from llm_client_conformance.scripted.server import ScriptedServer

    def make(script: Any = None, dialect: Any = None, **options: Any) -> ScriptedServer:
        return (
            ScriptedServer(script, **options) if dialect is None else ChatServer(script, dialect, **options)
        )

    yield from _started(make)


@pytest.fixture
def messages_server() -> Iterator[StartServer]:
    """Start servers of Anthropic's Messages protocol."""
    from llm_client_conformance.protocols import MessagesServer

    yield from _started(MessagesServer)


@pytest.fixture
def responses_server() -> Iterator[StartServer]:
    """Start servers of OpenAI's Responses protocol."""
    from llm_client_conformance.protocols import ResponsesServer

    yield from _started(ResponsesServer)


@pytest.fixture
def gemini_server() -> Iterator[StartServer]:
    """Start servers of Google's Gemini API."""
    from llm_client_conformance.protocols import GeminiServer

    yield from _started(GeminiServer)


@pytest.fixture
def bedrock_server() -> Iterator[StartServer]:
    """Start servers of Claude through Amazon Bedrock."""
    from llm_client_conformance.protocols import BedrockServer

    yield from _started(BedrockServer)


@pytest.fixture
def vertex_server() -> Iterator[StartServer]:
    """Start servers of Claude through Vertex AI."""
    from llm_client_conformance.protocols import VertexServer

    yield from _started(VertexServer)


@pytest.fixture
def quirk_server() -> Iterator[Callable[[Quirk], ScriptedServer]]:
    """Start servers that answer every request with a quirk."""
    from llm_client_conformance.quirks import serve

    yield from _started(serve)
