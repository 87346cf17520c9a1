"""The task list and the question to the user."""

from __future__ import annotations

import pytest

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.toolbox import TodoItem, TodoList, ask_user_tool, workspace_tools

pytestmark = pytest.mark.anyio


class TestTodo:
    async def test_the_list_is_replaced_and_shown(self) -> None:
        todo = TodoList()
        (tool,) = todo.tools()
        items = [
            {"task": "read", "status": "done"},
            {"task": "write", "status": "in_progress"},
            {"task": "test"},
        ]
        assert await tool.execute({"items": items}) == (
            "1. [x] read\n2. [>] write\n3. [ ] test\n(1 of 3 done)"
        )
        assert todo.items == (
            TodoItem("read", "done"),
            TodoItem("write", "in_progress"),
            TodoItem("test", "pending"),
        )
        assert await tool.execute({"items": []}) == "(the list is empty)"
        assert todo.items == ()

    @pytest.mark.parametrize(
        ("items", "words"),
        [
            ([{"task": " "}], "Task 1 must have"),
            ([{"task": "a"}, {"task": "x" * 501}], "Task 2 must have"),
            ([{"task": "a"}] * 101, "the maximum is 100"),
            ([{"task": "a", "status": "maybe"}], "status"),
        ],
    )
    async def test_invalid_task_list_is_rejected(self, items: list[dict[str, str]], words: str) -> None:
        todo = TodoList()
        assert words in await todo.tools()[0].execute({"items": items})
        assert todo.items == ()


class TestAskUser:
    async def test_sync_and_async(self) -> None:
        async def later(question: str, options: list[str]) -> str:
            return f"{question} {options}"

        arguments = {"question": "Which?", "options": ["a", "b"]}
        assert await ask_user_tool(later).execute(arguments) == "Which? ['a', 'b']"
        assert await ask_user_tool(lambda question, options: options[1]).execute(arguments) == "b"
        assert await ask_user_tool(lambda question, options: "").execute({"question": "?"}) == (
            "(the user gave no answer)"
        )

    async def test_question_without_user_fails(self) -> None:
        result = await ask_user_tool().execute({"question": "?"})
        assert "Decide yourself, and say in your answer what you assumed." in result

    async def test_an_error_of_the_function(self) -> None:
        def closed(question: str, options: list[str]) -> str:
            raise EOFError("the terminal is closed")

        assert "the terminal is closed" in await ask_user_tool(closed).execute({"question": "?"})


@pytest.mark.parametrize("shell", [True, False])
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"language": "zh"}, r"unknown option 'language'; .* Agent\(language='zh'\)"),
        ({"sandbux": "none"}, "unknown option 'sandbux'.* sandbox, network"),
    ],
)
def test_unknown_options_are_refused(tmp_path, shell, options, said):
    with pytest.raises(ConfigError, match=said):
        workspace_tools(tmp_path, shell=shell, **options)
