"""Ways out of a sandbox. Runs inside one as a program of its own and prints which of them led out, as JSON.

Each probe returns if it got out, and raises OSError (or `RefusedError`) if it did not.
"""

import ctypes
import fcntl
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import termios
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
MS_REMOUNT, MS_BIND = 32, 4096
NEW_USER, NEW_MOUNTS = 0x10000000, 0x00020000
PTRACE_ATTACH, KEYCTL_SEARCH, SESSION_KEYRING = 16, 10, -3
SYS_KEYCTL, SYS_INIT_MODULE, SYS_IOPRIO_SET = 250, 175, 251
SHM_READ_ONLY = 0o10000
FAN_REPORT_FID, AT_FDCWD = 0x200, -100


class RefusedError(Exception):
    """The way out is shut."""


def call(name, *args):
    if getattr(LIBC, name)(*args) < 0:
        raise OSError(ctypes.get_errno(), name)


def say_hello(address, family=socket.AF_UNIX):
    with socket.socket(family, socket.SOCK_STREAM) as client:
        client.settimeout(2)
        client.connect(address)
        if client.recv(5) != b"hello":
            raise RefusedError("nobody answered")


def must(found):
    if not found:
        raise RefusedError("nothing there")


class Probes:
    def __init__(self, known):
        self.workspace, self.outside = Path(known["workspace"]), Path(known["outside"])
        self.victim, self.canary = known["victim"], known["canary"]
        self.known = known

    # Files

    def write_outside(self):
        (self.outside / "written").write_text("x")

    def write_outside_beside(self):
        (self.workspace.parent / "written").write_text("x")

    def read_outside(self):
        (self.outside / "secret").read_text()

    def append_outside(self):
        with (self.outside / "secret").open("a") as file:
            file.write("x")

    def delete_outside(self):
        (self.outside / "victim-file").unlink()

    def chmod_outside(self):
        (self.outside / "secret").chmod(0o666)

    def write_through_symlink(self):
        link = self.workspace / "link"
        link.symlink_to(self.outside / "written-through-link")
        link.write_text("x")

    def write_through_hard_link(self):
        os.link(self.outside / "secret", self.workspace / "hard")
        (self.workspace / "hard").write_text("x")

    def rename_out(self):
        (self.workspace / "mine").write_text("x")
        (self.workspace / "mine").rename(self.outside / "mine")

    def through_the_first_process(self):
        Path(f"/proc/1/root{self.outside}/secret").read_text()

    def through_the_victim(self):
        Path(f"/proc/{self.victim}/root{self.outside}/secret").read_text()

    def read_home(self):
        Path(self.known["home_secret"]).read_text()

    def read_our_data(self):
        Path(self.known["data_secret"]).read_text()

    def read_shadow(self):
        must(Path("/etc/shadow").read_text())

    def write_etc(self):
        Path("/etc/pal-probe").write_text("x")

    def write_usr(self):
        Path("/usr/bin/pal-probe").write_text("x")

    def plant_a_git_hook(self):
        (self.workspace / ".git" / "hooks").mkdir(parents=True, exist_ok=True)
        (self.workspace / ".git" / "hooks" / "pre-commit").write_text("x")

    def plant_a_git_hook_in_a_new_repository(self):
        (self.workspace / ".git").rename(self.workspace / "old-git")
        self.plant_a_git_hook()

    # The kernel

    def remount(self):
        call("mount", None, b"/", None, ctypes.c_ulong(MS_REMOUNT | MS_BIND), None)

    def mount(self):
        call("mount", b"tmpfs", os.fsencode(self.workspace), b"tmpfs", ctypes.c_ulong(0), None)

    def unmount(self):
        call("umount2", b"/proc", 2)

    def chroot(self):
        os.chroot(self.workspace)

    def namespaces_of_our_own(self):
        call("unshare", NEW_USER | NEW_MOUNTS)
        call("mount", b"tmpfs", os.fsencode(self.workspace), b"tmpfs", ctypes.c_ulong(0), None)

    def nested_bubblewrap(self):
        inner = f"mount -o remount,rw,bind / && touch /etc/pal-probe || touch {self.outside}/nested"
        words = ["bwrap", "--dev-bind", "/", "/", "--cap-add", "ALL", "sh", "-c", inner]
        must(subprocess.run(words, capture_output=True, check=False).returncode == 0)

    def make_a_device(self):
        os.mknod(self.workspace / "null", 0o600 | 0o020000, os.makedev(1, 3))

    def open_a_device(self):
        for name in self.known["devices"]:
            with Path(name).open("rb"):
                return
        raise RefusedError("no device to try")

    def write_hostname(self):
        os.open("/proc/sys/kernel/hostname", os.O_WRONLY)

    def write_core_pattern(self):
        os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY)

    def write_sysrq(self):
        os.open("/proc/sysrq-trigger", os.O_WRONLY)

    def set_hostname(self):
        call("sethostname", b"pal-probe", 9)

    def become_another_user(self):
        os.setuid(0 if os.getuid() else 65533)

    def load_a_module(self):
        LIBC.syscall(SYS_INIT_MODULE, None, 0, b"")
        must(ctypes.get_errno() not in (1, 38))  # EPERM, ENOSYS

    def make_a_cgroup(self):
        folders = [Path("/sys/fs/cgroup"), *Path("/sys/fs/cgroup").glob("*/")]
        for folder in folders:
            try:
                (folder / "pal-probe").mkdir()
            except OSError:
                continue
            (folder / "pal-probe").rmdir()
            return
        raise RefusedError("none can be made")

    def write_sys(self):
        os.open("/sys/kernel/uevent_helper", os.O_WRONLY)

    def type_into_the_terminal(self):
        for stream in (0, 1, 2):
            try:
                fcntl.ioctl(stream, termios.TIOCSTI, b"x")
            except OSError:
                continue
            return
        with Path("/dev/tty").open("wb") as terminal:
            fcntl.ioctl(terminal, termios.TIOCSTI, b"x")

    # Processes

    def signal_outside(self):
        os.kill(self.victim, signal.SIGCONT)

    def trace_outside(self):
        ctypes.set_errno(0)
        call("ptrace", PTRACE_ATTACH, self.victim, None, None)

    def read_environment_of_outside(self):
        for process in (self.victim, 1, os.getppid()):
            try:
                must(self.canary.encode() in Path(f"/proc/{process}/environ").read_bytes())
            except (OSError, RefusedError):
                continue
            return
        raise RefusedError("not there")

    def read_environment(self):
        must(self.canary in json.dumps(dict(os.environ)))

    def list_processes(self):
        must(Path(f"/proc/{self.victim}/cmdline").exists())

    def inherited_files(self):
        # One more than the three standard streams is the listing itself.
        must(len(list(Path("/proc/self/fd").iterdir())) > 4)

    # Sockets

    def connect_by_tcp(self):
        say_hello(("127.0.0.1", self.known["tcp"]), socket.AF_INET)

    def connect_to_an_abstract_socket(self):
        say_hello("\0" + self.known["abstract"])

    def ask_a_keyring(self):
        # Which keys there are is the process's business; that it may ask at all is what is shut.
        call("syscall", ctypes.c_long(SYS_KEYCTL), 0, SESSION_KEYRING, 1)

    def set_a_limit_of_another(self):
        resource.prlimit(self.victim, resource.RLIMIT_CORE, (0, 0))

    def renice_another(self):
        os.setpriority(os.PRIO_PROCESS, self.victim, 1)

    def renice_all_of_a_user(self):
        os.setpriority(os.PRIO_USER, 0, 1)
        must(os.getpriority(os.PRIO_PROCESS, self.victim))

    def pin_another_to_a_processor(self):
        os.sched_setaffinity(self.victim, os.sched_getaffinity(0))

    def schedule_another(self):
        os.sched_setscheduler(self.victim, os.SCHED_BATCH, os.sched_param(0))

    def slow_the_disk_of_another(self):
        call("syscall", ctypes.c_long(SYS_IOPRIO_SET), 1, self.victim, 2 << 13 | 7)

    def attach_shared_memory(self):
        LIBC.shmat.restype = ctypes.c_long
        call("shmat", self.known["shared_memory"], None, SHM_READ_ONLY)

    def watch_files_outside(self):
        LIBC.inotify_init1.argtypes = [ctypes.c_int]
        watcher = LIBC.inotify_init1(0)
        must(watcher >= 0)
        call("inotify_add_watch", watcher, bytes(self.outside), 2)

    def watch_files_outside_by_fanotify(self):
        watcher = LIBC.fanotify_init(FAN_REPORT_FID, 0)
        must(watcher >= 0)
        call("fanotify_mark", watcher, 1, ctypes.c_uint64(2), AT_FDCWD, bytes(self.outside))

    def send_udp(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.sendto(b"x", ("127.0.0.1", self.known["tcp"]))
            must(self.known["same_network"] == str(Path("/proc/self/ns/net").readlink()))

    def listen_on_tcp(self):
        with socket.socket() as server:
            server.bind(("127.0.0.1", 0))
            must(self.known["same_network"] == str(Path("/proc/self/ns/net").readlink()))


def main():
    known = json.loads(Path(sys.argv[1]).read_text())
    probes = Probes(known)
    ways = {name: getattr(probes, name) for name in vars(Probes) if not name.startswith("_")}
    for place, path in known["sockets"].items():
        ways[f"unix_socket_in_{place}"] = lambda path=path: say_hello(path)
    escaped, refused = [], {}
    for name, way in ways.items():
        if name in known["without"]:
            continue
        ctypes.set_errno(0)
        child = os.fork()  # one probe must not change what the next one finds
        if not child:
            try:
                way()
            except (OSError, RefusedError) as error:
                (Path(known["workspace"]) / f"said-{name}").write_text(str(error))
                os._exit(1)
            os._exit(0)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
            escaped.append(name)
        else:
            said = Path(known["workspace"]) / f"said-{name}"
            refused[name] = said.read_text() if said.exists() else "died"
    print(json.dumps({"escaped": sorted(escaped), "refused": refused}))


main()
