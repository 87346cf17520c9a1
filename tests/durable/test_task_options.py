"""What comes with a durable task arrives, or is refused by name; deps are made once for each attempt."""

from __future__ import annotations

import base64
import inspect
import json
import re

import pytest

from pure_agent_loop import Agent, ConfigError, LoopLimits, RunContext, tool
from pure_agent_loop.budget import Price
from pure_agent_loop.cancel import CancelToken
from pure_agent_loop.durable import Engine, task_options
from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.inbox import Inbox
from pure_agent_loop.kernel.journal import MemoryJournal
from pure_agent_loop.media import File
from pure_agent_loop.runs.options import RUN_OPTIONS
from pure_agent_loop.sessions import new_session_id
from pure_agent_loop.testing import ScriptedLLM, call

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PDF = b"%PDF-1.4 nothing"
# By name: a value that can be kept, or None where none can.
KEPT = {
    "messages": [{"role": "user", "content": "before"}, {"role": "assistant", "content": "yes"}],
    "media": [PNG],
    "metadata": {"tenant": "a", "n": [1, None]},
    "limits": LoopLimits(max_turns=3, max_cost=1.0, prices={"scripted": Price(1.0, 2.0)}),
    "model": "other",
    "temperature": 0.1,
    "system_prompt": "Be short.",
    "model_settings": {"top_p": 0.5},
    "session_id": "s",
    "tools": [{"name": "far", "parameters": {"type": "object", "properties": {}}, "external": True}],
}
REFUSED = {
    "deps": object(),
    "facts": lambda: "",
    "output_type": int,
    "cancel_token": CancelToken(),
    "inbox": Inbox(),
    "journal": MemoryJournal(),
    "state": {"messages": []},
}


@pytest.fixture(params=["sqlite", "postgres"])
def engine_with(request, tmp_path):
    """Makes an engine with one agent, on each kind of database."""
    url = f"sqlite:///{tmp_path}/r.sqlite"
    if request.param == "postgres":
        url = request.getfixturevalue("postgres").url
    return lambda agent, **options: Engine(url, agents={"a": agent}, **options)


def test_every_option_of_a_run_is_taken_or_refused_by_name():
    assert set(RUN_OPTIONS) == KEPT.keys() | REFUSED.keys()
    own = inspect.signature(Agent.prepare).parameters.keys() - {"self", "task", "settings", "sessions"}
    assert own <= set(RUN_OPTIONS)
    for name, value in KEPT.items():
        if name != "session_id":
            found = task_options.unpack_options(task_options.pack_options({name: value}))
            assert found.keys() == {name}
            if name != "media":
                assert found[name] == value
    for name, value in REFUSED.items():
        with pytest.raises(ConfigError, match=f"^{name} cannot be stored"):
            task_options.pack_options({name: value})
    with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'"):
        task_options.pack_options({"nonsense": 1})
    with pytest.raises(TypeError, match=r"argument 'modl'. Did you mean model\?"):
        task_options.pack_options({"modl": "m"})


@pytest.mark.parametrize(
    "options",
    [
        {"tools": [len]},
        {"model": ScriptedLLM([])},
        {"system_prompt": lambda: "x"},
        {"metadata": {"at": object()}},
        {"metadata": {"n": float("nan")}},
        {"limits": 3},
        {"media": ["/no/such/file.png"]},
        {"media": "x.png"},
        {"messages": "none"},
    ],
    ids=lambda options: next(iter(options)),
)
def test_value_without_a_json_form_is_rejected_before_queueing(options):
    (name,) = options
    with pytest.raises(PureAgentLoopError, match=f"{name}|/no/such"):
        task_options.pack_options(options)


def test_too_much_is_refused_with_its_size():
    history = [{"role": "user", "content": "x" * 1_000_000}] * 65
    with pytest.raises(ConfigError, match=r"messages.* are 65,0\d\d,\d\d\d bytes"):
        task_options.pack_options({"messages": history})


def test_attachments_of_a_task_reach_the_model(engine_with):
    @tool
    def tenant(ctx: RunContext) -> str:
        """Whose is it?"""
        return str(ctx.metadata["tenant"])

    llm = ScriptedLLM([call("tenant"), "seen"])
    with engine_with(Agent(llm=llm, tools=[tenant])) as engine:
        info = engine.submit(
            "a",
            "what is this?",
            [{"role": "user", "content": "before"}, {"role": "assistant", "content": "yes"}],
            media=[
                PNG,
                File(data=PDF, media_type="application/pdf"),
                File(data=b"hi", media_type="text/plain"),
            ],
            metadata={"tenant": "north"},
            system_prompt="Be short.",
            limits=LoopLimits(max_turns=5),
        ).result(60)
    assert (info.status, info.content) == ("completed", "seen")
    messages = llm.requests[0].messages
    assert [m["role"] for m in messages] == ["system", "user", "assistant", "user"]
    assert messages[0]["content"] == "Be short."
    kinds = [part["type"] for part in messages[3]["content"]]
    assert sorted(kinds) == ["file", "image_url", "text", "text"]
    assert "north" in json.dumps(llm.requests[1].messages)


