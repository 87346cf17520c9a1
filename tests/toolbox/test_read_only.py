"""What nobody approved runs so that it can change nothing; a person is asked only if that was not enough."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import os
import shutil
import socket
import uuid
from pathlib import Path

import pytest
from tests.helpers import unframed
from tests.toolbox.sandbox_ground import require_tools, system_python

from pure_agent_loop import Agent, CancelToken, Permission, PermissionRules, SessionManager
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.events import EventType
from pure_agent_loop.permissions import JudgeContext
from pure_agent_loop.testing import ScriptedLLM, call
from pure_agent_loop.toolbox import Shell
from pure_agent_loop.toolbox.sandbox import seccomp
from pure_agent_loop.toolbox.sandbox.launch import Unconfined
from pure_agent_loop.toolbox.sandbox.process import run_process

MODES = ["bubblewrap", "landlock"]


@pytest.fixture(autouse=True)
def _tools():
    require_tools()


@pytest.fixture(params=MODES)
def shell(request, tmp_path):
    return Shell(tmp_path, sandbox=request.param)


def judged(shell, command, context=None, **args):
    found = shell.judge({"command": command, **args}, context or JudgeContext(attended=True))
    return asyncio.run(found) if inspect.iscoroutine(found) else found


def agent(shell, *commands, answer=None, **options):
    script = [call("shell", **({"command": each} if isinstance(each, str) else each)) for each in commands]
    asked = []

    def on_ask(request):
        asked.append(request)
        return answer

    options = {"permission_mode": "ask", **({"on_ask": on_ask} if answer else {}), **options}
    return Agent(llm=ScriptedLLM([*script, "done"]), tools=[shell.tool()], **options), asked


def sleeps(seconds):
    """Whether a process sleeps so long."""
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if each.read_bytes() == f"sleep\0{seconds}\0".encode():
                return True
    return False


def results(result):
    return [unframed(each["content"]) for each in result.messages if each["role"] == "tool"]


class TestTheFlow:
    def test_reading_command_needs_no_question(self, shell, tmp_path):
        (tmp_path / "a.txt").write_text("one\ntwo\n")
        made, asked = agent(shell, "awk '{ print NR, $0 }' a.txt | sort -r", answer="deny")
        result = made.run("go")
        assert results(result) == ["2 two\n1 one\n[exit code 0]"]
        assert asked == []

    def test_changing_command_is_tried_then_asked_then_run_once(self, shell, tmp_path):
        made, asked = agent(shell, "echo x >> log; echo done", answer="allow")
        result = made.run("go")
        assert results(result) == ["done\n[exit code 0]"]
        assert (tmp_path / "log").read_text() == "x\n"
        assert [each.tool for each in asked] == ["shell"]
        assert "tried read-only" in asked[0].reason
        assert "log: " in asked[0].reason

    def test_a_refusal_leaves_everything_as_it_was(self, shell, tmp_path):
        made, _ = agent(shell, "touch made", answer="deny")
        made.run("go")
        assert list(tmp_path.iterdir()) == []

    def test_run_without_person_waits_before_any_change(self, shell, tmp_path):
        made, _ = agent(shell, "touch made")
        assert made.run("go").stop_reason == "waiting_permission"
        assert list(tmp_path.iterdir()) == []

    def test_unrecognized_failure_can_be_asked_about(self, shell, tmp_path):
        hidden = "touch made 2>/dev/null"
        made, asked = agent(shell, hidden, {"command": hidden, "changes": True}, answer="allow")
        first, second = results(made.run("go"))
        assert "changes=true" in first
        assert second == "(no output)\n[exit code 0]"
        assert (tmp_path / "made").exists()
        assert len(asked) == 1
        assert "the model declared" in asked[0].reason

    def test_a_temporary_file_needs_no_person(self, shell):
        """In Landlock there is no ``/tmp`` of one's own: then the model is told what there is instead."""
        name = f"/tmp/{uuid.uuid4().hex}"
        made, asked = agent(
            shell, f"echo x > {name} && cat {name}", "echo y > $TMPDIR/a; cat $TMPDIR/a", answer="allow"
        )
        first, second = results(made.run("go"))
        assert asked == []
        assert (
            first == "x\n[exit code 0]"
            if shell.sandbox.private_home
            else "write to this command's own $TMPDIR" in first
        )
        assert second == "y\n[exit code 0]"
        assert not Path(name).exists()

    def test_workspace_below_tmp_is_not_temporary(self, shell, tmp_path):
        made, asked = agent(shell, f"echo x > {tmp_path}/log", answer="allow")
        made.run("go")
        assert len(asked) == 1
        assert (tmp_path / "log").exists()

    def test_other_failure_asks_no_question(self, shell):
        made, asked = agent(shell, "ls nowhere", "false", answer="allow")
        assert len(results(made.run("go"))) == 2
        assert asked == []

    def test_a_function_that_agrees_agrees_to_no_more_than_was_suggested(self, shell, tmp_path):
        seen = []

        def can_use_tool(name, args, context):
            seen.append((context.suggestion, context.read_only))
            return "allow"

        hidden = "touch made 2>/dev/null; true"
        made, _ = agent(shell, hidden, "touch made", can_use_tool=can_use_tool)
        first, second = results(made.run("go"))
        assert seen == [("allow", True), ("ask", False)]
        assert first == "(no output)\n[exit code 0]"
        assert second == "(no output)\n[exit code 0]"
        assert (tmp_path / "made").exists()

    def test_arguments_of_the_function_are_its_own_decision(self, shell, tmp_path):
        args = {"command": "touch other"}
        made, _ = agent(shell, "ls", can_use_tool=lambda *_: Permission("allow", updated_args=args))
        made.run("go")
        assert (tmp_path / "other").exists()

    def test_always_means_that_the_tool_is_approved(self, shell, tmp_path):
        answer = Permission("allow", always=True)
        made, asked = agent(shell, "touch a", "touch b 2>/dev/null", answer=answer)
        made.run("go")
        assert len(asked) == 1
        assert sorted(each.name for each in tmp_path.iterdir()) == ["a", "b"]

    @pytest.mark.parametrize("mode", ["auto", "bypass"])
    def test_these_modes_approve(self, shell, tmp_path, mode):
        made, _ = agent(shell, "touch made", permission_mode=mode)
        made.run("go")
        assert (tmp_path / "made").exists()

    def test_a_rule_for_the_whole_tool_approves(self, shell, tmp_path):
        made, _ = agent(shell, "touch made", permission_rules=PermissionRules(allow=["shell"]))
        made.run("go")
        assert (tmp_path / "made").exists()

    def test_plan_mode_looks_and_changes_nothing(self, shell, tmp_path):
        rules = PermissionRules(allow=["shell(touch *)"])
        made, asked = agent(
            shell, "pwd", "touch made", answer="allow", permission_mode="plan", permission_rules=rules
        )
        first, second = results(made.run("go"))
        assert first == f"{tmp_path.resolve()}\n[exit code 0]"
        assert "[plan mode" in second
        assert asked == []
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("verdict", ["ask", Permission("allow", updated_args={"command": "touch made"})])
    def test_in_plan_mode_no_answer_allows_more(self, shell, tmp_path, verdict):
        options = {"permission_mode": "plan", "can_use_tool": lambda *_: verdict}
        made, _ = agent(shell, "pwd; touch made", answer="allow", **options)
        made.run("go")
        assert list(tmp_path.iterdir()) == []

    def test_a_cancel_ends_a_try(self, shell, tmp_path):
        seconds = 10**6 + uuid.uuid4().int % 10**9
        made, _ = agent(shell, f"sleep {seconds}", answer="allow")

        async def cancelled():
            token = CancelToken()
            running = asyncio.ensure_future(made.arun("go", cancel_token=token))
            while not sleeps(seconds):
                await asyncio.sleep(0.001)
            token.cancel()
            return await running

        assert asyncio.run(cancelled()).stop_reason == "cancelled"
        assert not sleeps(seconds)

    @pytest.mark.parametrize("mode", ["ask", "auto", "plan", "bypass"])
    def test_denied_command_is_denied_in_every_mode(self, shell, tmp_path, mode):
        rules = PermissionRules(deny=["shell(touch *)"])
        made, _ = agent(shell, "env touch made", permission_mode=mode, permission_rules=rules)
        assert "deny rule" in results(made.run("go"))[0]
        assert list(tmp_path.iterdir()) == []

    def test_an_ask_rule_asks_without_a_try(self, shell, tmp_path):
        made, asked = agent(shell, "pwd", answer="deny", permission_rules=PermissionRules(ask=["shell(pwd)"]))
        made.run("go")
        assert len(asked) == 1

    def test_a_try_takes_no_longer_than_the_run_may(self, shell):
        found = judged(shell, "sleep 100", JudgeContext(attended=True, seconds=0.2))
        assert found == Permission("allow", "read-only", read_only=True)

    def test_tried_command_is_not_run_again(self, shell):
        judged(shell, "echo $RANDOM", JudgeContext(call_id="c1"))
        assert shell._tried_before("echo $RANDOM", "c1") is not None
        assert shell._tried_before("echo $RANDOM", "c1") is None

    def test_resumed_session_asks_the_recorded_question(self, shell, tmp_path):
        made, _ = agent(shell, "touch made")
        run = made.run("go")
        question = run.questions[0]
        assert "tried read-only" in question.reason

    def test_answered_command_is_not_tried_again(self, shell, tmp_path):
        options = {"sessions": tmp_path / "sessions"}
        first, _ = agent(shell, "echo said; echo x >> made", **options)
        question = first.run("go", session_id="s").questions[0]
        SessionManager(tmp_path / "sessions").answer("s", question.call_id, "allow")
        made = Agent(llm=ScriptedLLM(["done"]), tools=[shell.tool()], permission_mode="ask", **options)
        result = made.run(None, session_id="s")
        assert result.content == "done"
        assert (tmp_path / "made").read_text() == "x\n"
        shown = [event for event in result.events if event.type is EventType.PROGRESS]
        assert [event.content for event in shown] == ["said\n"]


