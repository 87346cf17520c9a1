"""Background commands at the terminal: a line of their own, a list, their output, their end."""

from __future__ import annotations

import re
import uuid

import pytest
from tests.cli.conversations import idle, leave
from tests.cli.screens import CTRL_D, ENTER
from tests.toolbox.test_sandbox_processes import alive, wait_for

from pure_agent_loop.testing import ScriptedServer, answer, call


@pytest.fixture
def marker():
    """A number of seconds to sleep that nobody else sleeps."""
    return str(10**6 + uuid.uuid4().int % 10**9)


def starts(line, what="start"):
    return answer("", call("shell", command=line, background=what))


def started(chat, line, *more):
    screen = chat([starts(line), "It runs.", *more])
    screen.type("start it" + ENTER)
    screen.until("it stays running")
    screen.type("y" + ENTER)
    screen.until("It runs.")
    idle(screen)
    return screen


def facts_in(request):
    return "\n".join(
        str(each["content"]) for each in request.body["messages"] if "[Context, " in str(each["content"])
    )


class TestAtTheTerminal:
    def test_it_has_a_line_of_its_own_and_ends_with_the_conversation(self, chat, marker):
        screen = started(chat, f"echo up; sleep {marker}")
        screen.until(lambda screen: f"in the background: echo up; sleep {marker}" in screen.text)
        assert re.search(rf"✓ Ran echo up; sleep {marker}  (\d.\d s, )?in the background", screen.all)
        assert len(alive(marker)) == 1
        screen.type(CTRL_D)
        assert screen.end() == 0
        assert re.search(
            rf"Ending background commands:\n.*1  since \d\d:\d\d  echo up; sleep {marker}", screen.all
        )
        assert alive(marker) == []

    def test_it_is_listed_read_and_ended(self, chat, pal, marker):
        screen = started(chat, f"echo up; sleep {marker}; echo $MY_API_KEY")
        screen.type("/background" + ENTER)
        screen.until(rf"1 +since \d\d:\d\d +echo up; sleep {marker}")
        screen.type("/background 1" + ENTER)
        screen.until(r"(?m)^up$")
        screen.type("/background 2" + ENTER)
        screen.until("No background command has the number '2'")
        screen.type("/background end 1" + ENTER)
        screen.until("1  ended  echo up")
        assert "background: " not in screen.all.partition("It runs.")[0]  # the question says it in words
        assert alive(marker) == []
        screen.until(lambda screen: "in the background: " not in screen.text)
        leave(screen)

    def test_command_that_ends_by_itself_is_announced_to_person_and_model(self, chat, pal):
        screen = started(chat, "until [ -e stop ]; do sleep 0.02; done; exit 4", "I see.")
        (pal.workspace / "stop").touch()
        screen.until(r"A background command ended: 1  exit code 4  until")
        screen.type("/background end 1" + ENTER)
        screen.until(r"(?m)^· 1  exit code 4  until")  # ended before that
        screen.type("go on" + ENTER)
        screen.until("I see.")
        assert (
            "Background commands: `until [ -e stop ]; do sleep 0.02; done; exit 4` [exit code 4]"
            in facts_in(screen.server.requests[-1])
        )
        leave(screen)

    def test_another_session_does_not_have_it(self, chat, marker):
        screen = started(chat, f"sleep {marker}")
        screen.type("/new" + ENTER)
        screen.until("Ending background commands:")
        wait_for(lambda: alive(marker) == [])
        leave(screen)

    def test_after_a_kill_nothing_is_left_and_nothing_is_started_again(self, chat, pal, screen_class, marker):
        screen = started(chat, f"touch made; sleep {marker}")
        (pal.workspace / "made").unlink()
        screen.kill()
        wait_for(lambda: alive(marker) == [])
        with ScriptedServer(["It has ended."]) as server:
            pal.use(server)
            with screen_class(pal, "-c") as again:
                again.until("It runs.")
                again.type("does it run?" + ENTER)
                again.until("It has ended.")
                leave(again)
        lost = f"ended with an earlier process, or out of reach: `touch made; sleep {marker}`"
        assert lost in facts_in(server.requests[0])
        assert not (pal.workspace / "made").exists()


class TestOneRun:
    def test_it_ends_with_the_run(self, pal, marker):
        with ScriptedServer(
            [starts(f"sleep {marker}"), starts(f"sleep {marker}", "read"), "Done."]
        ) as server:
            pal.use(server)
            done = pal("run", "--permission-mode", "auto", "start it")
        assert (done.returncode, done.stdout) == (0, "Done.\n")
        assert f"Background commands ended with the run: sleep {marker}" in done.stderr
        assert "[still runs in the background]" in str(server.requests[-1].body)
        assert alive(marker) == []

    def test_after_a_kill_in_mid_run_nothing_is_left(self, pal, marker):
        line = f"touch made; sleep {marker}"

        def stuck(request):
            if any(each["role"] == "tool" for each in request.body["messages"]):
                process.kill()
            return starts(line)

        with ScriptedServer(handler=stuck) as server:
            pal.use(server)
            process = pal.start("run", "--permission-mode", "auto", "start it")
            process.communicate(timeout=60)
            wait_for(lambda: alive(marker) == [])
        (pal.workspace / "made").unlink()
        with ScriptedServer(["It has ended."]) as server:
            pal.use(server)
            assert pal("run", "-c").stdout == "It has ended.\n"
        assert f"out of reach: `{line}`" in facts_in(server.requests[0])
        assert not (pal.workspace / "made").exists()
