"""Where the records of sessions are kept: files of JSON lines, SQLite, PostgreSQL."""
