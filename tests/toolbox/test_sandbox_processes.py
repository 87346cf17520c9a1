"""No process of a command is left, however it ends, and no command can fill our memory or keep us waiting."""

from __future__ import annotations

import asyncio
import os
import re
import resource
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from tests.processes import running
from tests.toolbox.sandbox_ground import USERS, bash, five_ways, ground, require_tools, system_python

from pure_agent_loop.toolbox.sandbox.best import best_sandbox
from pure_agent_loop.toolbox.sandbox.launch import Limits
from pure_agent_loop.toolbox.sandbox.process import run_process
from pure_agent_loop.toolbox.shell.notes import format_result

MODES = ["bubblewrap", "landlock", "none"]
PATIENCE = 15.0
FORKS = """
import os, sys
for _ in range(200):
    if not os.fork(): os.execv("/bin/sleep", ["sleep", sys.argv[1]])
"""


@pytest.fixture(autouse=True)
def _tools():
    require_tools()


@pytest.fixture
def marker():
    """A number of seconds to sleep that nobody else sleeps."""
    return str(10**6 + uuid.uuid4().int % 10**9)


def alive(marker):
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        found += [path.parent.name] if b"sleep" in words[0] and marker.encode() in words else []
    return found


def wait_for(condition):
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.005)


@pytest.mark.parametrize("mode", MODES)
class TestNothingIsLeft:
    def test_when_the_command_ends(self, mode, tmp_path, marker):
        for _ in range(20):
            # Not before all five are on their way: a process that is still forking is no daemon yet.
            up = f"until [ $(pgrep -fc '^sleep {marker}') -ge 5 ]; do :; done"
            command = f"{five_ways(marker)}\n{up}; echo {marker}"
            done = asyncio.run(bash(command, tmp_path, mode))
            assert alive(marker) == []
            assert (done.exit_code, done.output) == (0, f"{marker}\n")
            assert done.killed >= 5

    def test_when_its_time_is_over(self, mode, tmp_path, marker):
        for _ in range(3):
            done = asyncio.run(bash(f"{five_ways(marker)}\nsleep {marker}", tmp_path, mode, timeout=0.4))
            assert alive(marker) == []
            assert (done.timed_out, done.exit_code) == (True, None)

    def test_when_it_is_cancelled_at_any_moment(self, mode, tmp_path, marker):
        async def cancelled(seconds):
            task = asyncio.ensure_future(bash(f"{five_ways(marker)}\nsleep {marker}", tmp_path, mode))
            await asyncio.sleep(seconds)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert alive(marker) == []

        for number in range(20):
            asyncio.run(cancelled(number * 0.008))

    def test_when_it_is_cancelled_again_and_again(self, mode, tmp_path, marker):
        async def cancelled():
            task = asyncio.ensure_future(bash(f"touch up; sleep {marker}", tmp_path, mode))
            while not (tmp_path / "up").exists():
                await asyncio.sleep(0)
            while not task.done():
                task.cancel()
                await asyncio.sleep(0)
            assert task.cancelled()

        asyncio.run(cancelled())
        assert alive(marker) == []

    def test_when_our_own_process_is_killed(self, mode, tmp_path, marker):
        code = (
            "import asyncio, sys\n"
            "from tests.toolbox.sandbox_ground import Path, bash, five_ways\n"
            "print('here', flush=True)\n"
            "command = five_ways(sys.argv[3]) + '\\ntouch up; sleep ' + sys.argv[3]\n"
            "asyncio.run(bash(command, Path(sys.argv[1]), sys.argv[2]))\n"
        )
        for delay in (None, 0.0, 0.05):
            (tmp_path / "up").unlink(missing_ok=True)
            words = [sys.executable, "-c", code, str(tmp_path), mode, marker]
            with running(words, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]) as ours:
                assert ours.stdout is not None
                assert ours.stdout.readline() == b"here\n"
                if delay is None:
                    wait_for((tmp_path / "up").exists)
                    assert len(alive(marker)) >= 1
                else:
                    time.sleep(delay)  # not to wait for something: to come at another moment each time
                ours.send_signal(signal.SIGKILL)
            wait_for(lambda: alive(marker) == [])

    def test_when_a_command_takes_the_descriptors_of_its_supervisor_away(self, mode, tmp_path, marker):
        code = "import os, resource; resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (0, 0))"
        command = f"setsid -f sleep {marker}; exec {system_python()} -I -S -c '{code}'"
        asyncio.run(bash(command, tmp_path, mode))
        assert alive(marker) == []


