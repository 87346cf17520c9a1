"""Tools on their own: `tool`, `Tool`, `ToolRegistry`, and what comes of a call. (Schemas: test_schema.py.)"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading

import pytest

from pure_agent_loop import ConfigError, Tool, ToolRegistry, tool
from pure_agent_loop.prompts import CHINESE, ENGLISH
from pure_agent_loop.tool import as_tool

pytestmark = pytest.mark.anyio


@tool
def add(a: int, b: int = 1) -> int:
    """Add two numbers.

    Args:
        a: The first.
        b: The second.
    """
    return a + b


@tool(name="fetch", description="Get it.", idempotent=True, timeout=5)
async def get(url: str) -> str:
    """Not this text."""
    await asyncio.sleep(0)
    return f"page {url}"


async def test_a_bare_decorator():
    assert (add.name, add.description) == ("add", "Add two numbers.")
    assert (add.idempotent, add.timeout, add.is_async) == (False, None, False)
    assert add.parameters["properties"]["a"]["description"] == "The first."
    assert add.parameters["required"] == ["a"]
    assert await add.execute({"a": 1, "b": "2"}) == "3"
    assert add(4) == 5
    assert repr(add) == "Tool('add')"


def test_options_hold_for_a_function_that_is_handed_over():
    assert tool(add.function, idempotent=True, destructive=True).destructive is True
    with pytest.raises(ConfigError):
        tool(add, destructive=True)  # a tool already: its options are not lost without a word


async def test_a_decorator_with_arguments():
    assert (get.name, get.description, get.idempotent, get.timeout) == ("fetch", "Get it.", True, 5)
    assert get.is_async
    assert await get.execute({"url": "x"}) == "page x"
    assert await get("y") == "page y"


def test_the_schema_of_a_request():
    schema = get.to_openai_schema()
    assert schema["type"] == "function"
    assert schema["function"]["name"] == "fetch"
    assert schema["function"]["description"] == "Get it."
    assert schema["function"]["parameters"]["properties"]["url"]["type"] == "string"


class Callable:
    async def __call__(self, x: int) -> int:
        """Double."""
        return 2 * x

    def method(self, x: int) -> int:
        """Triple."""
        return 3 * x


async def test_other_callables():
    assert await Tool(Callable()).execute({"x": 2}) == "4"
    assert await Tool(Callable().method).execute({"x": 2}) == "6"
    partial = Tool(functools.partial(add.function, b=10))
    assert (partial.name, await partial.execute({"a": 1})) == ("add", "11")
    later = Tool(functools.partial(get.function))
    assert later.is_async
    assert await later.execute({"url": "z"}) == "page z"


async def test_a_sync_function_that_returns_an_awaitable():
    @tool
    def later(x: int) -> object:
        """Later."""
        return get("w")

    assert await later.execute({"x": 1}) == "page w"


GIVEN = {
    "name": "grep",
    "description": "Search.",
    "parameters": {
        "type": "object",
        "properties": {"pattern": {"type": "string"}},
        "required": ["pattern"],
        "additionalProperties": False,
    },
    "function": lambda pattern: f"found {pattern}",
}


async def test_a_tool_given_as_a_dict():
    grep = as_tool(GIVEN)
    assert grep.to_openai_schema()["function"] == {k: v for k, v in GIVEN.items() if k != "function"}
    assert await grep.execute({"pattern": "x"}) == "found x"
    assert "pattern: field required" in await grep.execute({})
    assert "unknown argument 'more'" in await grep.execute({"pattern": "x", "more": 1})


async def test_a_dict_without_schema_takes_it_from_the_function():
    short = as_tool({"name": "plus", "function": add.function})
    assert (short.name, short.description) == ("plus", "Add two numbers.")
    assert await short.execute({"a": 1}) == "2"


async def test_an_open_schema_lets_further_arguments_through():
    echo = as_tool({"name": "echo", "parameters": {}, "function": lambda **given: given})
    assert await echo.execute({"x": [1]}) == '{"x": [1]}'


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({}, "a: field required"),
        ({"a": "many"}, "a: "),
        ({"a": 1, "c": 2}, "unknown argument 'c'"),
        (None, "InvalidArguments"),
        ([1], "InvalidArguments"),
        ("a", "InvalidArguments"),
    ],
)
async def test_wrong_arguments_are_reported_and_tool_is_not_called(args, words):
    text = await add.execute(args)
    assert text.startswith("Tool 'add' failed.")
    assert words in text
    assert "Send the call again with correct arguments." in text


async def test_outcome_has_an_error_flag():
    good, bad = await add.invoke({"a": 1}, ENGLISH), await add.invoke({}, CHINESE)
    assert (good.text, good.is_error, good.is_interrupt) == ("2", False, False)
    assert (bad.is_error, bad.is_interrupt) == (True, False)
    assert "执行失败" in bad.text


# -- threads --------------------------------------------------------------------------------------


async def test_sync_tools_run_in_a_worker_thread_with_the_context_copied():
    user = contextvars.ContextVar("user", default="nobody")

    @tool
    def who() -> list:
        """Who and where."""
        found = [user.get(), threading.current_thread() is threading.main_thread()]
        user.set("changed")
        return found

    user.set("ada")
    assert await who.execute({}) == '["ada", false]'
    assert user.get() == "ada"


async def test_async_tools_run_in_the_loop():
    @tool
    async def where() -> bool:
        """Where."""
        return threading.current_thread() is threading.main_thread()

    assert await where.execute({}) == "true"


async def test_worker_threads_are_daemons_and_used_again():
    @tool
    def thread() -> list:
        """Which."""
        me = threading.current_thread()
        return [me.name, me.daemon]

    before = threading.active_count()
    for _ in range(20):
        assert await thread.execute({}) == '["pal-tool", true]'
    assert threading.active_count() <= before + 2  # the one just used may not be back yet


# -- registry -------------------------------------------------------------------------------------


async def test_a_registry():
    registry = ToolRegistry()
    assert registry.register(add) is add
    registry.register_many([get, GIVEN])
    assert (len(registry), [each.name for each in registry]) == (3, ["add", "fetch", "grep"])
    assert registry.get("add") is add
    assert registry.get("nothing") is None
    assert "add" in registry
    assert "nothing" not in registry
    assert await registry.execute("add", {"a": 1, "b": 2}) == "3"
    assert registry.to_openai_schema() == [each.to_openai_schema() for each in registry]
    assert registry.to_openai_schemas() == registry.to_openai_schema()


async def test_unknown_tool_is_answered_with_the_known_ones():
    text = await ToolRegistry([add, get]).execute("sub", {"a": 1})
    assert "Tool 'sub' failed." in text
    assert "Available tools: add, fetch" in text
    assert "Available tools: -" in await ToolRegistry().execute("x", {})


def test_a_tool_added_later_is_in_the_next_schema():
    registry = ToolRegistry([add])
    assert len(registry.to_openai_schema()) == 1
    registry.register(get)
    assert len(registry.to_openai_schema()) == 2


def test_a_double_name_leaves_the_registry_as_it_was():
    registry = ToolRegistry([add])
    with pytest.raises(ConfigError, match="Two tools have the name 'add'"):
        registry.register(Tool(lambda: 1, name="add", parameters={}))
    assert [each.name for each in registry] == ["add"]
    assert registry.get("add") is add


@pytest.mark.parametrize("name", ["", "two words", "a.b", "näme", "x" * 65, "line\n", 7])
def test_names_that_servers_refuse(name):
    with pytest.raises(ConfigError, match="is invalid: servers accept"):
        Tool(lambda: 1, name=name, parameters={})


@pytest.mark.parametrize("name", ["a", "A-b_9", "x" * 64])
def test_names_that_servers_take(name):
    assert Tool(lambda: 1, name=name, parameters={}).name == name
