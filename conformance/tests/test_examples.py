"""The example programs print a result in each kind of scene; ours is right."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from llm_client_conformance.judging import Terms, judge
from llm_client_conformance.scenes import all_scenes

EXAMPLES = Path(__file__).parents[1] / "examples"
SCENES = {scene.name: scene for scene in all_scenes()}
TERMS = Terms(deadline=60.0)
SDKS = {
    "anthropic_client": ["messages-by-the-book", "messages-two-calls", "messages-status-401"],
    "google_genai_client": ["gemini-by-the-book", "gemini-reasoning", "gemini-status-404"],
    "openai_chat_client": ["calls-by-the-book", "chat-two-calls", "chat-status-429"],
    "openai_responses_client": ["responses-by-the-book", "responses-reasoning", "responses-status-500"],
}
OURS = ["same-index-whole-calls", "chat-of-deepseek", "messages-529", "responses-two-calls"]
OURS += ["gemini-closed-in-text", "bedrock-reasoning", "vertex-text-and-calls", "chat-silence-in-text"]


@pytest.mark.parametrize("name", OURS)
def test_our_client_is_right(name):
    assert (
        judge(SCENES[name], [sys.executable, str(EXAMPLES / "pure_agent_loop_client.py")], TERMS).reason == ""
    )


@pytest.mark.parametrize(("program", "name"), [(program, name) for program in SDKS for name in SDKS[program]])
def test_client_over_sdk_is_right(program, name):
    assert judge(SCENES[name], [sys.executable, str(EXAMPLES / f"{program}.py")], TERMS).reason == ""