@pytest.mark.parametrize(("mode", "code"), [("bubblewrap", 1), ("landlock", 1)])
def test_sockets_to_the_host_of_a_virtual_machine_are_shut(mode, code, tmp_path):
    asked = "import socket, sys\ntry: socket.socket(40, 1)\nexcept OSError as error: sys.exit(error.errno)"
    done = asyncio.run(bash(f'{system_python()} -I -S -c "{asked}"', tmp_path, mode))
    assert done.exit_code == code  # EPERM, and not that this machine knows none


@pytest.mark.parametrize("mode", MODES)
class TestOutput:
    def run(self, command, folder, mode, **options):
        return asyncio.run(bash(command, folder, mode, **options))

    def test_both_streams_in_order(self, mode, tmp_path):
        done = self.run("echo 1; echo 2 >&2; echo 3; exit 7", tmp_path, mode)
        assert (done.output, done.exit_code, done.killed, done.problem) == ("1\n2\n3\n", 7, 0, "")

    def test_a_signal_is_an_exit_code_as_in_a_shell(self, mode, tmp_path):
        assert self.run("kill -TERM $$", tmp_path, mode).exit_code == 143

    def test_input(self, mode, tmp_path):
        assert self.run("cat; echo .", tmp_path, mode, input=b"given").output == "given.\n"

    @pytest.mark.parametrize("given", [None, b"given"])
    def test_command_inherits_no_descriptor_of_ours(self, mode, given, tmp_path):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(6_000, hard)), hard))
        high = [os.open(os.devnull, os.O_RDONLY) for _ in range(4_200)]  # ours get large numbers
        try:
            said = self.run("echo /proc/$$/fd/*", tmp_path, mode, input=given).output
        finally:
            for each in high:
                os.close(each)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert {path.rpartition("/")[2] for path in said.split()} <= {
            "0",
            "1",
            "2",
            "3",
            "255",
        }
        assert self.run("cat; echo .", tmp_path, mode).output == ".\n"

    def test_the_middle_is_cut(self, mode, tmp_path):
        done = self.run("seq 100000", tmp_path, mode, max_output_bytes=300)
        assert done.output.startswith("1\n2\n3\n")
        assert done.output.endswith("99999\n100000\n")
        assert f"[... {done.truncated:,} bytes left out ...]" in done.output
        assert len(done.output) < 400

    def test_binary_output_is_replaced(self, mode, tmp_path):
        done = self.run(r"printf 'a\000\377\303b'", tmp_path, mode)
        assert done.output == "a���b"

    def test_no_other_files_are_inherited(self, mode, tmp_path):
        with Path(__file__).open("rb") as file:
            done = self.run("ls -l /proc/self/fd", tmp_path, mode)
            assert file.name not in done.output
        assert len(re.findall(r" \d+ -> ", done.output)) == 4  # the fourth is the folder that ls reads


