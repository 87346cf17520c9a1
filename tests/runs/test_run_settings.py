"""One run with other settings, agents overridden in a block, and clones."""

from __future__ import annotations

import asyncio
import inspect
import threading
from typing import Any

import pytest
from tests.helpers import add, check_result

from pure_agent_loop import (
    Agent,
    AgentOptions,
    AIClient,
    ConfigError,
    LoopLimits,
    ModelSettings,
    PermissionRules,
    Price,
    RunContext,
    prompts_for,
    tool,
)
from pure_agent_loop.llm.profiles import REQUEST_FIELDS
from pure_agent_loop.runs.options import RequestFields
from pure_agent_loop.testing import ScriptedLLM, ScriptedServer, call


@tool
def mine(ctx: RunContext[Any]) -> str:
    """Say whose it is."""
    return str(ctx.deps)


def test_each_setting_is_in_force_for_one_run_only():
    llm = ScriptedLLM(["a", "b"])
    agent = Agent(llm=llm, tools=[add], system_prompt="S", top_p=0.5)
    settings: dict[str, Any] = {
        "temperature": 0.1,
        "tools": [mine],
        "system_prompt": "T",
        "model_settings": {"seed": 1, "top_p": None},
    }
    check_result(agent.run("x", **settings))
    agent.run("x")
    other, own = llm.requests
    assert (other.options, own.options) == (
        {"temperature": 0.1, "seed": 1},
        {"temperature": 0.7, "top_p": 0.5},
    )
    assert [r.messages[0]["content"] for r in (other, own)] == ["T", "S"]
    assert [r.tools[0]["function"]["name"] for r in (other, own) if r.tools] == ["mine", "add"]


def test_limits_and_output_type_of_one_run():
    agent = Agent(llm=ScriptedLLM([call("add", a=1, b=2), "stopped", "5", "words"]), tools=[add])
    assert agent.run("x", limits=LoopLimits(max_turns=1)).stop_reason == "max_steps"
    assert agent.run("x", output_type=int).output == 5
    assert agent.run("x").output == "words"


def test_a_model_of_one_run_by_name_is_asked_at_the_same_server():
    with ScriptedServer(["a", "b", "c"]) as server:
        agent = Agent(model="m", base_url=server.base_url, api_key="k")
        for model in ("other", None, "other"):
            agent.run("x", model=model)
        assert [request.body["model"] for request in server.requests] == ["other", "m", "other"]
        asyncio.run(agent.aclose())


