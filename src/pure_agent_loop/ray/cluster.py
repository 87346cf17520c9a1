"""Ray itself: imported lazily, and connected to the caller's cluster."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.lazy import module_of_extra

STORE_BYTES = 80 * 2**20  # size of a local cluster's object store: it holds only ids, settings and results
_ADDRESSES = {"local"}  # values of `address` that match the current connection


def import_ray() -> Any:
    """Import Ray with usage reports disabled, unless ``RAY_USAGE_STATS_ENABLED`` is set.

    Raises:
        MissingExtraError: Ray is not installed.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    return module_of_extra("ray", notice("library.feature_ray"), "ray")


def connect(address: str, namespace: str) -> bool:
    """Connect to a cluster, unless the program is already connected.

    Args:
        address: ``local`` for a new cluster, even if ``RAY_ADDRESS`` is set; else see ``ray.init``.

    Returns:
        True if this call has started a cluster for this process.

    Raises:
        ConfigError: The program is already connected, but not through this address.
    """
    ray = import_ray()
    if ray.is_initialized():
        if address not in _ADDRESSES:
            raise ConfigError(
                f"address={address!r} cannot be joined: this program is already connected to a Ray cluster. "
                "Leave out address to use that cluster, or do not call ray.init."
            )
        return False
    is_local = address == "local"
    local = {"include_dashboard": False, "object_store_memory": STORE_BYTES} if is_local else {}
    on_term = signal.getsignal(signal.SIGTERM)
    ray.init(address, namespace=namespace, log_to_driver=False, configure_logging=False, **local)
    _ADDRESSES.clear()
    _ADDRESSES.update(("local", address))
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, on_term)  # restore the handler that Ray has replaced
    return is_local
