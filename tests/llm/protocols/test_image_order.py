"""Parts of a message reach the model in their order, for every protocol."""

from __future__ import annotations

from typing import Any

import pytest

from pure_agent_loop import Agent

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
IMAGE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
TEXTS = ["what is this?", "and this?"]


def strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        value = list(value.values())
    return [text for item in value for text in strings(item)] if isinstance(value, list) else [str(value)]


@pytest.mark.parametrize(
    "model",
    ["openai:gpt-4o", "anthropic:claude-sonnet-4-5", "gemini:gemini-2.5-flash", "responses:gpt-5"],
)
def test_image_before_its_text_stays_before_it(model):
    parts = [IMAGE, {"type": "text", "text": TEXTS[0]}, IMAGE, {"type": "text", "text": TEXTS[1]}]
    history = [{"role": "user", "content": parts}, {"role": "assistant", "content": "a dot"}]
    request = Agent(model=model, api_key="k").explain("next", history).request
    sent = ["image" if PIXEL in text else text for text in strings(request) if PIXEL in text or text in TEXTS]
    assert sent == ["image", TEXTS[0], "image", TEXTS[1]]
