"""Commands that stay: they are read and ended by their line, nobody starts one unasked, and none is left."""

from __future__ import annotations

import asyncio
import re
import uuid

import pytest
from tests.processes import running
from tests.toolbox.sandbox_ground import five_ways, require_tools, system_python
from tests.toolbox.test_sandbox_processes import alive, wait_for

from pure_agent_loop import Agent
from pure_agent_loop.events import EventType
from pure_agent_loop.permissions import JudgeContext
from pure_agent_loop.stop_reasons import SUSPENDED
from pure_agent_loop.support.language import model_text
from pure_agent_loop.testing import ScriptedLLM, answer, call
from pure_agent_loop.toolbox import Limits, Shell
from pure_agent_loop.toolbox.complaints import WorkspaceError
from pure_agent_loop.toolbox.sandbox.memory import exceeds
from pure_agent_loop.toolbox.shell.background import LOG_BYTES, MAX_RUNNING
from pure_agent_loop.toolbox.shell.policy import ShellPolicy

MODES = ["bubblewrap", "landlock", "none"]
POLITE = "trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.02; done"


@pytest.fixture(autouse=True)
def _tools():
    require_tools()


@pytest.fixture
def marker():
    """A number of seconds to sleep that nobody else sleeps."""
    return str(10**6 + uuid.uuid4().int % 10**9)


async def use(shell, command, what, timeout=None):
    return (await shell.run(command, timeout, background=what)).text


async def read_until(shell, command, wanted, said=""):
    """Read as a model does, until a text has come."""
    while not re.search(wanted, said):
        said += await use(shell, command, "read")
    return said


def in_shell(work, folder, **options):
    """Do work with a shell that is held, and return its result."""

    async def held():
        async with Shell(folder, **{"unsandboxed": True, **options}) as shell:
            return await work(shell)

    return asyncio.run(held())


class TestByItsLine:
    @pytest.mark.parametrize("mode", MODES)
    def test_it_is_started_read_and_ended(self, mode, tmp_path):
        async def work(shell):
            started = await use(shell, POLITE, "start")
            said = await read_until(shell, POLITE, "up", started)
            silent = await use(shell, POLITE, "read")
            return said, silent, await use(shell, POLITE, "end"), await use(shell, POLITE, "read")

        said, silent, ended, after = in_shell(work, tmp_path, sandbox=mode)
        assert said.count("up\n") == 1
        assert silent == "(no output)\n[still runs in the background]"
        assert re.search(r"bye\n\[exit code 7\]$", ended)
        assert after == "(no output)\n[exit code 7]"

    def test_start_reports_an_early_end(self, tmp_path):
        async def work(shell):
            return await shell.run("echo no >&2; exit 3", background="start")

        outcome = in_shell(work, tmp_path)
        assert outcome.text == "no\n[exit code 3]"
        assert outcome.has_failed

    def test_the_same_line_runs_once(self, tmp_path, marker):
        async def work(shell):
            line = f"sleep {marker}"
            await use(shell, line, "start")
            with pytest.raises(WorkspaceError, match="runs in the background already"):
                await use(shell, line, "start")
            wait_for(lambda: len(alive(marker)) == 1)
            await use(shell, line, "end")
            await use(shell, line, "start")
            return [(each.number, each.finished is None) for each in shell.background]

        assert in_shell(work, tmp_path) == [(2, True)]

    def test_start_above_the_limit_is_refused(self, tmp_path, marker):
        async def work(shell):
            lines = [f"sleep {marker}; : {number}" for number in range(MAX_RUNNING)]
            await asyncio.gather(*(use(shell, line, "start") for line in lines))
            with pytest.raises(WorkspaceError, match=f"{MAX_RUNNING} background commands run already"):
                await use(shell, "true", "start")

        in_shell(work, tmp_path)
        assert alive(marker) == []

    def test_reading_a_line_that_was_not_started_is_refused(self, tmp_path, marker):
        async def work(shell):
            await use(shell, f"sleep {marker}", "start")
            with pytest.raises(WorkspaceError, match=f"Known: 'sleep {marker}'"):
                await use(shell, "npm run dev", "read")

        in_shell(work, tmp_path)

    def test_a_timeout_is_in_force_or_refused(self, tmp_path, marker):
        async def work(shell):
            line = f"sleep {marker}"
            await use(shell, line, "start", 0.2)
            with pytest.raises(WorkspaceError, match="timeout has no effect with background='read'"):
                await use(shell, line, "read", 5)
            with pytest.raises(WorkspaceError, match="more than 0"):
                await use(shell, "true", "start", 0)
            return next(iter(shell.background)).finished.timed_out

        assert in_shell(work, tmp_path) is True

    def test_its_limits_are_those_of_a_command_in_front(self, tmp_path):
        grow = f"{system_python()} -c 'x = bytearray(300_000_000)\nwhile True: pass'"

        async def work(shell):
            await use(shell, grow, "start")
            return await read_until(shell, grow, "exit code")

        assert "more than 0.0977 GiB" in in_shell(work, tmp_path, limits=Limits(memory=100 * 1024**2))


