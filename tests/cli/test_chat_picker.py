"""Sessions are chosen with the arrow keys, found by typing, previewed and renamed."""

from __future__ import annotations

import pytest
from tests.cli.conversations import idle, leave, said, without_facts
from tests.cli.screens import CTRL_C, CTRL_R, DOWN, ENTER, ESC, Screen
from tests.cli.tmux import TmuxScreen

from pure_agent_loop.testing import ScriptedServer

TASKS = {"mend the discount": "It is **90** now.", "explain the tax": "Tax is 19 %.", "plan a day": "Oslo."}
KEYS = "Enter resumes"


@pytest.fixture
def screen_class():
    return TmuxScreen


@pytest.fixture
def sessions(pal, chat):
    """Opens a conversation after three others."""

    def open_chat(*words, script=("Yes.",), **size):
        for task, answer in TASKS.items():
            with ScriptedServer([answer]) as server:
                pal.use(server)
                assert pal("run", "--tools", "none", task).returncode == 0
        return chat(list(script), *words, **size)

    return open_chat


def marked(screen):
    return [line for line in screen.lines if line.startswith("❯")]


def pick(screen, keys, title):
    screen.type(keys)
    screen.until(lambda screen: marked(screen) and title in marked(screen)[0])


def test_resume_with_arrows_and_a_preview(sessions):
    screen = sessions("-r", columns=100)
    screen.until(KEYS)
    assert marked(screen)[0].split("  ")[0] == "❯ plan a day"
    assert "│ plan a day" in screen.text
    assert "Oslo." in screen.text
    pick(screen, DOWN, "explain the tax")
    pick(screen, DOWN, "mend the discount")
    assert "It is **90** now." in screen.text
    screen.type(ENTER)
    screen.until("It is 90 now.")
    assert KEYS not in screen.all  # the list has left no trace
    screen.type("and now?" + ENTER)
    screen.until("Yes.")
    idle(screen)
    leave(screen)
    messages = without_facts(screen.server.requests[0].body["messages"])
    assert [message["content"] for message in messages[-2:]] == ["It is **90** now.", "and now?"]


def test_typing_filters_and_esc_chooses_none(sessions):
    screen = sessions("-r", script=())
    screen.until(KEYS)
    pick(screen, "tax expl", "explain the tax")
    assert "plan a day" not in screen.text
    screen.type("x")
    screen.until("No such session in this folder.")
    screen.type("\b" + ESC)
    assert screen.end() == 2
    assert "No session was selected." in screen.all


def test_a_session_gets_another_name_inside_a_conversation(sessions, pal):
    screen = sessions(columns=40, rows=16)
    screen.type("/sessions" + ENTER)
    screen.until("plan a day")
    pick(screen, "disc", "mend the discount")
    assert "It is **90** now." in screen.text  # below the list
    screen.type(CTRL_R)
    screen.until("name: mend the discount")
    screen.type("\x15shop: 90" + ENTER)
    screen.until(lambda screen: marked(screen) == [] or "shop: 90" in marked(screen)[0])
    screen.until("> disc")
    pick(screen, "\x15shop", "shop: 90")
    screen.type(CTRL_R)
    screen.until("name: shop")
    screen.type("\x15till: 90" + ENTER)
    screen.until("No such session")  # the new name does not pass the filter
    pick(screen, "\x15till", "till: 90")
    screen.type(ENTER)
    screen.until("It is 90 now.")
    idle(screen)
    screen.type("go on" + ENTER)
    screen.until("Yes.")
    idle(screen)
    assert said(screen.server.requests[0]) == "go on"
    assert "explain the tax" not in screen.all
    leave(screen)
    assert "till: 90" in pal("sessions", "list").stdout


def test_title_of_a_session_controls_no_terminal(sessions, pal):
    TASKS["x\x1b]0;owned\x07\x1b[2Jy"] = "\x1b]0;owned\x07 \u202ez"
    try:
        screen = sessions("-r", script=())
    finally:
        del TASKS["x\x1b]0;owned\x07\x1b[2Jy"]
    screen.until(KEYS)
    assert "❯ x\\x1b]0;owned\\x07\\x1b[2Jy" in screen.text
    assert "│ \\x1b]0;owned\\x07" in screen.text
    screen.type(ESC)
    screen.end()


def test_none_is_chosen_in_a_conversation(sessions):
    screen = sessions()
    screen.type("/sessions" + ENTER)
    screen.until("plan a day")
    screen.type(CTRL_C)
    screen.until(lambda screen: KEYS not in screen.text)
    screen.until("> Ask, or type /")
    screen.type("hello" + ENTER)
    screen.until("Yes.")
    assert len(screen.server.requests[0].body["messages"]) <= 3
    idle(screen)
    leave(screen)


@pytest.mark.parametrize("screen_class", [Screen])
@pytest.mark.parametrize("words", [["--screen-reader"], []], ids=["reader", "dumb"])
def test_numbered_list_where_nothing_may_move(sessions, pal, words):
    if not words:
        pal.env["TERM"] = "dumb"
    screen = sessions("chat", "-r", *words, script=())
    screen.until("Which session")
    screen.type("3" + ENTER)
    screen.until("mend the discount")
    assert KEYS not in screen.all
