"""A workspace: file tools and a sandboxed shell in one folder, an audit log, and undo."""

import asyncio
from pathlib import Path

from pure_agent_loop import Agent, EventType
from pure_agent_loop.audit import AuditLog, history, verify
from pure_agent_loop.snapshots import WorkspaceSnapshots
from pure_agent_loop.toolbox import workspace_tools

folder = Path("project")
folder.mkdir()
(folder / "colours.txt").write_text("sky: grey\n")

snapshots = WorkspaceSnapshots(folder)
audit = AuditLog("audit")
agent = Agent(tools=workspace_tools(folder), snapshots=snapshots, audit=audit)

for event in agent.run_stream("Make the sky blue, and copy the file to the folder above.", session_id="sky"):
    if event.type is EventType.FILE_CHANGE:
        print(f"{event.kind} {event.path}: +{event.added} -{event.removed}")
    elif event.type is EventType.LOOP_END:
        print(event.content)

print("copied outside:", Path("colours.txt").exists())
for entry in history(audit):
    print(f"audit: {entry.tool} {entry.args}")
print("audit log is whole:", verify(audit).ok)

report = asyncio.run(snapshots.undo("sky"))
print("undone:", *report.restored, "->", (folder / "colours.txt").read_text().strip())

# Output:
# modified colours.txt: +1 -1
# The sky is blue. I could not copy the file: I may only write in this folder.
# copied outside: False
# audit: read_file {'path': 'colours.txt'}
# audit: edit_file {'path': 'colours.txt', 'old_text': 'grey', 'new_text': 'blue'}
# audit: shell {'command': 'cp colours.txt ..'}
# audit log is whole: True
# undone: colours.txt -> sky: grey