class Bank:
    """Has no JSON form."""

    def __init__(self, name: str) -> None:
        self.name = name


@tool
def whose(ctx: RunContext[Bank]) -> str:
    """Whose bank is it?"""
    return ctx.deps.name


def test_deps_are_made_once_for_each_run_also_by_async_functions_and_for_the_next_agent(engine_with):
    made = []

    async def factory(ctx: RunContext) -> Bank:
        made.append(ctx.metadata["tenant"])
        return Bank(f"bank of {ctx.metadata['tenant']}")

    second = Agent(llm=ScriptedLLM([call("whose"), "b"]), tools=[whose], name="second")
    llm = ScriptedLLM([call("whose"), call("transfer_to_second")])
    with engine_with(Agent(llm=llm, tools=[whose], handoffs=[second]), deps=factory) as engine:
        info = engine.submit("a", "x", metadata={"tenant": "north"}).result(60)
        records = str(engine.sessions.read(info.session_id).records)
    assert (info.status, info.content, made) == ("completed", "b", ["north"])
    assert records.count("bank of north") >= 2


def test_without_deps_the_run_fails_before_its_first_request_and_says_why(engine_with):
    llm = ScriptedLLM(["never"], strict=False)
    with engine_with(Agent(llm=llm, tools=[whose])) as engine:
        info = engine.submit("a", "x").result(60)
    assert info.status == "failed"
    assert "'whose' needs deps of type Bank" in info.error
    assert not llm.requests


def test_a_factory_that_fails_fails_the_run_and_is_logged(engine_with, caplog):
    def factory():
        raise OSError("no bank today")

    llm = ScriptedLLM(["never"], strict=False)
    with engine_with(Agent(llm=llm, tools=[whose]), deps=factory) as engine:
        info = engine.submit("a", "x").result(60)
    assert (info.status, info.error) == ("failed", "OSError: no bank today")
    assert not llm.requests
    assert any(record.exc_info and record.exc_info[0] is OSError for record in caplog.records)


@pytest.mark.parametrize("factory", [lambda a: a, 3, dict.fromkeys], ids=["argument", "number", "builtin"])
def test_a_factory_of_the_wrong_shape_is_refused_where_it_is_given(engine_with, factory):
    with pytest.raises(ConfigError, match="deps"):
        engine_with(Agent(llm=ScriptedLLM([])), deps=factory)


def test_same_id_keeps_the_first_task(engine_with):
    llm = ScriptedLLM(["one"])
    with engine_with(Agent(llm=llm)) as engine:
        run_id = new_session_id()
        engine.submit("a", "x", run_id=run_id, metadata={"n": 1}, media=[PNG])
        info = engine.submit("a", "x", run_id=run_id, metadata={"n": 2}).result(60)
    assert info.content == "one"
    assert len(llm.requests) == 1
    assert "image_url" in json.dumps(llm.requests[0].messages)


def test_messages_for_a_session_that_has_begun_are_refused_by_name(engine_with):
    llm, before = ScriptedLLM(["one", "two"]), [{"role": "user", "content": "before"}]
    with engine_with(Agent(llm=llm)) as engine:
        first = engine.submit("a", "x", before).result(60)
        refused = engine.submit("a", "y", before, session_id=first.session_id).result(60)
        again = engine.submit("a", "z", session_id=first.session_id).result(60)
    assert (first.content, refused.status, again.content) == ("one", "failed", "two")
    assert re.match(r"messages \(1\) cannot be passed: session .* has begun", refused.error)
    assert [m["content"] for m in llm.requests[1].messages[1:]] == ["before", "x", "one", "z"]


def test_restarted_task_keeps_its_attachments(engine_with):
    """A person has gone on in the session of a run that waited for an answer."""
    llm = ScriptedLLM(
        lambda messages, tools, options: call("put") if messages[-1]["role"] == "user" else "done"
    )

    @tool
    def put() -> str:
        """Put it."""
        return "put"

    with engine_with(Agent(llm=llm, tools=[put], permission_mode="ask")) as engine:
        handle = engine.submit(
            "a", "x", [{"role": "user", "content": "long ago"}], media=[PNG], metadata={"n": 7}
        )
        (question,) = handle.result(60).questions
        Agent(llm=ScriptedLLM(["ok"])).run("hi", session_id=handle.run_id, sessions=engine.sessions)
        handle.answer(question.call_id, "allow")
        (again,) = handle.result(60).questions
        handle.answer(again.call_id, "allow")
        info = handle.result(60)
    assert (info.status, info.content) == ("completed", "done")
    texts = json.dumps(llm.requests[-1].messages)
    assert (texts.count("long ago"), texts.count("image_url")) == (1, 4)  # the part and its field, twice