def test_bombs_do_not_fill_our_memory(tmp_path):
    code = (
        "import asyncio, resource, sys\n"
        "from tests.toolbox.sandbox_ground import Path, bash\n"
        "def run(command, mode, *timeouts):\n"
        "    for timeout in timeouts:  # a busy machine needs more until it has written enough\n"
        "        work = bash(command, Path(sys.argv[1]), mode, timeout, max_output_bytes=30_000)\n"
        "        done = asyncio.run(work)\n"
        "        if done.truncated > 10_000_000:\n"
        "            assert len(done.output) < 31_000, done\n"
        "            return done\n"
        "    raise AssertionError(done)\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "for mode in ('bubblewrap', 'landlock'):\n"
        "    assert run('yes', mode, 0.7, 5, 30).timed_out\n"
        "    assert run('cat /dev/urandom', mode, 0.7, 5, 30).timed_out\n"
        "done = run('head -c 1000000000 /dev/zero; echo end', 'bubblewrap', 60)\n"
        "assert done.exit_code == 0 and done.output.endswith('\\ufffdend\\n'), done\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    words = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 20_000  # KiB


# Each writes to 400 MB and keeps them until it is killed.
USES = {
    "private": "x = b'x' * 4 * 10**8",
    "shared": "x = mmap.mmap(-1, 4 * 10**8); [x.__setitem__(n, 1) for n in range(0, len(x), 4096)]",
    "several": "[os.fork() for _ in range(2)]; x = b'x' * 10**8",
    "other_thread": "use = lambda: [time.sleep(0.3), b'x' * 4 * 10**8, signal.pause()]; "
    "threading.Thread(target=use).start(); ctypes.CDLL(None).syscall(60, 0)",  # the first thread exits
}


@pytest.mark.parametrize("mode", MODES)
class TestLimits:
    limits = Limits(memory=300_000_000, file_size=10_000_000, processes=32)

    @pytest.mark.parametrize("use", USES)
    def test_command_that_uses_more_memory_is_killed(self, mode, tmp_path, use):
        code = f"import ctypes, mmap, os, signal, threading, time; {USES[use]}; signal.pause()"
        done = asyncio.run(bash(f'{system_python()} -c "{code}"', tmp_path, mode, limits=self.limits))
        assert (done.exit_code, done.over_memory, done.timed_out) == (137, 300_000_000, False)
        assert "more than 0.279 GiB of memory" in format_result(done, 60, [])

    @pytest.mark.parametrize("inherited", [0, 1])
    def test_memory_that_is_reserved_or_shared_does_not_count(self, mode, tmp_path, inherited):
        reserved = "mmap.mmap(-1, 2**40, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)"
        shared = "b'x' * 10**8, [os.fork() for _ in range(3)]; os.getpid() == pid and os.wait()"
        code = f"import mmap, os; pid = os.getpid(); x = {[reserved, shared][inherited]}; print('ran')"
        done = asyncio.run(bash(f'{system_python()} -c "{code}"', tmp_path, mode, limits=self.limits))
        assert (done.exit_code, done.over_memory) == (0, 0)
        assert "ran" in done.output

    def test_pages_of_a_file_do_not_count(self, mode, tmp_path):
        with (tmp_path / "large").open("wb") as file:
            file.truncate(4 * 10**8)
        reads = "x = mmap.mmap(os.open('large', 0), 0, prot=mmap.PROT_READ); print(sum(x[::4096]), 'ran')"
        code = f"import mmap, os, time; {reads}; time.sleep(0.5)"
        done = asyncio.run(bash(f'{system_python()} -c "{code}"', tmp_path, mode, limits=self.limits))
        assert (done.exit_code, done.over_memory) == (0, 0)
        assert "ran" in done.output

    def test_a_large_file(self, mode, tmp_path):
        asyncio.run(bash("head -c 1000000000 /dev/zero > large", tmp_path, mode, limits=self.limits))
        assert (tmp_path / "large").stat().st_size <= 10_000_000

    def test_computing_time(self, mode, tmp_path):
        limits = Limits(cpu_seconds=1)
        done = asyncio.run(bash("while :; do :; done", tmp_path, mode, limits=limits))
        assert not done.timed_out
        assert done.exit_code in (137, 152)

    @pytest.mark.parametrize("user", USERS)
    def test_two_hundred_forks(self, mode, user, marker):
        with ground(user) as made:
            sandbox = best_sandbox(made.workspace, name=mode, protected=())
            done = made.run(sandbox, [system_python(), "-I", "-S", "-c", FORKS, marker], self.limits)
            left = int(done.stderr.rpartition("left ")[2])
            # The kernel does not count root's processes; ended are they all the same.
            assert 1 <= left <= (200 if user == "root" else 33)
            wait_for(lambda: alive(marker) == [])


def test_a_program_that_is_not_there(tmp_path):
    for mode in MODES:
        sandbox = best_sandbox(tmp_path, name=mode)
        done = asyncio.run(run_process(["/nowhere/x"], cwd=tmp_path, timeout=30, sandbox=sandbox))
        assert done.exit_code in (126, 127)
        assert "/nowhere/x" in done.output
