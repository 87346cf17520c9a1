"""Storage of session records.

records        one record, its line format, and recovery of records from damaged bytes
jsonl          one file per session
sqlite         all sessions in one SQLite file
postgres       sessions in a database, for fleets
postgres_pool  connections of a store to PostgreSQL, and the liveness of writers
"""
