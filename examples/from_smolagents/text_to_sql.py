"""Questions about a table, answered with SQL: an error of the database is told to the model."""

import sqlite3

from examples.models import model
from pure_agent_loop import Agent, Retry, RunContext, tool
from pure_agent_loop.testing import call


@tool(read_only=True, retries=3)
def query(ctx: RunContext[sqlite3.Connection], sql: str) -> list[tuple[object, ...]]:
    """Run a query on the table receipts(customer TEXT, price REAL, tip REAL)."""
    try:
        return ctx.deps.execute(sql).fetchmany(50)
    except sqlite3.Error as error:
        raise Retry(f"{error}. Write one SELECT on receipts.") from error


# A tool that is not async runs in a thread; the database itself refuses to change anything.
database = sqlite3.connect(":memory:", check_same_thread=False)
database.execute("CREATE TABLE receipts (customer TEXT, price REAL, tip REAL)")
database.executemany("INSERT INTO receipts VALUES (?, ?, ?)", [("Ann", 12.5, 1.2), ("Bob", 23.9, 0.2)])
database.commit()
READING = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION}
database.set_authorizer(lambda action, *_: sqlite3.SQLITE_OK if action in READING else sqlite3.SQLITE_DENY)

llm = model(
    call("query", sql="SELECT name FROM receipts ORDER BY price DESC LIMIT 1"),
    call("query", sql="SELECT customer FROM receipts ORDER BY price DESC LIMIT 1"),
    "It was Bob.",
)
result = Agent[sqlite3.Connection](llm=llm, tools=[query]).run(
    "Who got the most expensive receipt?", deps=database
)
print(f"{result.content} ({result.steps} steps)")
database.close()

# Output:
# It was Bob. (3 steps)
