"""The story of one refund: asked for, the server is killed, somebody approves, it happens once.

python examples/support_desk/story.py     plays the customer and the staff, with a server as a process
"""

import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx2

HERE = Path(__file__).parent
STAFF = {"Authorization": "Bearer only-for-this-example"}

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
web = httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=60)


def is_ready() -> bool:
    try:
        return web.get("/agents/readyz").is_success
    except httpx2.ConnectError:
        return False


def start() -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "uvicorn", "--app-dir", str(HERE), "--port", str(port)]
    server = subprocess.Popen([*command, "--log-level", "error", "app:app"])
    while not is_ready():
        time.sleep(0.1)
    return server


def ticket_when(ticket: str, state: str) -> dict[str, Any]:
    while (found := web.get(f"/tickets/{ticket}").json())["state"] != state:
        time.sleep(0.1)
    return dict(found)


def refunds() -> list[str]:
    path = Path("refunds.txt")
    return path.read_text().splitlines() if path.exists() else []


server = start()
message = {"text": "The lamp of order 7 is broken. I want my money back.", "key": "sent-by-the-page-1"}
ticket = web.post("/tickets", json=message).json()["ticket"]
again = web.post("/tickets", json=message).json()["ticket"]  # a second click
print("one ticket:", ticket == again)
print("customer sees:", ticket_when(ticket, "waiting_permission")["state"], refunds())

server.kill()  # kill -9, between question and answer
server.wait()
server = start()

(question,) = web.get("/agents/api/questions", headers=STAFF).json()["questions"]
print("staff sees:", question["tool"], question["args"])
answer = {"call_id": question["call_id"], "verdict": "allow"}
for click in (1, 2):
    reply = web.post(f"/agents/api/sessions/{ticket}/answers", json=answer, headers=STAFF)
    print(f"staff allows, click {click}:", "ok" if reply.is_success else "was answered before")

print("customer sees:", ticket_when(ticket, "completed")["answer"])
print("refunds:", refunds())
server.terminate()
server.wait()
web.close()

# Output:
# one ticket: True
# customer sees: waiting_permission []
# staff sees: refund {'order': 7, 'amount': 30.0}
# staff allows, click 1: ok
# staff allows, click 2: was answered before
# customer sees: I am sorry. Your 30.00 are on their way.
# refunds: ['order 7: 30.00']
