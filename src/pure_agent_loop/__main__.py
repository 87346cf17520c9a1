"""``python -m pure_agent_loop`` is the command ``pal``."""

import sys
from pathlib import Path

if __name__ == "__main__":
    # Python puts the working folder first, where a stranger's modules would hide those that are installed.
    if sys.path[:1] in ([str(Path.cwd())], [""]):
        del sys.path[0]

    from pure_agent_loop.cli import main

    sys.exit(main())
