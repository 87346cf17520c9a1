"""The account that runs this process."""

from __future__ import annotations

import getpass
import os
import socket
import sys


def account() -> str:
    """Return the account of this process, as the system reports it, not an environment variable."""
    try:
        if sys.platform == "win32":
            return getpass.getuser()
        import pwd

        return pwd.getpwuid(os.getuid()).pw_name
    except (KeyError, OSError, ImportError):
        return str(getattr(os, "getuid", lambda: "unknown")())


def account_here() -> str:
    """Return the account and the machine, such as ``ann@laptop``."""
    return f"{account()}@{socket.gethostname()}"