def test_a_client_of_one_run():
    own, other = ScriptedLLM([]), ScriptedLLM(["hi"])
    assert Agent(llm=own).run("x", model=other).content == "hi"


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a name for a client of ones own": ({"model": "gpt"}, "Pass model=<a client>"),
    "no client": ({"model": 5}, "chat"),
    "no limits": ({"limits": 5}, "limits must be a LoopLimits"),
    "a limit without a price": (
        {"limits": LoopLimits(max_cost=1, prices={"y": Price(1, 1)})},
        "the price of",
    ),
    "tools that are none": ({"tools": 5}, "tools must be a list"),
    "a field of no request": ({"model_settings": {"top_k": 1}}, "top_k"),
    "metadata that is no dict": ({"metadata": 5}, "metadata must be"),
    "metadata without a form": ({"metadata": {"a": object()}}, "metadata="),
    "a prompt that is none": ({"system_prompt": 5}, "system_prompt must be"),
    "a type without a form": ({"output_type": object()}, "output_type"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_unenforceable_limit_is_rejected(name):
    settings, words = REFUSED[name]
    with pytest.raises(ConfigError, match=words):
        Agent(llm=ScriptedLLM([])).run("x", **settings)


def test_unknown_argument_is_a_type_error():
    for ask in (Agent(llm=ScriptedLLM([])).run, Agent(llm=ScriptedLLM([])).conversation().send_sync):
        with pytest.raises(TypeError, match="nope"):
            ask("x", nope=1)


def test_output_type_with_other_checks_is_rejected():
    agent = Agent(llm=ScriptedLLM([]), output_type=int)
    agent.output_check(lambda _: None)
    with pytest.raises(ConfigError, match=r"agent\.clone"):
        agent.run("x", output_type=str)


# -- override ---------------------------------------------------------------------------------------------


def test_override_precedes_run_options_and_ends_with_its_block():
    llm, test = ScriptedLLM(["real"] * 2), ScriptedLLM([call("mine"), "test"])
    agent = Agent(llm=llm, tools=[add])
    assert agent.run("x").content == "real"
    with agent.override(llm=test, tools=[mine]), agent.override(deps="fake"):
        result = agent.run("x", deps="real")
    assert (result.content, result.messages[2]["content"]) == ("test", "fake")
    assert agent.run("x").content == "real"


def test_an_override_holds_for_one_agent_in_one_task_and_one_thread():
    agent = Agent(
        llm=ScriptedLLM(lambda m, *_: "ok" if m[-1]["role"] == "tool" else call("mine")), tools=[mine]
    )
    ready = threading.Barrier(3)

    def said(result: Any) -> str:
        return str(result.messages[2]["content"])

    async def one(name: str) -> str:
        with agent.override(deps=name):
            await asyncio.sleep(0)
            return said(await agent.arun("x"))

    async def both() -> list[str]:
        return list(await asyncio.gather(one("a"), one("b"), one("c")))

    assert asyncio.run(both()) == ["a", "b", "c"]
    found: dict[str, str] = {}

    def work(name: str) -> None:
        with agent.override(deps=name):
            ready.wait()
            found[name] = said(agent.run("x"))

    threads = [threading.Thread(target=work, args=(name,)) for name in "xyz"]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == {"x": "x", "y": "y", "z": "z"}
    other = agent.clone()
    with agent.override(deps="mine"):
        assert said(other.run("x")) == "None"


def test_an_override_that_cannot_work_is_refused():
    with pytest.raises(ConfigError), Agent(llm=ScriptedLLM([])).override(llm=5):  # type: ignore[arg-type]  # a mistake
        pass


# -- clones -----------------------------------------------------------------------------------------------


def test_clone_keeps_all_settings_but_the_changed_ones():
    llm = ScriptedLLM(["a", "7"])
    agent = AIClient(llm=llm, tools=[add], system_prompt="S", top_p=0.5, output_type=int, name="n")
    agent.output_check(lambda number: number + 1)
    copy = agent.clone(system_prompt="T", seed=3)
    assert type(copy) is AIClient
    assert copy.clone(output_type=str).run("x").output == "a"
    assert copy.run("x").output == 8
    assert llm.requests[1].messages[0]["content"] == "T"
    assert (llm.requests[1].options["top_p"], llm.requests[1].options["seed"]) == (0.5, 3)
    with pytest.raises(ConfigError, match="nope"):
        agent.clone(nope=1)


def test_clone_accepts_the_arguments_of_an_agent():
    said = {name: each.annotation for name, each in inspect.signature(Agent).parameters.items()}
    known = {name: each.__forward_arg__ for name, each in AgentOptions.__annotations__.items()}
    assert {**RequestFields.__annotations__, **said}.keys() == {*known, "output_type", "llm_kwargs"}
    assert {name: known[name] for name in said.keys() & known} == {
        name: said[name] for name in said.keys() & known
    }


def test_a_clone_with_a_client_names_no_model():
    with ScriptedServer(["hi"]) as server:
        agent = Agent(model="m", base_url=server.base_url, api_key="k")
        assert agent.clone(llm=ScriptedLLM(["yo"])).run("x").content == "yo"
        assert agent.clone(model="n").run("x").content == "hi"
        assert server.requests[0].body["model"] == "n"


# -- types ------------------------------------------------------------------------------------------------


def test_the_typed_fields_are_those_that_are_checked():
    assert ModelSettings.__annotations__.keys() == REQUEST_FIELDS
    assert RequestFields.__annotations__.keys() == REQUEST_FIELDS - {"temperature"}


def test_an_agent_can_be_named_with_its_types_while_the_program_runs():
    agent = Agent[str](llm=ScriptedLLM(["hi"]))
    assert agent.run("x", deps="d").output == "hi"
    assert Agent[str, int](llm=ScriptedLLM(["5"]), output_type=int).run("x").output == 5


def test_config_shows_the_arguments_of_the_agent():
    rules = PermissionRules(deny=["shell"], shared=True)
    agent = Agent(
        llm=ScriptedLLM([]),
        name="clerk",
        system_prompt="Be kind.",
        limits=LoopLimits(max_turns=3),
        permission_mode="ask",
        permission_rules=rules,
        on_ask=lambda request: "deny",
        language="zh",
    )
    config = agent.config
    assert (config.name, config.system_prompt, config.limits.max_turns) == ("clerk", "Be kind.", 3)
    assert (config.permission_mode, config.permission_rules) == ("ask", rules)
    assert config.on_ask is not None
    assert config.prompts.system_prompt == prompts_for("zh").system_prompt
    assert (config.audit, config.snapshots) == (None, None)
    assert agent.clone(permission_mode="plan").config.permission_mode == "plan"


def test_the_config_shows_the_functions_that_write_the_prompt():
    parts = ["Be kind.", lambda: "Be brief."]
    assert Agent(llm=ScriptedLLM([]), system_prompt=parts).config.system_prompt == parts
    assert Agent(llm=ScriptedLLM([]), system_prompt=["Be", "kind."]).config.system_prompt == "Be\n\nkind."


def test_a_config_cannot_be_changed():
    config = Agent(llm=ScriptedLLM([])).config
    with pytest.raises(AttributeError):
        config.name = "other"
