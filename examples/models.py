"""The model of the examples in the folders beside this file: a script, or a real one that you name.

python -m examples.from_pydantic_ai.weather_agent
python -m examples.from_pydantic_ai.weather_agent --model qwen3 --base-url http://127.0.0.1:11434/v1

With ``OPENAI_API_KEY`` or ``OPENAI_BASE_URL`` in the environment it is that one.
"""

import argparse
import functools
import os

from pure_agent_loop import ChatModel
from pure_agent_loop.runs.choose import choose_model
from pure_agent_loop.testing import ScriptedLLM
from pure_agent_loop.testing.script import Item


def model(*script: Item) -> ChatModel:
    """The model that was named, else one that says what the script says."""
    return _named() or ScriptedLLM(script)


def ask(question: str, otherwise: str) -> str:
    """What a person says; what stands here if the model is a script too."""
    if _named():
        return input(f"{question} ")
    print(question, otherwise)
    return otherwise


@functools.cache
def _named() -> ChatModel | None:
    parser = argparse.ArgumentParser(description="An example. Without a model it plays a script.")
    parser.add_argument("--model", help="the name of a model, or 'local' for the embedded one")
    parser.add_argument("--base-url", help="the address of a server that speaks chat completions")
    given, environ = parser.parse_args(), os.environ
    if not (given.model or given.base_url or environ.get("OPENAI_API_KEY") or environ.get("OPENAI_BASE_URL")):
        return None
    return choose_model(given.model or environ.get("OPENAI_MODEL"), base_url=given.base_url).client
