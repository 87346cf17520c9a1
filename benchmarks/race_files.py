"""Count how often a file tool is led outside while another process keeps swapping a folder for a link.

    python -m benchmarks.race_files [--rounds 50000] [--opener kernel|walking|checking] [--folder DIR]

The workspace has a folder `swap`; outside is a folder with the same names in it. The other process
exchanges `swap` with a link to the outside folder (in one step, where the system can), as fast as it can.
Each round is one call of a tool through `swap`. A leak is a call that showed something of the outside
folder, or after which something there was changed, created or missing. A refusal is an error for the model.
The rest worked inside.

The checking opener is the one for Windows. It cannot win such a race; the row is for comparison.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pure_agent_loop.toolbox import ChangeTools, FileTools, SearchTools, Workspace, WorkspaceError
from pure_agent_loop.toolbox.files.beneath import Opener, best_opener, open_by_checking, open_by_walking
from pure_agent_loop.toolbox.files.grep import GrepOptions, Source
from pure_agent_loop.toolbox.files.matching import LinePattern

OPENERS: dict[str, Opener] = {
    "kernel": best_opener(),
    "walking": open_by_walking,
    "checking": open_by_checking,
}
SECRET = "SECRET"
_TEXTS = ("harmless one", "harmless two")

SWAPPER = """
import ctypes, os, sys
swap, link, spare = (os.fsencode(each) for each in sys.argv[1:])
exchange = getattr(ctypes.CDLL(None), "renameat2", None)
print("ready", flush=True)
while True:
    if exchange is None or exchange(-100, swap, -100, link, 2):
        os.rename(swap, spare); os.rename(link, swap)
        os.rename(swap, link); os.rename(spare, swap)
"""


@dataclass
class Tally:
    """The results of the calls of one tool.

    Args:
        tool: Its name.
        opens: Number of calls made.
        leaks: How many led outside.
        refusals: How many were refused.
        seconds: For all of them.
    """

    tool: str
    opens: int = 0
    leaks: int = 0
    refusals: int = 0
    seconds: float = 0.0


class Arena:
    """A workspace, a folder outside it, and the tools.

    Args:
        folder: An empty folder for both.
        opener: How the workspace opens files.
    """

    def __init__(self, folder: Path, opener: Opener) -> None:
        self.folder, self.root, self.outside = folder, folder / "ws", folder / "outside"
        for place, text in (
            (self.root / "swap", _TEXTS[0]),
            (self.outside, f"{_TEXTS[0]} {_TEXTS[1]} {SECRET}"),
        ):
            place.mkdir(parents=True)
            (place / "a.txt").write_text(text)
        (self.outside / f"{SECRET}.txt").write_text(SECRET)
        (folder / "link").symlink_to(self.outside)
        self.workspace = workspace = Workspace(self.root, opener=opener)
        self.files, self.changes = FileTools(workspace), ChangeTools(workspace)
        self.search = SearchTools(workspace)
        self.before = self._state()
        self._turn = 0

    def _state(self) -> list[tuple[str, bytes]]:
        return sorted((path.name, path.read_bytes()) for path in self.outside.iterdir())

    @contextmanager
    def swapping(self) -> Iterator[None]:
        """Let another process swap within the block."""
        places = [str(self.root / "swap"), str(self.folder / "link"), str(self.folder / "spare")]
        swapper = subprocess.Popen([sys.executable, "-c", SWAPPER, *places], stdout=subprocess.PIPE)
        assert swapper.stdout is not None
        swapper.stdout.readline()
        try:
            yield
        finally:
            swapper.kill()
            swapper.communicate()

    def tools(self) -> dict[str, Callable[[], str]]:
        """One call of each tool by its name."""
        return {
            "read_file": lambda: self.files.read_file("swap/a.txt"),
            "write_file": lambda: self.changes.write_file("swap/new.txt", "new"),
            "edit_file": self._edit,
            "list_dir": lambda: self.files.list_dir("swap"),
            "glob": lambda: self.search.glob("**/*.txt"),
            "grep": lambda: self.search.grep(SECRET, "swap"),
            "grep all": lambda: self.search.grep(SECRET),
            "grep opens": self._searched,
        }

    def _searched(self) -> str:
        """Return what grep reads, without the matching process, which opens nothing and is slow."""
        options = GrepOptions(LinePattern(SECRET), "swap", "", False, False, 100, 60.0, True)
        source = Source(self.workspace, options)
        text = b"".join(source.pieces()).decode()
        if source.error is not None:
            raise source.error
        return text

    def _edit(self) -> str:
        self._turn += 1
        old = _TEXTS[(self._turn + 1) % 2]
        try:
            return self.changes.edit_file("swap/a.txt", old, _TEXTS[self._turn % 2])
        except WorkspaceError:
            self._turn -= 1
            raise

    def race(self, tool: str, rounds: int) -> Tally:
        """Call a tool again and again while another process swaps."""
        tally, call = Tally(tool), self.tools()[tool]
        changes = tool in ("write_file", "edit_file")
        begun = time.perf_counter()
        with self.swapping():
            for _ in range(rounds):
                tally.opens += 1
                try:
                    leaked = SECRET in call()
                except WorkspaceError as error:
                    tally.refusals += 1
                    leaked = SECRET in str(error).replace(repr(SECRET), "")
                if changes and self._state() != self.before:
                    leaked = True
                    self._restore()
                tally.leaks += leaked
        tally.seconds = time.perf_counter() - begun
        return tally

    def _restore(self) -> None:
        shutil.rmtree(self.outside)
        self.outside.mkdir()
        for name, data in self.before:
            (self.outside / name).write_bytes(data)


@contextmanager
def arena(opener: Opener, folder: str | None = None) -> Iterator[Arena]:
    """Yield an arena in a new folder, in memory if possible, because the speed of the disk is irrelevant."""
    memory = Path("/dev/shm")
    place = folder or (str(memory) if memory.is_dir() else None)
    with tempfile.TemporaryDirectory(dir=place) as made:
        yield Arena(Path(made).resolve(), opener)


def main() -> None:
    """Run the races and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50_000)
    parser.add_argument("--opener", choices=OPENERS, action="append")
    parser.add_argument("--tool", action="append")
    parser.add_argument("--folder")
    options = parser.parse_args()
    print(
        "| opener | tool | opens | leaks | refusals | microseconds each |\n|---|---|---|---|---|---|",
        flush=True,
    )
    for name in options.opener or OPENERS:
        with arena(OPENERS[name], options.folder) as place:
            for tool in options.tool or place.tools():
                done = place.race(tool, options.rounds)
                each = done.seconds / done.opens * 1e6
                print(
                    f"| {name} | {tool} | {done.opens:,} | {done.leaks:,} | {done.refusals:,} | {each:.0f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
