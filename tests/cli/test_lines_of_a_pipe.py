"""Lines of a conversation over a pipe that are in another encoding."""

from __future__ import annotations

import io

import pytest

from pure_agent_loop import ConfigError
from pure_agent_loop.cli.task import tasks_of_lines

LINE = '{"type": "user", "content": "Grüße"}\n'


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_utf_8_is_read(encoding):
    pipe = io.TextIOWrapper(io.BytesIO(LINE.encode(encoding)))
    assert list(tasks_of_lines(pipe)) == ["Grüße"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "cp1252"])
def test_another_encoding_is_named_in_the_refusal(encoding):
    pipe = io.TextIOWrapper(io.BytesIO((LINE * 2).encode(encoding)))
    with pytest.raises(ConfigError, match=r"Line 1 .*The line is not UTF-8"):
        list(tasks_of_lines(pipe))


def test_another_object_is_refused_without_it():
    with pytest.raises(ConfigError) as refused:
        list(tasks_of_lines(io.TextIOWrapper(io.BytesIO(b'{"type": "x"}\n'))))
    assert "UTF-8" not in str(refused.value)
