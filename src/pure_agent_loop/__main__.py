"""Run the command ``pal`` as ``python -m pure_agent_loop``."""

import os
import sys

if __name__ == "__main__":
    # Python puts the working folder first on the path; in an untrusted folder, its modules could shadow
    # installed ones.
    try:
        here = os.getcwd()  # noqa: PTH109 - it must be a string
    except OSError:  # the working folder has been deleted
        here = ""
    if sys.path[:1] in ([here], [""]):
        del sys.path[0]

    from pure_agent_loop.cli import main

    sys.exit(main())
