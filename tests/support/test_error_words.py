"""What an error says includes what stands inside it, wherever it becomes a text."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from pure_agent_loop import Agent, EventType, Tool, tool
from pure_agent_loop.errors import LLMError
from pure_agent_loop.prompts import CHINESE, ENGLISH
from pure_agent_loop.support.language import use_messages
from pure_agent_loop.support.text import MAX_ERROR_CHARS, safe_str
from pure_agent_loop.testing import ScriptedLLM, call

if sys.version_info < (3, 11):
    from exceptiongroup import ExceptionGroup


pytestmark = pytest.mark.anyio


class Odd(Exception):  # noqa: N818 - a stranger's
    """An error whose parts are anything."""

    def __init__(self, **parts):
        vars(self).update(parts)


def caused(outer, inner):
    try:
        raise inner
    except type(inner) as error:
        try:
            raise outer from error
        except type(outer) as raised:
            return raised


def happened(outer, inner):
    try:
        try:
            raise inner
        except type(inner):
            raise outer  # noqa: B904 - as people write it
    except type(outer) as raised:
        return raised


def noted(error, *notes):
    error.__notes__ = list(notes)
    return error


SAID = [
    (
        ExceptionGroup("g", [ExceptionGroup("h", [ValueError("one")]), KeyError("two")]),
        ["one", "KeyError: 'two'"],
    ),
    (caused(RuntimeError("outer"), OSError("the disk is full")), ["outer", "OSError: the disk is full"]),
    (caused(RuntimeError("outer"), caused(ValueError("mid"), KeyError("deep"))), ["outer", "mid", "deep"]),
    (
        caused(RuntimeError("no route"), caused(ValueError("no route"), OSError("refused"))),
        ["no route", "refused"],
    ),
    (happened(ValueError(), OSError("the disk is full")), ["OSError: the disk is full"]),
    (noted(ValueError("bad"), "row 7", "of 9"), ["bad", "row 7", "of 9"]),
    (subprocess.CalledProcessError(3, ["x"], stderr=b"no such table\n"), ["status 3", "no such table"]),
    (subprocess.TimeoutExpired(["x"], 3, output="got so far"), ["3 seconds", "got so far"]),
    (ExceptionGroup("g", [subprocess.CalledProcessError(1, "x", stderr="boo")]), ["boo"]),
    (Odd(exceptions=5, stderr=7, __notes__=None), ["no message"]),
    (Odd(exceptions=["text"], output=""), ["no message"]),
]


@pytest.mark.parametrize(("error", "wanted"), SAID, ids=map(str, range(len(SAID))))
def test_all_of_it_is_said_everywhere(error, wanted):
    def fail(**_):
        raise error

    texts = [safe_str(error), asyncio.run(Tool(fail, name="fail", parameters={"properties": {}}).execute({}))]
    result = Agent(llm=ScriptedLLM([error])).run("x")
    texts += [result.error, *(event.content for event in result.events if event.type is EventType.ERROR)]
    for text in texts:
        assert [word for word in wanted if word not in text] == []


def test_each_reason_is_said_once():
    error = caused(RuntimeError("cannot read: the disk is full"), OSError("the disk is full"))
    assert safe_str(error) == "cannot read: the disk is full"
    error = ValueError("round")
    error.__cause__ = error
    assert safe_str(error) == "round"


def test_an_error_without_a_word_says_where_it_was_raised():
    def check(number):
        assert number > 1

    with pytest.raises(AssertionError) as raised:
        check(0)
    raised.value.args = ()
    assert "check, test_error_words.py:" in safe_str(raised.value)
    assert "assert number > 1" in safe_str(raised.value)
    with use_messages(CHINESE):
        assert safe_str(ValueError()) == "没有说明"
        assert "原因：KeyError" in safe_str(caused(ValueError("错"), KeyError("y")))


def test_a_cause_and_its_message_are_in_one_language():
    for language in (CHINESE, ENGLISH):
        with use_messages(language):
            assert safe_str(caused(ValueError("x"), KeyError("y"))) == "x\nbecause of KeyError: 'y'"


def test_own_error_text_is_its_message():
    assert safe_str(caused(LLMError("The server is busy."), OSError("socket 7"))) == "The server is busy."


def test_error_text_is_bounded():
    many = ExceptionGroup("g", [ExceptionGroup("h", [ValueError("x" * 5_000)] * 50)] * 50)
    assert len(safe_str(many)) < MAX_ERROR_CHARS + 100


async def test_a_task_group_in_a_tool_tells_the_model_why():
    if sys.version_info < (3, 11):
        return

    @tool
    async def both() -> str:
        """Do both."""

        async def one():
            raise ConnectionError("the price server refused")

        async with asyncio.TaskGroup() as group:
            group.create_task(one())
        return "x"

    result = await Agent(llm=ScriptedLLM([call("both"), "done"]), tools=[both]).arun("x")
    (text,) = [message["content"] for message in result.messages if message["role"] == "tool"]
    assert "ConnectionError: the price server refused" in text
