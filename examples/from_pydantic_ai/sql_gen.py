"""SQL for a request: one of two types as the answer, and a check that has the database explain the query."""

import sqlite3
from dataclasses import dataclass

from examples.models import model
from pure_agent_loop import Agent, Retry, RunContext

TABLE = "CREATE TABLE logs (at TEXT, level TEXT, service TEXT, message TEXT)"


@dataclass
class Query:
    """The request can be answered."""

    sql: str
    explanation: str = ""


@dataclass
class Unclear:
    """The request does not say enough."""

    why: str


llm = model(
    '{"sql": "SELECT * FROM log WHERE level = \'error\'"}',
    '{"sql": "SELECT * FROM logs WHERE level = \'error\'", "explanation": "All errors."}',
)
agent = Agent[sqlite3.Connection, Query | Unclear](
    llm=llm,
    output_type=[Query, Unclear],
    system_prompt=["Write SQL for SQLite.", TABLE],
)


@agent.output_check
def can_run(ctx: RunContext[sqlite3.Connection], answer: Query | Unclear) -> None:
    if isinstance(answer, Unclear):
        return
    if not answer.sql.upper().startswith("SELECT"):
        raise Retry("Write a SELECT.")
    try:
        ctx.deps.execute(f"EXPLAIN {answer.sql}")
    except sqlite3.Error as error:
        raise Retry(f"The query is not valid: {error}") from error


with sqlite3.connect(":memory:", check_same_thread=False) as database:
    database.execute(TABLE)
    print(agent.run("Show me the errors.", deps=database).unwrap())

# Output:
# Query(sql="SELECT * FROM logs WHERE level = 'error'", explanation='All errors.')
