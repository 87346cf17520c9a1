"""Storage of session records.

records   one record, and its line format
parse     recovers complete records from damaged bytes
log       base class of the logs
jsonl     one file per session
sqlite    all sessions in one SQLite file
postgres  sessions in a database, for fleets (`postgres_link`: connections, `postgres_owner`: liveness)
"""
