"""Handlers for `ScriptedServer` that play servers of different kinds."""

from __future__ import annotations

import itertools
import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from llm_client_conformance import ServerRequest, answer, call, deltas, status
from pure_agent_loop.llm.values import TokenUsage

NUMBERS = ", ".join(map(str, range(1, 51)))


class Server:
    """A server without faults and a model that does as it is told; subclasses spoil something.

    Its name is the handler: ``ScriptedServer(handler=Server())``.
    """

    def __call__(self, request: ServerRequest) -> Any:
        return self.refusal(request) or self.reply(request)

    def refusal(self, request: ServerRequest) -> Any:
        return None

    def reply(self, request: ServerRequest) -> Any:
        question = str(request.messages[-1]["content"])
        if self.calls(request) and ("weather" in question or request.options.get("tool_choice")):
            cities = re.findall("Oslo|Lima", question)
            return [call("get_weather", city=city) for city in cities]
        return self.words(request, question)

    def calls(self, request: ServerRequest) -> bool:
        return bool(request.tools)

    def words(self, request: ServerRequest, question: str) -> Any:
        options = request.options
        tokens = self.prompt_tokens(request)
        limit = options.get("max_tokens") or options.get("max_completion_tokens") or 1000
        if limit < 50:
            return answer("1, 2,", finish_reason="length", usage=TokenUsage(tokens, limit, tokens + limit))
        text = self.text(request, question)
        return answer(text, usage=TokenUsage(tokens, 5, tokens + 5))

    def prompt_tokens(self, request: ServerRequest) -> int:
        return len(request.raw) // 4

    def text(self, request: ServerRequest, question: str) -> str:
        wanted = request.options.get("response_format", {})
        if wanted.get("type") == "json_schema":
            return self.constrained(request, question)
        if wanted:
            return '{"colour": "blue"}'
        if "image_url" in question:
            return "Red."
        if any("BANANA" in str(message["content"]) for message in request.messages):
            return "banana"
        return "It is a fine day."

    def constrained(self, request: ServerRequest, question: str) -> str:
        if "final_answer" in request.raw.decode():
            city = "Oslo" if "Oslo" in question else "?"
            return json.dumps({"tool": "get_weather", "arguments": {"city": city}})
        return '{"colour": "blue", "sure": true}'


class DropsTools(Server):
    """Takes tools and leaves them out of the prompt."""

    def calls(self, request: ServerRequest) -> bool:
        return False

    def prompt_tokens(self, request: ServerRequest) -> int:
        return len(json.dumps(request.messages)) // 4


class RefusesTools(Server):
    """Ollama's words for a model without tools."""

    def refusal(self, request: ServerRequest) -> Any:
        if request.tools:
            return status(400, "registry.ollama.ai/library/gemma:2b does not support tools")
        return None


class RefusesTemperature(Server):
    """OpenAI's reasoning models: their own words."""

    def refusal(self, request: ServerRequest) -> Any:
        options = request.options
        if options.get("temperature", 1) != 1:
            return status(
                400,
                "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) "
                "value is supported.",
                kind="invalid_request_error",
                error_code="unsupported_value",
            )
        if "max_tokens" in options:
            return status(
                400,
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
                "'max_completion_tokens' instead.",
                kind="invalid_request_error",
                error_code="unsupported_parameter",
            )
        return None


class NeverStreams(Server):
    """A server without streaming."""

    def refusal(self, request: ServerRequest) -> Any:
        return status(400, "Streaming is not supported for this model.") if request.streamed else None


class Thinks(Server):
    """A model that thinks where ``chat_template_kwargs`` asks for it; its server refuses other fields."""

    def refusal(self, request: ServerRequest) -> Any:
        if "thinking" in request.options:
            return status(400, "Unrecognized request argument supplied: thinking")
        if "reasoning_effort" in request.options:
            return status(400, "Sorry.")
        return None

    def words(self, request: ServerRequest, question: str) -> Any:
        if request.options.get("chat_template_kwargs"):
            return answer("42", reasoning="17 and 25 make 42.")
        return super().words(request, question)


class Strict(Server):
    """A template of the Mistral kind, with a model that ignores limits and schemas."""

    def refusal(self, request: ServerRequest) -> Any:
        roles = [message["role"] for message in request.messages]
        if "system" in roles or "developer" in roles:
            return status(400, "System role not supported")
        if ("tool", "user") in itertools.pairwise(roles):
            return status(400, "Unexpected role 'user' after role 'tool'")
        if any(len(message.get("tool_calls") or ()) > 1 for message in request.messages):
            return status(500, "This model only supports single tool-calls at once!")
        return None

    def reply(self, request: ServerRequest) -> Any:
        given = super().reply(request)
        return given[:1] if isinstance(given, list) else given

    def words(self, request: ServerRequest, question: str) -> Any:
        if "max_tokens" in request.options and request.options["max_tokens"] < 50:
            return answer(NUMBERS, usage=TokenUsage(9, 150, 159))
        return super().words(request, question)

    def constrained(self, request: ServerRequest, question: str) -> str:
        return "It is blue."


class WritesText(Server):
    """A model that can only act in the ReAct format."""

    def calls(self, request: ServerRequest) -> bool:
        return False

    def text(self, request: ServerRequest, question: str) -> str:
        if "Action Input:" in request.raw.decode():
            return 'Thought: I look.\nAction: get_weather\nAction Input: {"city": "Oslo"}'
        return "No idea."


class OnePiece(Server):
    """Takes requests for streams and answers with an error in the middle of them."""

    def reply(self, request: ServerRequest) -> Any:
        if request.streamed:
            return deltas("One two ", RuntimeError("The worker died."))
        return super().reply(request)


@contextmanager
def web_server(pages: Mapping[str, Any]) -> Iterator[str]:
    """A server with these JSON documents, by path, and a web page for everything else; yields its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = pages.get(self.path)
            body = b"<!doctype html><h1>Hi</h1>" if found is None else json.dumps(found).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html" if found is None else "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        def log_message(self, *_: Any) -> None:
            """Not on the terminal."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()
        thread.join()
