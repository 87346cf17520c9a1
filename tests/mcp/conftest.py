"""The command and its terminal, as the tests of the command line have them."""

from tests.cli.conftest import chat, pal, screen_class

__all__ = ["chat", "pal", "screen_class"]
