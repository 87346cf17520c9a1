"""``python -m pure_agent_loop`` is the command ``pal``."""

import sys

from pure_agent_loop.cli import main

if __name__ == "__main__":
    sys.exit(main())
