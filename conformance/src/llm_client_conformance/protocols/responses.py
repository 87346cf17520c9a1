"""Server with OpenAI's Responses protocol, which plays a script and rejects requests as the real one does."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterator
from typing import Any

from llm_client_conformance.protocols.limits import responses_refusal
from llm_client_conformance.protocols.responses_answers import IssuedItems, ResponsesWriting
from llm_client_conformance.protocols.responses_rules import check_responses_request
from llm_client_conformance.scripted.completions import Writing, to_json
from llm_client_conformance.scripted.exchange import Exchange
from llm_client_conformance.scripted.request import ServerRequest
from llm_client_conformance.scripted.server import ScriptedServer

_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
_TOP_LEVEL = frozenset({
    "access_programs", "background", "background_options", "context_management", "conversation", "image",
    "include", "input", "instructions", "max_output_tokens", "max_tool_calls", "metadata", "model",
    "moderation", "parallel_tool_calls", "previous_response_id", "prompt", "prompt_cache_key",
    "prompt_cache_options", "prompt_cache_retention", "reasoning", "safety_identifier",
    "service_tier", "store", "stream", "stream_options", "temperature",
    "text", "tool_choice", "tools", "top_logprobs", "top_p", "truncation", "user",
})  # fmt: skip
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class ResponsesServer(ScriptedServer):
    """Responses server that plays a script over real sockets; see `ScriptedServer`.

    It answers ``POST .../responses``, and for responses in the background ``GET .../responses/ID`` and
    ``POST .../responses/ID/cancel``. Reasoning is encrypted and must be returned unchanged, before the item
    that followed it. Scripts may contain `response_items` and `Detach` in addition to the usual items.

    Args:
        script: See `ScriptedServer`.
        options: Further arguments of `ScriptedServer`.
    """

    _path = "/responses"
    _always_counts = True

    def __init__(self, script: Any = None, **options: Any) -> None:
        super().__init__(script, **options)
        self.issued = IssuedItems()
        self.polls: Iterator[str | int] = iter(())
        """Answers to polls, before the response: a status of a response, or an HTTP status."""
        self.cancelled: list[str] = []
        """Ids of the responses that were cancelled."""

    def forget(self) -> None:
        """Delete the stored responses."""
        self.issued.stored.clear()

    def _new_writing(self, number: int, request: ServerRequest) -> Writing:
        body = request.body if isinstance(request.body, dict) else {}
        writing = ResponsesWriting(number, str(body.get("model")), issued=self.issued, request=body)
        writing.encrypts = "reasoning.encrypted_content" in (body.get("include") or ())
        return writing

    def _refusal_of(self, request: ServerRequest) -> str:
        return responses_refusal(request.body)

    def _problems_of(self, request: ServerRequest) -> list[str]:
        return check_responses_request(request.body, issued=self.issued)

    async def _route(self, request: ServerRequest, out: Exchange) -> None:
        path = re.search(r"/responses/([^/?]+)(/cancel)?(\?.*)?$", request.path)
        previous = request.options.get("previous_response_id")
        if path is not None:
            self.other_requests.append(request)
            query = urllib.parse.parse_qs((path[3] or "")[1:])
            encrypts = "reasoning.encrypted_content" in query.get("include[]", ())
            await self._about(path[1], out, is_cancel=path[2] is not None, encrypts=encrypts)
        elif previous is not None and previous not in self.issued.stored:
            self.requests.append(request)
            words = f"Previous response with id '{previous}' not found."
            error = {"message": words, "code": "previous_response_not_found"}
            await out.respond(400, to_json({"error": error}))
        else:
            await super()._route(request, out)

    async def _about(self, response_id: str, out: Exchange, *, is_cancel: bool, encrypts: bool) -> None:
        """Answer a request about a response in the background."""
        response = self.issued.ended.get(response_id)
        if response is not None and not encrypts:
            output = [
                {**item, "encrypted_content": None} if "summary" in item else item
                for item in response["output"]
            ]
            response = {**response, "output": output}
        if is_cancel:
            self.cancelled.append(response_id)
            state: str | int = "cancelled"
        else:
            state = next(self.polls, "" if response is not None else 404)
        if isinstance(state, int):
            await out.respond(state, to_json({"error": {"message": f"Response {response_id!r}: {state}"}}))
        else:
            running = {"id": response_id, "status": state, "output": []}
            await out.respond(200, to_json(running if state else response))
