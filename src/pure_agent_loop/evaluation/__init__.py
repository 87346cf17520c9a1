"""Measuring how well a model calls tools: the Berkeley Function Calling Leaderboard, through any client.

    bfcl        the public questions, as messages and tool schemas
    conversion  the leaderboard's function docs as tool schemas
    package     fetches the leaderboard's own package, pinned
    checker     the leaderboard's own checker, in a process of its own
    runner      asks the questions, several at a time
    results     one line for each question, so that a run can go on where it stopped
    table       what came out
    command     ``pure-agent-loop eval``

Importing this loads nothing but argparse.
"""

from pure_agent_loop.evaluation.command import add_arguments, run

__all__ = ["add_arguments", "run"]