EFFECTS = {
    "a file": "echo x > new",
    "its mode": "chmod 777 file",
    "its times": "touch -d 2001-01-01 file",
    "its owner": "chown $(id -u) file",
    "its generation": (
        'python3 -c "import fcntl, os, struct; '
        "fcntl.ioctl(os.open('file', 0), 0x40087602, struct.pack('L', 7))\""
    ),
    "its attributes": "setfattr -n user.x -v y file; chattr +d file; chattr +A .",
    "its length": "truncate -s 0 file",
    "its name": "mv file other",
    "a link": "ln file other; ln -s file other",
    "a folder": "mkdir new; rm -rf folder; rmdir folder",
    "memory for all": "echo x > /dev/shm/pal-new; test ! -e /dev/shm/pal-new",
}


class TestNoEffect:
    @pytest.mark.parametrize("what", EFFECTS)
    def test_nothing_changes(self, shell, tmp_path, what):
        (tmp_path / "file").write_text("as it was")
        (tmp_path / "folder").mkdir()
        before = state(tmp_path)
        judged(shell, EFFECTS[what])
        judged(shell, f"({EFFECTS[what]}) 2>/dev/null; true")
        judged(shell, f"{system_python()} -c 'import os; os.system({EFFECTS[what]!r})'")
        assert state(tmp_path) == before
        assert not Path("/dev/shm/pal-new").exists()

    def test_the_same_commands_change_something_once_approved(self, shell, tmp_path):
        for what in EFFECTS.keys() - {"memory for all"}:
            for each in tmp_path.iterdir():
                shutil.rmtree(each) if each.is_dir() else each.unlink()
            (tmp_path / "file").write_text("as it was")
            (tmp_path / "folder").mkdir()
            before = state(tmp_path)
            asyncio.run(shell.shell(EFFECTS[what]))
            assert state(tmp_path) != before, what

    def test_sockets_of_the_workspace_are_shut(self, shell, tmp_path):
        calls = []
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(tmp_path / "socket"))
            server.listen()
            server.settimeout(0.01)
            code = "import socket; socket.socket(socket.AF_UNIX).connect('socket')"
            judged(shell, f'{system_python()} -c "{code}"')
            with pytest.raises(TimeoutError):
                calls.append(server.accept())
        assert calls == []

    def test_a_network_that_is_allowed_is_asked_about(self, tmp_path):
        with socket.create_server(("127.0.0.1", 0)) as server:
            command = f"echo hi > /dev/tcp/127.0.0.1/{server.getsockname()[1]}"
            allowed, shut = (Shell(tmp_path, network=network) for network in (True, False))
            assert judged(allowed, command).behavior == "ask"
            assert judged(shut, command).read_only  # no answer could open it
            server.settimeout(0.01)
            with pytest.raises(TimeoutError):
                server.accept()

    def test_a_sandbox_that_cannot_do_it_is_refused(self, tmp_path):
        with pytest.raises(ConfigError, match="read_only"):
            asyncio.run(run_process(["true"], cwd=tmp_path, timeout=9, sandbox=Unconfined(), read_only=True))

    def test_secrets_stay_hidden(self, shell, monkeypatch, tmp_path_factory):
        home = tmp_path_factory.mktemp("home")
        (home / ".ssh").mkdir()
        (home / ".ssh" / "id").write_text("a secret")
        monkeypatch.setenv("HOME", str(home))
        made, _ = agent(shell, f"cat {home}/.ssh/id; true", answer="deny")
        assert "a secret" not in results(made.run("go"))[0]


