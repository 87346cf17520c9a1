"""A schedule: an agent that works at set times, and delivers its answer. Needs the extra [durable].

`pal schedule add` does the same at a terminal, and `pal worker` runs what is due on any machine.
"""

import time
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from pure_agent_loop import Agent, tool
from pure_agent_loop.durable import Engine, Schedule, to_file


@tool(read_only=True)
def sales(day: str) -> str:
    """Read the sales of a day."""
    return f"{day}: 12 lamps, 3 chairs"


weekday = Schedule(
    "sales",
    agent="seller",
    prompt="Sum up the sales of yesterday in one line.",
    cron="0 7 * * 1-5",
    timezone="Europe/Oslo",
    missed="once",  # no worker was up at seven: one run as soon as there is one
    deliver=to_file("report.md"),
)

with Engine("sqlite:///work.sqlite", agents={"seller": Agent(tools=[sales])}) as engine:
    engine.schedules.add(weekday, replace=True)
    due = engine.schedules.get("sales").next or 0.0
    print("next run at", datetime.fromtimestamp(due, ZoneInfo("Europe/Oslo")).strftime("%H:%M"))

    engine.schedules.run_now("sales")  # once more than it is due
    while (last := engine.schedules.get("sales").last) is None or last.state != "delivered":
        time.sleep(0.1)
    print("report.md:", Path("report.md").read_text().strip())

# Output:
# next run at 07:00
# report.md: 12 lamps and 3 chairs were sold.
