"""Single-turn questions of the Berkeley Function Calling Leaderboard: ``python -m benchmarks.bfcl``.

questions   the public questions, as messages and tool schemas
conversion  the leaderboard's function docs as tool schemas
package     fetches the leaderboard's own package, pinned
checker     the leaderboard's own checker, in a separate process
runner      asks the questions, several at a time
results     one line per question, so that a run can be resumed
table       results per question set
command     the run, with its options, table and exit code
"""
