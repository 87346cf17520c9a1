"""Async tests in an event loop of their own."""

import asyncio
import functools


def in_a_loop(test):
    """Run an async test."""

    @functools.wraps(test)
    def run(*arguments, **settings):
        return asyncio.run(test(*arguments, **settings))

    return run
