"""A session resumes after a crash: what was finished does not happen twice.

python resume.py work    run it twice: the first process dies in the middle
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

from pure_agent_loop import Agent, tool


@tool
def print_label(parcel: int) -> str:
    """Print the label of a parcel."""
    with Path("labels.txt").open("a") as file:
        file.write(f"label {parcel}\n")
    return f"label {parcel} is printed"


@tool(idempotent=True)  # safe to repeat, so a resumed run makes this call again
def weigh(parcel: int) -> str:
    """Weigh a parcel."""
    if not Path("crashed").exists():
        Path("crashed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return f"parcel {parcel}: 2 kg"


def work() -> None:
    agent = Agent(tools=[print_label, weigh], sessions="sessions")
    crashed = Path("crashed").exists()
    # Without a task a run goes on where its session stands.
    task = None if crashed else "Print the label of parcel 5, then weigh it."
    print(agent.run(task, session_id="parcel-5").content)


if __name__ == "__main__":
    if sys.argv[1:] == ["work"]:
        work()
    else:
        for attempt in (1, 2):
            code = subprocess.run([sys.executable, __file__, "work"], check=False).returncode
            printed = Path("labels.txt").read_text().splitlines()
            print(f"process {attempt} ended with {code}; printed: {printed}", flush=True)

# Output:
# process 1 ended with -9; printed: ['label 5']
# The label is printed; parcel 5 weighs 2 kg.
# process 2 ended with 0; printed: ['label 5']
