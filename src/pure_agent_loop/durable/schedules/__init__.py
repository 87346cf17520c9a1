"""Agent runs at scheduled times.

schedule   definition of a schedule, and its due times
when       times in words
schedules  operations on the schedules of a database, from any process
firings    firing of due schedules by workers, each exactly once
ticker     periodic check and delivery in a worker
delivery   targets for the answer of a scheduled run
posting    delivery of an answer to a file or a command
"""
