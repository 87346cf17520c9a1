"""A failed request in the conversation: what the person reads, and how a refused key is replaced."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import KEY, WRONG
from tests.cli.conversations import leave
from tests.cli.screens import ENTER

from llm_client_conformance.faults import refusing_url
from pure_agent_loop.testing import status


@pytest.fixture
def opened(pal, screen_class):
    """Opens a conversation with a server by its URL and a key."""
    screens = []

    def open_with(url: str, key: str = "", *words: str, **size: int):
        pal.env.update(PAL_BASE_URL=url, PAL_MODEL="lasting-1", PAL_API_KEY=key)
        screens.append(screen_class(pal, *words, **{"columns": 100, **size}))
        screens[-1].until("(?m)^pal [0-9]")
        return screens[-1]

    yield open_with
    for screen in screens:
        screen.__exit__(None, None, None)


def flat(screen) -> str:
    return " ".join(screen.all.split())


def test_refused_key_is_replaced_in_the_conversation_and_kept(pal, opened, maker):
    url, requests = maker
    screen = opened(url, WRONG)
    screen.type("hi" + ENTER)
    screen.until("no such key")
    assert "error: The key was refused (401)." in flat(screen)
    assert f"Key: variable PAL_API_KEY. Server: {url}." in flat(screen)
    for number, key in enumerate(("sk-worse-0123456789", KEY), 1):
        screen.type("/key" + ENTER)
        screen.until(rf"(?s)(Key \(not shown.*){{{number}}}")
        screen.type(key)
        screen.until("[*]{10}")
        screen.type(ENTER)
        screen.until("(?s)no such key.*no such key" if key != KEY else "key kept in")
    screen.type("again" + ENTER)
    screen.until("Hello from the maker")
    leave(screen)
    assert KEY not in screen.all
    home = Path(pal.env["PAL_HOME"])
    assert KEY in (home / "keys.env").read_text()
    assert "worse" not in (home / "keys.env").read_text()
    assert not [path for path in (home / "history").iterdir() if KEY in path.read_text()]
    screen = opened(url, "")
    screen.type("once more" + ENTER)
    screen.until("Hello from the maker")
    leave(screen)
    assert {asked for method, asked in requests if method == "POST"} == {"lasting-1"}


def test_hidden_line_can_be_left_and_sends_nothing(opened, maker):
    url, requests = maker
    screen = opened(url, KEY)
    screen.type("/key" + ENTER)
    screen.until("Key \\(not shown")
    screen.type("half a key")
    screen.until("[*]{10}")
    screen.type("\x03")
    screen.until("> Ask, or type")
    screen.type("hi" + ENTER)
    screen.until("Hello from the maker")
    assert "half a key" not in screen.all
    leave(screen)
    assert {asked for method, asked in requests if method == "GET"} <= {f"Bearer {KEY}"}


def test_server_that_is_gone_is_named_once_and_in_words(opened, maker):
    with refusing_url() as url:
        screen = opened(url)
        screen.type("hi" + ENTER)
        screen.until("Gave up after")
        screen.until("Your task is kept")
    assert "The connection to the model server failed. Trying again" in flat(screen)
    assert "Connection refused" in flat(screen)
    assert f"Is the server running and reachable? Server: {url}." in flat(screen)
    assert "ssl:default" not in screen.all
    assert "Cannot connect to host" not in screen.all


def test_history_overflow_message_has_both_token_counts(chat):
    said = "This model's maximum context length is 8192 tokens. However, you requested 9120 tokens."
    screen = chat({"handler": lambda request: status(400, said, error_code="context_length_exceeded")})
    screen.type("hi" + ENTER)
    screen.until("8192 tokens. However")
    assert "The conversation no longer fits (9,120 of 8,192 tokens)." in flat(screen)
    leave(screen)


def test_key_in_place_of_a_model_is_refused_and_not_repeated(pal):
    refused = pal("run", "--model", KEY, "hi")
    assert refused.returncode == 2
    assert "has the form of a key" in refused.stderr
    assert KEY not in refused.stderr


@pytest.mark.parametrize(
    "line",
    [
        "/model {}",
        "/key {}",
        "/mode {}",
        "/sessions {}",
        "/permissions allow {}",
        "/fix {} now",
        "#key {}",
        "{}",
    ],
)
def test_typed_line_with_a_key_is_neither_sent_nor_shown_nor_kept(pal, chat, line):
    screen = chat(["Not a key."])
    screen.type(line.format(KEY))
    screen.until(KEY[-8:])
    screen.type(ENTER)
    screen.until("contains a key.*")
    assert "Enter keys with /key" in flat(screen)
    screen.type("\x1b[A" + "pick a sk-learn model" + ENTER)  # Up recalls nothing
    screen.until("Not a key")
    assert KEY not in screen.all
    assert len(screen.server.requests) == 1
    leave(screen)
    for path in Path(pal.env["PAL_HOME"]).rglob("*"):
        assert path.is_dir() or KEY.encode() not in path.read_bytes(), path


@pytest.mark.parametrize("command", ["/hooks", "/todos", "/todo", "/review"])
def test_commands_of_other_programs_are_answered_in_a_line(chat, command):
    screen = chat([])
    screen.type(f"{command} now" + ENTER)
    screen.until(r"· (Hooks are|The agent shows|Ask for it)")
    assert "Unknown command" not in screen.all
    leave(screen)
