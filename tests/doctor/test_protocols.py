"""The doctor refuses models of protocols that it cannot examine."""

import asyncio

import pytest

from pure_agent_loop import ConfigError
from pure_agent_loop.doctor import Target, examine


@pytest.mark.parametrize("name", ["anthropic:claude-x", "responses:gpt-x"])
def test_another_protocol_is_refused_before_a_request(name):
    with pytest.raises(ConfigError, match="chat completions"):
        asyncio.run(examine(Target("http://127.0.0.1:9/v1", name)))
