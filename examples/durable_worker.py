"""A durable run: work in a database. A worker is killed in the middle, the next one finishes.

Needs the extra [durable]. The database is a file here; with postgresql://... many machines share it, and
`pal worker --agents durable_worker:agents --database ...` is the worker on each of them.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

from pure_agent_loop import Agent, tool
from pure_agent_loop.durable import Engine


@tool
def book(room: int) -> str:
    """Book a room."""
    with Path("bookings.txt").open("a") as file:
        file.write(f"room {room}\n")
    return f"room {room} is booked"


@tool(idempotent=True)  # sending it twice does no harm, so the next worker makes this call again
def confirm(room: int) -> str:
    """Send a confirmation."""
    if not Path("killed").exists():
        Path("killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)  # a power cut, an update, too little memory
    return "sent"


agents = {"helper": Agent(tools=[book, confirm])}


def work() -> None:
    with Engine("sqlite:///work.sqlite", agents=agents) as engine:  # works in a thread
        # The same id is done once, however often it is submitted.
        handle = engine.submit("helper", "Book room 3 and confirm it.", run_id="booking-3")
        done = handle.result(timeout=60)
        print(f"{done.status}: {done.content}")


if __name__ == "__main__":
    if sys.argv[1:] == ["work"]:
        work()
    else:
        for number in (1, 2):
            code = subprocess.run([sys.executable, __file__, "work"], check=False).returncode
            bookings = Path("bookings.txt")
            booked = bookings.read_text().splitlines() if bookings.exists() else []
            print(f"worker {number} ended with {code}; booked: {booked}", flush=True)

# Output:
# worker 1 ended with -9; booked: ['room 3']
# completed: Room 3 is booked, and the confirmation is sent.
# worker 2 ended with 0; booked: ['room 3']
