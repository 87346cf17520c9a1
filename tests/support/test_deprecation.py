"""A deprecated name warns at the line of the caller, however deep inside the package the warning is given."""

from __future__ import annotations

import linecache
import warnings

import pytest

from pure_agent_loop.support import lazy


def test_warning_names_replacement_and_removal():
    with pytest.warns(DeprecationWarning, match=r"^old is deprecated .* removed in 9\.0\.0\. Use new\.$"):
        lazy.warn_deprecated("old", "new", "9.0.0")


def test_the_warning_points_at_the_line_outside_of_the_package():
    inner = "def inner():\n    lazy.warn_deprecated('old', 'new', '9')\ndef outer():\n    inner()\n"
    module = {"__name__": "pure_agent_loop.anything", "lazy": lazy}
    exec(compile(inner, "anything.py", "exec"), module)  # a module of the package, two calls deep
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        module["outer"]()
    (warning,) = caught
    assert warning.filename == __file__
    assert linecache.getline(__file__, warning.lineno).strip() == 'module["outer"]()'