class TestItsOutput:
    def test_it_is_bounded(self, tmp_path):
        line = "head -c 20000000 /dev/zero | tr '\\0' 'x' | fold -w 50; echo written; sleep 1000000"

        async def work(shell):
            said = await use(shell, line, "start")
            command = next(iter(shell.background))
            while "written" not in command.newest():
                await asyncio.sleep(0)
            return said + await use(shell, line, "read"), command.newest(), len(command._newest)

        said, newest, kept = in_shell(work, tmp_path, max_output=3_000)
        assert len(said) < 8_000
        assert "bytes left out" in said
        assert "written\n" in said
        assert "the middle of the output was left out" in said
        assert len(newest) <= kept <= LOG_BYTES

    def test_a_line_is_read_whole_so_that_a_secret_in_it_is_hidden(self, tmp_path, monkeypatch):
        secret = "canary-" + uuid.uuid4().hex
        monkeypatch.setenv("MY_API_KEY", secret)
        half = f"echo up; printf {secret[:20]}; touch half; until [ -e go ]; do sleep 0.01; done; "
        line = f"{half}echo {secret[20:]}; echo all; until [ -e never ]; do sleep 0.01; done"

        shell, reads = Shell(tmp_path), []

        def model(messages, tools, options):
            said = messages[-1]["content"] if messages[-1]["role"] == "tool" else ""
            reads.append(said)
            if len(reads) == 2:  # half of the secret is printed, and not the end of its line
                wait_for((tmp_path / "half").exists)
            elif len(reads) == 3:
                (tmp_path / "go").touch()
                wait_for(lambda: "all\n" in next(iter(shell.background)).newest())
            what = "start" if len(reads) == 1 else "read"
            return "Done." if len(reads) == 4 else answer("", call("shell", command=line, background=what))

        Agent(llm=ScriptedLLM(model), tools=[shell.tool()]).run("go")
        assert "all\n" in reads[3]
        assert not any(secret[:20] in said or secret[20:] in said for said in reads)


class TestNothingIsLeft:
    @pytest.mark.parametrize("mode", MODES)
    def test_process_that_ignores_sigterm_is_killed(self, mode, tmp_path, marker):
        line = f"trap '' TERM\n{five_ways(marker)}\ntouch up; while :; do sleep {marker}; done"

        async def work(shell):
            await use(shell, line, "start")
            while not (tmp_path / "up").exists():
                await asyncio.sleep(0.01)
            ended = await use(shell, line, "end")
            return ended, alive(marker)

        ended, left = in_shell(work, tmp_path, sandbox=mode)
        assert "exit code 137" in ended
        assert left == []

    def test_the_run_ends_what_it_started_and_says_so(self, tmp_path, marker):
        line = f"sleep {marker}"
        llm = ScriptedLLM([answer("", call("shell", command=line, background="start")), "Done."])
        shell = Shell(tmp_path)
        result = Agent(llm=llm, tools=[shell.tool()]).run("go")
        assert result.content == "Done."
        assert alive(marker) == []
        notices = [each.data["message"] for each in result.events if each.type is EventType.NOTICE]
        assert notices == [f"Background commands ended with the run: {line}"]

    def test_a_cancelled_run_ends_it_too(self, tmp_path, marker):
        line = f"sleep {marker}"
        begun = asyncio.Event()

        async def model(messages, tools, options):
            if messages[-1]["role"] == "tool":
                begun.set()
                await asyncio.Event().wait()
            return answer("", call("shell", command=line, background="start"))

        async def cancelled():
            task = asyncio.ensure_future(
                Agent(llm=ScriptedLLM(model), tools=[Shell(tmp_path).tool()]).arun("go")
            )
            await begun.wait()
            assert len(alive(marker)) == 1
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(cancelled())
        assert alive(marker) == []

    def test_a_held_shell_keeps_it_from_run_to_run(self, tmp_path, marker):
        script = [
            answer("", call("shell", command=f"echo up; sleep {marker}", background="start")),
            "It runs.",
            answer("", call("shell", command=f"echo up; sleep {marker}", background="end")),
            "It ended.",
        ]

        async def work(shell):
            conversation = Agent(llm=ScriptedLLM(script), tools=[shell.tool()]).conversation()
            await conversation.send("start it")
            running = len(alive(marker))
            await conversation.send("end it")
            return running, len(alive(marker))

        assert in_shell(work, tmp_path) == (1, 0)

    def test_a_session_does_not_see_those_of_another(self, tmp_path, marker, monkeypatch):
        monkeypatch.setenv("PAL_HOME", str(tmp_path / "home"))
        (tmp_path / "work").mkdir()
        line = f"sleep {marker}"

        async def work(shell):
            for what, session in (("start", "one"), ("read", "two"), ("read", "one")):
                llm = ScriptedLLM([answer("", call("shell", command=line, background=what)), "Done."])
                result = await Agent(llm=llm, tools=[shell.tool()]).arun(what, session_id=session)
                yield next(
                    str(each["content"]) for each in reversed(result.messages) if each["role"] == "tool"
                )

        async def all_of(shell):
            return [said async for said in work(shell)]

        started, foreign, own = in_shell(all_of, tmp_path / "work")
        assert "runs in the background" in started
        assert "No background command has this command line" in foreign
        assert "still runs" in own


