"""The error of the test helpers."""

from __future__ import annotations


class ScriptError(AssertionError):
    """A test and its script do not fit: the script ran out, was not used up, or was asked wrongly.

    It is an `AssertionError`, so test runners show it as a failed test. A loop under test may turn
    any exception of a model into an ordinary end of the run; therefore the helpers remember it, and
    ``assert_done()`` or leaving their ``with`` block brings it back.
    """