def state(folder):
    """All that a command could change of files."""
    found = {}
    for path in (folder, *folder.rglob("*")):
        status = path.lstat()
        extra = tuple(os.listxattr(path, follow_symlinks=False))
        kept = (status.st_mode, status.st_uid, status.st_size, status.st_mtime_ns, status.st_ctime_ns, extra)
        found[str(path)] = kept
    return found


MADE = """
import itertools, json, socket
found = {"sockets": set(), "pairs": set()}
for family, kind, protocol in itertools.product(range(48), range(1, 7), (0, 1, 4, 6, 16, 17, 132, 262)):
    for name, make in (("sockets", socket.socket), ("pairs", socket.socketpair)):
        try:
            one = make(family, kind | socket.SOCK_CLOEXEC, protocol)
        except OSError:
            continue
        for each in one if name == "pairs" else [one]:
            each.close()
        found[name].add((family, kind) if family != 16 else (family, protocol))
print(json.dumps({name: sorted(each) for name, each in found.items()}))
"""


class TestSockets:
    """What can be made at all is a list, so that the next kind of socket is none."""

    def made(self, shell, folder, approved):
        (folder / "made.py").write_text(MADE)
        run = shell._run(f"{system_python()} -I made.py", 30, read_only=not approved)
        return json.loads(asyncio.run(run).output)

    def test_unapproved_line_has_no_network_of_the_host(self, shell, tmp_path):
        found = self.made(shell, tmp_path, approved=False)
        families = {family for family, _ in found["sockets"]}
        is_alone = shell.sandbox.name == "bubblewrap"  # it has a network of its own, with nobody in it
        assert families == ({2, 10, 16} if is_alone else set())
        assert {protocol for family, protocol in found["sockets"] if family == 16} <= {0}
        assert found["pairs"] == [[1, 1], [1, 5]]

    def test_an_approved_one_has_no_others_than_ip_and_unix(self, shell, tmp_path):
        found = self.made(shell, tmp_path, approved=True)
        assert {family for family, _ in found["sockets"]} <= {1, 2, 10, 16}
        assert found["pairs"] == ([[1, n] for n in (1, 2, 3, 5)] if found["sockets"] else [[1, 1], [1, 5]])

    @pytest.mark.parametrize("kind", ["SOCK_DGRAM", "SOCK_RAW", "SOCK_STREAM", "SOCK_SEQPACKET"])
    @pytest.mark.parametrize(
        "sent",
        ["a.sendto(b'HIT', P)", "a.connect(P); a.send(b'HIT')", "a.sendmsg([b'HIT'], [], 0, P)"],
    )
    def test_no_pair_reaches_another_address(self, shell, tmp_path, kind, sent):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as there:
            there.bind(str(tmp_path / "s"))
            there.setblocking(False)
            line = f"import socket; P='s'; a, b = socket.socketpair(1, socket.{kind}); {sent}"
            judged(shell, f'{system_python()} -c "{line}"')
            with pytest.raises(BlockingIOError):
                there.recv(3)


def test_the_filter_knows_both_kinds_of_machine():
    for machine in ("x86_64", "aarch64"):
        short = seccomp.program("any", machine)
        assert len(short) < len(seccomp.program("none", machine, shared=True, still=True))
        assert len(short) % 8 == 0
    assert seccomp.program("any", "riscv64") == b""
