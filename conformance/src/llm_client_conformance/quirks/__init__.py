"""Answers as real servers send them, mostly odd ones, each with the result of a correct client.

Each `Quirk` has the bytes of a body and the expected result. `serve` sends it from a real
loopback server, and `check` lists the differences of any client's result:

    for quirk in QUIRKS:
        with serve(quirk) as server:
            print(quirk.name, check(quirk, ask_my_client(server.base_url)))

`QUIRKS` has the quirks of chat completions, `PROTOCOL_QUIRKS` the quirks of Messages, Responses and Gemini.
"""

from typing import Any

from llm_client_conformance.quirks.checking import check
from llm_client_conformance.quirks.of_calls import (
    FORM_QUIRKS,
    ID_QUIRKS,
    INDEX_QUIRKS,
    NAME_QUIRKS,
    UNUSABLE_QUIRKS,
)
from llm_client_conformance.quirks.of_endings import (
    ERROR_QUIRKS,
    FINISH_QUIRKS,
    FRAMING_QUIRKS,
    PLACE_QUIRKS,
    USAGE_QUIRKS,
)
from llm_client_conformance.quirks.of_gemini import GEMINI_QUIRKS
from llm_client_conformance.quirks.of_messages import MESSAGES_QUIRKS
from llm_client_conformance.quirks.of_responses import RESPONSES_QUIRKS
from llm_client_conformance.quirks.of_text import TEXT_QUIRKS, THINKING_QUIRKS
from llm_client_conformance.quirks.quirk import Expected, Outcome, OutcomeCall, Quirk
from llm_client_conformance.quirks.serving import RawBody, serve

__all__ = [
    "PROTOCOL_QUIRKS",
    "QUIRKS",
    "TOOLS",
    "Expected",
    "Outcome",
    "OutcomeCall",
    "Quirk",
    "RawBody",
    "check",
    "serve",
]

QUIRKS: tuple[Quirk, ...] = (
    *INDEX_QUIRKS,
    *ID_QUIRKS,
    *NAME_QUIRKS,
    *PLACE_QUIRKS,
    *FORM_QUIRKS,
    *UNUSABLE_QUIRKS,
    *TEXT_QUIRKS,
    *THINKING_QUIRKS,
    *FINISH_QUIRKS,
    *USAGE_QUIRKS,
    *ERROR_QUIRKS,
    *FRAMING_QUIRKS,
)
PROTOCOL_QUIRKS: dict[str, tuple[Quirk, ...]] = {
    "messages": MESSAGES_QUIRKS,
    "responses": RESPONSES_QUIRKS,
    "gemini": GEMINI_QUIRKS,
}


def _tool(name: str, description: str, **parameters: str) -> dict[str, Any]:
    properties = {key: {"type": kind} for key, kind in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


# The tools that are called in the quirks, to be sent with a request.
TOOLS: tuple[dict[str, Any], ...] = (
    _tool("add", "Add two numbers.", a="integer", b="integer"),
    _tool("now", "Tell the time."),
    _tool("say", "Say something.", text="string"),
)
