"""Task options, kept in the database until a worker starts the run.

Every option of `Agent.run` that can be stored as JSON is accepted, and any other is rejected by name: no
option is ignored silently.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from pure_agent_loop.durable.database import Database
from pure_agent_loop.durable.values import DurableError
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.limits import LoopLimits
from pure_agent_loop.llm.messages import repair_history
from pure_agent_loop.media import media_parts
from pure_agent_loop.prompts import prompts_for
from pure_agent_loop.runs.options import RUN_OPTIONS
from pure_agent_loop.runs.settings import UNSET, check_types
from pure_agent_loop.sessions.run_record import read_prices
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.parsing import read_json
from pure_agent_loop.support.text import unexpected_option

MAX_BYTES = 64_000_000  # maximum size of a task's options as JSON; both databases can store it
_INSTEAD = {
    "deps": "Workers create them: Engine(agents=..., deps=factory).",
    "facts": "Set it on the workers' agent: Agent(facts=...).",
    "output_type": "Set it on the workers' agent: Agent(output_type=...).",
    "cancel_token": "Cancel the run with Handle.cancel().",
    "inbox": "A durable run cannot be steered; submit the next task with its session_id when it has ended.",
    "journal": "A durable run is recorded in its session.",
    "state": "A durable run continues its session: session_id=...",
}
_ADD = "INSERT INTO @inputs (run, digest, options) VALUES (?, ?, ?) ON CONFLICT (run, digest) DO NOTHING"


def pack_options(options: Mapping[str, Any]) -> str:
    """Return a run's options as JSON; empty if there are no options.

    Raises:
        ConfigError: An option cannot be stored as JSON, or all options together are too large.
        ImageError: An image or file cannot be sent.
        HistoryError: `messages` is not a list of messages.
        TypeError: An option is unknown.
    """
    if unknown := options.keys() - set(RUN_OPTIONS):
        raise TypeError(unexpected_option("submit()", min(unknown), RUN_OPTIONS))
    given_options = {
        name: value for name, value in options.items() if value is not None and value is not UNSET
    }
    check_types(
        limits=(given_options.get("limits"), LoopLimits), metadata=(given_options.get("metadata"), Mapping)
    )
    if "messages" in given_options:
        repair_history(given_options["messages"], prompts_for().tool_lost)
    if "media" in given_options:
        given_options["media"] = media_parts(given_options["media"])
    parts = [f"{json.dumps(name)}: {_to_json(name, value)}" for name, value in given_options.items()]
    text = f"{{{', '.join(parts)}}}" if parts else ""
    if len(text) > MAX_BYTES:
        raise ConfigError(
            f"The options of this task ({', '.join(given_options)}) are {len(text):,} bytes of JSON; the "
            f"limit is {MAX_BYTES:,}. Send fewer or smaller media, or a shorter history."
        )
    return text


def _to_json(name: str, value: Any) -> str:
    if name in _INSTEAD:
        raise ConfigError(f"{name} cannot be stored for another process. {_INSTEAD[name]}")
    try:
        return json.dumps(asdict(value) if name == "limits" else value, default=_plain, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"{name}={value!r:.80} cannot be stored for another process: it has no JSON form "
            f"({error}). Set it on the workers' agent."
        ) from error


def _plain(value: Any) -> dict[Any, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def unpack_options(text: str) -> dict[str, Any]:
    """Return the options in the form that `Agent.prepare` takes.

    Raises:
        ConfigError: The limits are invalid.
    """
    options: dict[str, Any] = read_json(text) if text else {}
    check_types(limits=(limits := options.get("limits"), dict))
    if limits is not None:
        prices = limits.pop("prices", None) or {}
        check_types(**{"limits.prices": (prices, dict)})
        check_types(**{f"limits.prices[{name!r}]": (price, dict) for name, price in prices.items()})
        options["limits"] = LoopLimits(**limits, prices=read_prices(prices))
    return options


def store_options(database: Database, run_id: str, text: str) -> str:
    """Store packed options once, however often they are submitted; return their digest ("" for no options).

    Raises:
        DurableError: The database is unavailable.
    """
    if not text:
        return ""
    digest = hashlib.sha256(text.encode()).hexdigest()
    database.change(_ADD, run_id, digest, text)
    return digest


def load_options(database: Database, run_id: str, digest: str) -> dict[str, Any]:
    """Return stored options.

    Raises:
        DurableError: The options are missing, or the database is unavailable.
    """
    if not digest:
        return {}
    rows = database.rows("SELECT options FROM @inputs WHERE run = ? AND digest = ?", run_id, digest)
    if not rows:
        raise DurableError(notice("library.options_gone", run_id=run_id, place=database.display_url))
    return unpack_options(str(rows[0][0]))
