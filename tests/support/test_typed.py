"""Values from files against their annotations: any that does not fit is named."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from tests.helpers import start

from pure_agent_loop import ConfigError, QueryState
from pure_agent_loop.support.typed import mistyped


@pytest.mark.parametrize(
    ("value", "hint", "wrong"),
    [
        (1, int, ""),
        ("1", int, "it is '1'"),
        (True, int, "it is True"),
        (1, float, ""),
        (None, str, "it is None"),
        (None, str | None, ""),
        ("a", str | None, ""),
        (1, str | None, "it is 1"),
        ([1, "a"], list[int | str], ""),
        ([1, 2.5], list[int | str], "it[1] is 2.5"),
        ({"a": None}, dict[str, int], "it['a'] is None"),
        ("b", Literal["a"], "it is 'b'"),
        (object, Any, ""),
    ],
)
def test_mismatched_field_is_named(value, hint, wrong):
    assert mistyped(value, hint) == wrong


@pytest.mark.parametrize(("name", "value"), [("corrections", "1"), ("stop_reason", 5), ("messages", [7])])
def test_a_state_with_a_wrong_value_is_refused(name, value):
    with pytest.raises(ConfigError, match="not a saved state"):
        QueryState.from_dict({**start().to_dict(), name: value})
