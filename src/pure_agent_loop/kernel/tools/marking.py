"""Results that are words of others, as the model gets them: in a frame that says that they are data."""

from __future__ import annotations

import hashlib

from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.llm.values import ToolCall
from pure_agent_loop.prompts.frames import framed
from pure_agent_loop.tool import Tool

_MARK_CHARS = 16


def marked(call: ToolCall, tool: Tool | None, text: str, kit: Kit) -> str:
    """The result of a call, in a frame if its tool says that it brings words of others.

    The frame stands in the history; events, records of outcomes and the audit log have the plain text. Its
    mark depends on the call and on all of the text, so no text can hold its own and end the frame, and a
    replay makes the same one.

    Args:
        tool: The tool; None if there is none of that name.
        kit: Has the words of the frame.
    """
    if tool is None or not tool.untrusted or not text:
        return text
    whole = "\0".join((call.id, call.name, text)).encode("utf-8", "surrogatepass")
    mark = hashlib.sha256(whole).hexdigest()[:_MARK_CHARS]
    return framed(kit.prompts, call.name, mark, text)
