"""Where models, settings and server files are kept: the folder of `pure_agent_loop.paths`."""

from __future__ import annotations

from pure_agent_loop.paths import HOME_VARIABLE, data_folder, private_folder

__all__ = ["HOME_VARIABLE", "data_folder", "private_folder"]
