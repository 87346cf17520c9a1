"""What a person decides in a conversation stays decided: the model, and to carry out a plan."""

from __future__ import annotations

from tests.cli.conftest import KEY
from tests.cli.conversations import idle, leave, said
from tests.cli.screens import ENTER, ESC

from pure_agent_loop.testing import answer, call

MAKE = answer("", call("shell", command="touch made", changes=True))


def test_model_chosen_in_a_conversation_is_kept_when_it_is_resumed(pal, maker, screen_class):
    url, requests = maker
    pal.env.update(PAL_BASE_URL=url, PAL_MODEL="lasting-1", PAL_API_KEY=KEY)
    with screen_class(pal) as screen:
        screen.until("/ commands")
        screen.type("/model lasting-2" + ENTER)
        screen.until("Model: lasting-2")
        screen.type("hi" + ENTER)
        screen.until("Hello from the maker")
        leave(screen)
    for words, model in ((("-c",), "lasting-2"), (("-c", "--model", "lasting-1"), "lasting-1")):
        with screen_class(pal, *words) as screen:
            screen.until("Hello from the maker")
            screen.until(f"(?m)^{model} ·")
            screen.type(f"now {model}" + ENTER)
            screen.until(f"(?s)> now {model}.*Hello from the maker")
            leave(screen)
        assert [asked for method, asked in requests if method == "POST"][-1] == model
    with screen_class(pal) as screen:
        screen.until("/ commands")
        assert "lasting-1 ·" in screen.all
        screen.type("/resume 1" + ENTER)
        screen.until("Hello from the maker")
        leave(screen)


def test_enter_carries_out_a_plan_and_changes_the_mode(chat, pal):
    screen = chat(["First touch made.", MAKE, "Made it."], "--permission-mode", "plan")
    screen.until("/ commands")
    screen.type(ENTER)  # no plan yet
    screen.type("plan it" + ENTER)
    screen.until("Press Enter to carry this out")
    idle(screen)
    screen.type(ENTER)
    screen.until("(?s)Carry out the plan.*❯ y")
    assert "ask ⇧⇥" in screen.lines[-1] or "ask ⇧⇥" in screen.text
    screen.type("y" + ENTER)
    screen.until("Made it")
    assert (pal.workspace / "made").exists()
    idle(screen)
    screen.type(ENTER)  # it is carried out once
    leave(screen)
    assert [said(request) for request in screen.server.requests[:2]] == [
        "plan it",
        "Carry out the plan. Changes are allowed now; a person is asked about them.",
    ]
    assert len(screen.server.requests) == 3


def test_stopped_plan_is_not_offered(chat):
    screen = chat([answer("", call("shell", command="sleep 600"))], "--permission-mode", "plan")
    screen.until("/ commands")
    screen.type("plan it" + ENTER)
    screen.until("sleep 600")
    screen.type(ESC)
    screen.until("stopped")
    idle(screen)
    assert "Enter carries" not in screen.all
    leave(screen)


def test_compact_says_when_it_is_not_worth_it(chat):
    screen = chat(["Hi."])
    screen.type("hi" + ENTER)
    screen.until("Hi\\.")
    idle(screen)
    screen.type("/compact" + ENTER)
    screen.until("It saves little: the conversation has only about")
    screen.until("will be compacted")
    leave(screen)
