"""How our own child processes are started, and written to. The working folder may be a stranger's.

It has no part in them: none of them looks for modules or programs there, and each gets an environment of
known names. What a ``.env`` there has put into ours (``PYTHONPATH``, ``PIP_INDEX_URL``, ``GIT_DIR``)
stays behind.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Iterable
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

PYTHON = sys.executable
ELSEWHERE = Path(sys.executable).anchor  # a folder without anything that a program could load
NETWORK = (
    *(
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "NO_PROXY",
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "no_proxy",
    ),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
)
_KEPT = ("USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "SYSTEMROOT", "SYSTEMDRIVE")
_PLACES = (
    *("HOME", "TMPDIR", "TEMP", "TMP", "XDG_CONFIG_HOME"),
    *("USERPROFILE", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA"),
)
_FOLDER_LISTS = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
_PACKAGE = __name__.partition(".")[0]
# The package itself is the very one that runs here, an editable or a vendored one too; all else is appended,
# so that it hides nothing.
_BEGIN = """\
import importlib.util as util, runpy, sys
package, start, folders, module = sys.argv[1:5]
if module.partition(".")[0] == package:
    spec = util.spec_from_file_location(package, start)
    sys.modules[package] = util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[package])
sys.path += filter(None, folders.split("\\n"))
sys.argv = [module, *sys.argv[5:]]
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""


def script_argv(script: Path, *words: str) -> list[str]:
    """Run a file that needs nothing but the standard library, with this Python."""
    return [sys.executable, "-I", "-S", str(script), *words]


def module_argv(module: str, *words: str, needs: Iterable[str] = ()) -> list[str]:
    """Run a module with this Python, as ``python -m`` does, but never one of the working folder.

    Args:
        needs: Packages that it imports, wherever this process would find them.
    """
    start = Path(__file__).parents[1] / "__init__.py"
    found = (module_folder(name) for name in (module.partition(".")[0], *needs) if name != _PACKAGE)
    folders = "\n".join(dict.fromkeys(str(folder) for folder in found if folder))
    return [sys.executable, "-I", "-c", _BEGIN, _PACKAGE, str(start), folders, module, *words]


def module_folder(name: str) -> Path | None:
    """Where this process finds a package, the working folder left out; None if nowhere.

    Args:
        name: A package or module without dots.
    """
    spec = PathFinder.find_spec(name, [each for each in sys.path if _is_usable(each)])
    origin = spec.origin if spec else None
    if origin is None:
        return None
    return Path(origin).parent.parent if spec and spec.submodule_search_locations else Path(origin).parent


def find_program(name: str) -> str | None:
    """The full path of a program on the PATH; nothing of the working folder is one.

    Args:
        name: Without a path.
    """
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        found = shutil.which(name, path=folder) if _is_usable(folder) else None
        if found and _is_usable(str(Path(found).parent)):
            return found
    return None


def child_environment(*names: str, **more: str) -> dict[str, str]:
    """What a child of ours gets: where the user and the system have their things, and nothing else.

    Args:
        names: More variables of ours to hand on.
        more: Variables to set.
    """
    kept = {name: os.environ[name] for name in (*_KEPT, *names) if name in os.environ}
    for name in (*_PLACES, *_FOLDER_LISTS):
        folders = filter(_is_usable, os.environ.get(name, "").split(os.pathsep))
        kept |= {name: value} if (value := os.pathsep.join(folders)) else {}
    return {**kept, **more}


def _is_usable(path: str) -> bool:
    """Whether a path is whole, and leads to no place in the working folder.

    What is installed for this Python is ours, also in a ``.venv`` there. Where the working folder is the
    user's home or lies above it, only the folder itself does not count.
    """
    if not Path(path).is_absolute():
        return False
    try:
        here, place = Path.cwd(), Path(path).resolve()
    except OSError:  # it was deleted
        return True
    if here == place or here not in place.parents:
        return here != place
    home = _home()
    return Path(sys.prefix).resolve() in place.parents or here in (home, *home.parents)


def _home() -> Path:
    """The user's home, whatever the environment says."""
    if sys.platform == "win32":
        return Path.home().resolve()
    import pwd

    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir).resolve()
    except KeyError:
        return Path("/")


def write_to(stdin: asyncio.StreamWriter, data: bytes) -> None:
    """Send something to a program's standard input.

    Raises:
        BrokenPipeError: It reads no more. uvloop has another error for that, if it is not asked first.
    """
    if stdin.is_closing():
        raise BrokenPipeError
    stdin.write(data)


async def communicate(process: asyncio.subprocess.Process, data: bytes = b"") -> tuple[bytes, bytes]:
    """As a process's own: send something, if it still reads, and wait for its end. Output and errors."""
    import asyncio  # some that start programs have no event loop

    _, said = await asyncio.gather(_feed(process.stdin, data), process.communicate())
    return said


async def _feed(stdin: asyncio.StreamWriter | None, data: bytes) -> None:
    if stdin is None:
        return
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it says why on its way out
        if data:
            write_to(stdin, data)
            await stdin.drain()
    stdin.close()
