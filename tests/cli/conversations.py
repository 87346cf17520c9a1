"""What tests of whole conversations have in common."""

from __future__ import annotations

import asyncio
import re
import threading

from tests.cli.screens import CTRL_D


class Held:
    """Answers of a server that wait until a test has seen what it wants to see."""

    def __init__(self, *script):
        self.go, self.seen, self._script = threading.Event(), [], list(script)

    async def __call__(self, request):
        answer = self._script.pop(0)
        self.seen.append(request)
        if len(self.seen) == 1:
            await asyncio.get_running_loop().run_in_executor(None, self.go.wait, 60)
        return answer


def leave(screen):
    screen.type(CTRL_D)
    assert screen.end() == 0


def idle(screen):
    """Wait until nothing goes on: the last line does not count seconds."""
    screen.until(lambda screen: screen.text and not re.search(r" \d+ s\b", screen.text.splitlines()[-1]))


def without_facts(messages):
    """Return the messages of a request without those that hold facts, such as date and folder."""
    return [message for message in messages if not str(message["content"]).startswith("[Context, ")]


def said(request):
    """What the person said last, as the server got it."""
    body = request.body if hasattr(request, "body") else request
    return [each["content"] for each in body["messages"] if each["role"] == "user"][-1]
