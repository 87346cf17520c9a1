"""The ReAct system prompt: what it says, how it is filled, and where it can be used."""

from __future__ import annotations

import pytest
from tests.helpers import add

from pure_agent_loop import Agent, ConfigError, ReactLoop, react_prompt
from pure_agent_loop.prompts import CHINESE, ENGLISH
from pure_agent_loop.testing import ScriptedLLM

STEPS = {"en": ("Think", "Act", "Observe", "final answer"), "zh": ("思考", "行动", "观察", "最终答案")}


@pytest.mark.parametrize(("language", "words"), [("en", ENGLISH), ("zh", CHINESE)])
def test_it_goes_from_thinking_to_the_final_answer(language, words):
    text = react_prompt(language=language)
    assert text == words.react_method
    places = [text.index(step) for step in STEPS[language]]
    assert places == sorted(places)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_role_and_constraints_are_filled_in_as_they_are(language):
    text = react_prompt(" You keep {books}. ", ["Never use %s.", "Cite {0}."], language)
    assert text.startswith("You keep {books}.\n\n")
    assert text.endswith("\n- Never use %s.\n- Cite {0}.")
    assert "\n\n\n" not in text


def test_the_language_of_the_environment(monkeypatch):
    monkeypatch.setenv("PAL_LANG", "zh")
    assert react_prompt() == CHINESE.react_method


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"role": 5}, "role must be text"),
        ({"constraints": "Be brief."}, "constraints must be a list of strings"),
        ({"constraints": [1]}, "constraints must be a list of strings"),
        ({"language": "fr"}, "language='fr' is unknown"),
    ],
)
def test_unknown_placeholder_is_rejected(options, said):
    with pytest.raises(ConfigError, match=said):
        react_prompt(**options)


@pytest.mark.anyio
async def test_it_is_the_system_prompt_of_an_agent_and_of_a_loop():
    prompt = react_prompt("You count.")
    with ScriptedLLM(["ok", "ok"]) as llm:
        await Agent(llm=llm, tools=[add], system_prompt=prompt).arun("go")
        await ReactLoop(llm, [add]).run("go", system_prompt=prompt)
    for request in llm.requests:
        assert request.messages[0] == {"role": "system", "content": prompt}