class TestWithoutAnOwner:
    def test_a_call_outside_of_a_run_is_refused(self, tmp_path):
        with pytest.raises(WorkspaceError, match='background="start" is not possible here'):
            asyncio.run(Shell(tmp_path).run("true", background="start"))

    def test_a_durable_run_is_refused(self, tmp_path):
        from pure_agent_loop.durable import Engine

        llm = ScriptedLLM([answer("", call("shell", command="touch made", background="start")), "Done."])
        agent = Agent(llm=llm, tools=[Shell(tmp_path).tool()])
        with Engine(f"sqlite:///{tmp_path}/runs.sqlite", agents={"a": agent}) as engine:
            handle = engine.submit("a", "go")
            assert handle.result().content == "Done."
        read = str(llm.requests[-1])
        assert "this run ends with the call, or may continue in another process" in read
        assert not (tmp_path / "made").exists()


class TestWhoIsAsked:
    """The same line is asked about as in front; what stays is asked about where a trial would decide."""

    LINES = ("npm run dev", "git push", "rm -rf /", "tail -f log", "make serve")
    RULES = (
        {},
        {"allow": ["make serve", "npm run *"]},
        {"ask": ["tail *"], "allow": ["tail *"]},
        {"deny": ["npm *"]},
    )

    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("rules", RULES)
    @pytest.mark.parametrize("context", [
        JudgeContext(attended=True),
        JudgeContext(attended=False),
        JudgeContext(attended=True, approved=True),
    ])  # fmt: skip
    def test_start_asks_as_the_same_line_in_front(self, mode, rules, context, tmp_path):
        shell = Shell(tmp_path, sandbox=mode, policy=ShellPolicy(root=str(tmp_path), **rules))
        for line in self.LINES:
            front = shell.judge({"command": line, "changes": True}, context)
            behind = shell.judge({"command": line, "background": "start"}, context)
            assert (front and front.behavior) == (behind and behind.behavior), line
            if behind and behind.behavior == "ask":
                assert "it stays running in the background until it is ended; " in behind.message

    def test_plan_mode_denies_a_start(self, tmp_path, marker):
        line = f"touch made; sleep {marker}"
        llm = ScriptedLLM([answer("", call("shell", command=line, background="start")), "Done."])
        Agent(llm=llm, tools=[Shell(tmp_path).tool()], permission_mode="plan").run("go")
        assert not (tmp_path / "made").exists()

    def test_without_an_answer_nothing_runs(self, tmp_path):
        llm = ScriptedLLM([answer("", call("shell", command="touch made", background="start")), "Done."])
        result = Agent(llm=llm, tools=[Shell(tmp_path).tool()], permission_mode="ask").run("go")
        assert result.stop_reason == SUSPENDED
        assert "it stays running in the background" in result.questions[0].reason
        assert not (tmp_path / "made").exists()

    def test_reading_and_ending_ask_nobody(self, tmp_path, marker):
        line, asked = f"sleep {marker}", []
        steps = [
            answer("", call("shell", command=line, background=what)) for what in ("start", "read", "end")
        ]

        def ask(request):
            asked.append(request.args["background"])
            return True

        agent = Agent(
            llm=ScriptedLLM([*steps, "."]), tools=[Shell(tmp_path).tool()], permission_mode="ask", on_ask=ask
        )
        assert agent.run("go").content == "."
        assert asked == ["start"]


