"""A run waits for a person, and is answered in another process.

python answer_later.py ask       the run stops at its question; nothing is refunded yet
python answer_later.py answer    later, anywhere: the answer is recorded, and the refund happens once
"""

import subprocess
import sys
from pathlib import Path

from pure_agent_loop import Agent, PermissionRules, SessionManager, tool


@tool
def refund(order: int, amount: float) -> str:
    """Give money back."""
    with Path("refunds.txt").open("a") as file:
        file.write(f"order {order}: {amount:.2f}\n")
    return f"refunded {amount:.2f}"


agent = Agent(tools=[refund], permission_rules=PermissionRules(ask=["refund"]), sessions="sessions")
sessions = SessionManager("sessions")


def ask() -> None:
    result = agent.run("The lamp of order 7 is broken. I paid 30.00.", session_id="order-7")
    print(result.stop_reason)


def answer() -> None:
    for session in sessions.waiting():
        for question in sessions.questions(session.id):
            print(f"{session.id}: {question.tool} {question.args}?")
            sessions.answer(session.id, question.call_id, "allow", by="Kim")
    print(agent.run(None, session_id="order-7").content)
    print(Path("refunds.txt").read_text().strip())


if __name__ == "__main__":
    if len(sys.argv) > 1:
        {"ask": ask, "answer": answer}[sys.argv[1]]()
    else:
        for step in ("ask", "answer"):  # two processes
            subprocess.run([sys.executable, __file__, step], check=True)

# Output:
# waiting_permission
# order-7: refund {'order': 7, 'amount': 30.0}?
# Your 30.00 are on their way.
# order 7: 30.00
