"""The command ``model``, with a real download from a server on this machine."""

from __future__ import annotations

import functools
import http.server
import io
import re
import threading
from contextlib import contextmanager

import pytest

from pure_agent_loop.cli.output import CommandOutput
from pure_agent_loop.cli.slow import SlowSteps
from pure_agent_loop.support.language import notice

SIZE = 25_000_000


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@contextmanager
def file_server(folder):
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_list_shows_the_default_and_downloaded_models(pal):
    done = pal("model", "list")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert re.match(r"\* smollm2-135m +- +98 MB +Apache-2.0 ", lines[0])
    assert all(line.startswith("  ") for line in lines[1:])


def test_pull_fetches_says_how_far_it_is_and_prints_the_path(pal, tmp_path):
    (tmp_path / "www").mkdir()
    with (tmp_path / "www" / "mini.gguf").open("wb") as file:
        file.write(b"GGUF")
        file.truncate(SIZE)
    with file_server(tmp_path / "www") as address:
        done = pal("model", "pull", f"{address}/mini.gguf")
    path = tmp_path / "home" / "models" / "mini.gguf"
    assert (done.returncode, done.stdout) == (0, f"{path}\n")
    assert path.stat().st_size == SIZE
    shown = re.findall(r"\((\d+) %\)", done.stderr)
    assert shown[-1] == "100"
    assert len(shown) <= 11  # one line for each ten per cent, not for each megabyte
    assert re.search(r"^  mini +here ", pal("model", "list").stdout, re.MULTILINE)


def test_use_selects_the_default(pal):
    done = pal("model", "use", "qwen3-0.6b")
    assert (done.returncode, done.stdout) == (0, "")
    assert "pal model pull qwen3-0.6b" in done.stderr
    assert re.search(r"^\* qwen3-0.6b ", pal("model", "list").stdout, re.MULTILINE)


def test_use_takes_a_file(pal):
    file = pal.workspace / "mine.gguf"
    file.write_bytes(b"GGUF")
    done = pal("model", "use", "mine.gguf")
    assert done.returncode == 0
    assert "pull" not in done.stderr
    assert f"* {file}" in pal("model", "list").stdout


@pytest.mark.parametrize("words", [["pull", "nope"], ["use", "nope"], ["use", "nope.gguf"]])
def test_unknown_model_exits_with_2_and_one_sentence(pal, words):
    done = pal("model", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("pal: error: ")
    assert "nope" in done.stderr


def test_an_interrupted_server_gives_75(pal):
    with file_server(pal.workspace) as address:
        pass  # it is gone now
    done = pal("model", "pull", f"{address}/mini.gguf")
    assert done.returncode == 75
    assert "Run the same command again" in done.stderr


class _Terminal(io.StringIO):
    def isatty(self):
        return True


def test_on_a_terminal_one_line_changes(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    err = _Terminal()
    with SlowSteps(CommandOutput(io.StringIO(), err, colour=False)) as steps:
        for file, done in (("a", 1), ("a\x1b[H", 43)):
            steps(notice("library.received_of", file=file, done=done, total=100, percent=done))
        steps("done\x1b[2J")
    clear = "\r\x1b[2K"
    first = f"pal: {'░' * 20} 1 %  1 of 100 MB"
    second = f"pal: {'█' * 8}{'░' * 12} 43 %  43 of 100 MB"
    assert err.getvalue() == f"{clear}{first}{clear}{second}\npal: done\\x1b[2J\n"
