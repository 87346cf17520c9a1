"""Where records of sessions are kept.

records   one record, and the line it is written as
parse     from damaged bytes to whole records
log       what every log does
jsonl     a file for each session
sqlite    all sessions in one SQLite file
postgres  sessions in a database, for fleets (`postgres_link` connects, `postgres_owner` shows who lives)
"""
