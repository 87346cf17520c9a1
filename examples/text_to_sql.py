"""A task known from smolagents: questions about a table, answered with SQL, sent back when it fails."""

import sqlite3

from pure_agent_loop import Agent, LoopLimits, Retry, RunContext, tool


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
database.execute("PRAGMA query_only = ON")

agent = Agent[sqlite3.Connection](tools=[query], limits=LoopLimits(max_turns=8))
result = agent.run("Who got the most expensive receipt?", deps=database)
print(result.content)
print(f"({result.stop_reason} after {result.steps} steps)")
database.close()