SERVE = "-u -m http.server 0 --bind 127.0.0.1"
FETCH = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:{port}/page.txt').read().decode())"
SERVE_FILE = """
import http.server, os, socketserver
class Server(socketserver.UnixStreamServer): pass
class Handler(http.server.SimpleHTTPRequestHandler):
    def address_string(self): return "peer"
print("up", flush=True)
Server("s", Handler).serve_forever()
"""
FETCH_FILE = """
import http.client, socket
c = http.client.HTTPConnection("x"); c.sock = socket.socket(socket.AF_UNIX); c.sock.connect("s")
c.request("GET", "/page.txt"); print(c.getresponse().read().decode())
"""


class TestAServer:
    """A real HTTP server in the background, and a second command that asks it for a page."""

    @pytest.fixture(autouse=True)
    def _page(self, tmp_path):
        (tmp_path / "page.txt").write_text("served")
        (tmp_path / "serve.py").write_text(SERVE_FILE)
        (tmp_path / "fetch.py").write_text(FETCH_FILE)

    def served(self, folder, **options):
        serve = f"{system_python()} {SERVE}"

        async def work(shell):
            said = await use(shell, serve, "start")
            port = re.search(r"port (\d+)", await read_until(shell, serve, r"port \d+", said))[1]
            fetched = await shell.shell(f'{system_python()} -c "{FETCH.format(port=port)}"')
            return said, fetched, await use(shell, serve, "read")

        return in_shell(work, folder, **options)

    @pytest.mark.parametrize("mode", MODES)
    def test_with_the_network_it_is_reached(self, mode, tmp_path):
        said, fetched, log = self.served(tmp_path, sandbox=mode, network=True)
        assert fetched == "served\n[exit code 0]"
        assert "GET /page.txt" in log
        assert "no network" not in said

    def test_without_the_network_bubblewrap_gives_each_command_its_own(self, tmp_path):
        said, fetched, _ = self.served(tmp_path, sandbox="bubblewrap")
        assert "Connection refused" in fetched
        assert "[commands have no network here: no other command or browser reaches its ports]" in said

    def test_a_socket_in_the_workspace_is_reached_without_the_network(self, tmp_path):
        serve, fetch = (f"{system_python()} {name}.py" for name in ("serve", "fetch"))

        async def work(shell):
            await read_until(shell, serve, "up", await use(shell, serve, "start"))
            while not (tmp_path / "s").exists():
                await asyncio.sleep(0)
            return await shell.shell(fetch)

        assert "served\n[exit code 0]" in in_shell(work, tmp_path, sandbox="bubblewrap")


class TestFacts:
    def facts_in(self, history, folder, line):
        """What a run with an earlier conversation is told, and after the command ended by itself."""

        async def work(shell):
            first = shell.background.facts("", history)
            await use(shell, line, "start")
            second = shell.background.facts("", history)
            (folder / "end").touch()
            command = next(iter(shell.background))
            while command.finished is None:
                await asyncio.sleep(0.01)
            third = shell.background.facts("", history)
            await use(shell, line, "read")
            return first, second, third, shell.background.facts("", history)

        return in_shell(work, folder)

    def test_facts_name_running_and_ended_commands(self, tmp_path):
        line = "until [ -e end ]; do sleep 0.01; done; exit 4"
        first, second, third, last = self.facts_in([], tmp_path, line)
        assert first == ""
        assert re.fullmatch(rf"Background commands: `{re.escape(line)}` runs since \d\d:\d\d", second)
        assert third == f"Background commands: `{line}` [exit code 4]"
        assert last == ""

    def test_facts_name_commands_of_an_earlier_process(self, tmp_path):
        history, started = [], f"(no output)\n{model_text('background_started')}"
        for number, (line, what, result) in enumerate((
            ("vite", "start", started),
            ("old", "start", started),
            ("failed", "start", "[exit code 1]"),
            ("vite", "read", "(no output)\n[still runs in the background]"),
            ("old", "end", "[exit code 143]"),
            ("npm test", None, "[exit code 0]"),
        )):  # fmt: skip
            args = f'{{"command": "{line}"' + (f', "background": "{what}"}}' if what else "}")
            made = {"id": f"c{number}", "type": "function", "function": {"name": "shell", "arguments": args}}
            history += [
                {"role": "assistant", "content": "", "tool_calls": [made]},
                {"role": "tool", "tool_call_id": f"c{number}", "content": result},
            ]
        first, *_ = self.facts_in(history, tmp_path, "until [ -e end ]; do sleep 0.01; done")
        assert first == "Background commands: ended with an earlier process, or out of reach: `vite`"


def test_memory_is_measured_while_processes_come_and_go():
    """An error would kill the command. Each look may meet a process that has just ended."""
    with running(["bash", "-c", "while :; do /bin/true & /bin/true; done"]) as process:
        for _ in range(2_000):
            exceeds(process.pid, 1)
