"""The PostgreSQL for tests: it answers, comes back, and ends with its process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from tests.postgres_server import PostgresServer

from pure_agent_loop.testing import ScriptError

KILLED = """
import os, signal
from tests.postgres_server import PostgresServer
print(PostgresServer().__enter__().folder, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_written_data_survives_a_crash(postgres):
    url = postgres.new_database()
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE t AS SELECT 5 AS n")
    postgres.restart(immediate=True)
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT n FROM t").fetchone() == (5,)


def test_server_ends_with_its_killed_process():
    command, root = [sys.executable, "-c", KILLED], Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    folder = Path(done.stdout.strip())
    assert done.returncode == -9
    assert folder.name.startswith("pal-pg-")
    while (folder / "data").exists():  # a guard takes it away, when the server has ended
        pass
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(f"postgresql://postgres@/postgres?host={folder}")


def test_failed_start_shows_the_postgres_log_and_leaves_nothing(tmp_path_factory):
    server = PostgresServer(settings={"shared_buffers": "much"})
    with pytest.raises(ScriptError, match="shared_buffers"):
        server.__enter__()
    assert not server.folder.exists()
