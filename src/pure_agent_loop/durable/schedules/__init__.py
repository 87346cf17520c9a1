"""Runs of agents at set times.

times     when a schedule is due
schedule  what is to be run when
schedules the schedules of a database, from any process
firings   what a worker does for them: exactly one fires
ticker    looks once a second, and delivers
delivery  where the answer of a scheduled run goes
posting   handing an answer to a file or a command
notices   answers that wait for a session
"""
