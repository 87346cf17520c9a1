"""What a client has sent, checked: what is wrong is said with the name of the field."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pure_agent_loop.acp.wire import INVALID_PARAMS, RpcError


def wrong(message: str) -> RpcError:
    """An error about what was sent."""
    return RpcError(INVALID_PARAMS, message)


def text(params: Mapping[str, Any], name: str) -> str:
    """A text that has to be there.

    Raises:
        RpcError: It is not.
    """
    found = params.get(name)
    if not isinstance(found, str):
        raise wrong(f"{name} must be a text; it is {found!r:.80}.")
    return found


def items(params: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """A list of objects; an empty one if it is not there.

    Raises:
        RpcError: It is something else.
    """
    found = params.get(name)
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise wrong(f"{name} must be a list of objects; it is {found!r:.80}.")
    return found


def below(params: Mapping[str, Any], *names: str) -> Any:
    """What stands at the end of a way through objects; None if it does not lead so far."""
    at: Any = params
    for name in names:
        at = at.get(name) if isinstance(at, dict) else None
    return at


def folder(params: Mapping[str, Any], name: str) -> Path:
    """An existing folder, by its absolute path.

    Raises:
        RpcError: It is none.
    """
    given = text(params, name)
    path = Path(given)
    try:
        if not path.is_absolute() or not path.is_dir():
            raise wrong(f"{name} must be the absolute path of an existing folder; it is {given!r:.200}.")
        return path.resolve()
    except (OSError, ValueError) as error:  # too long, or with a NUL
        raise wrong(f"{name}={given!r:.200} is no folder: {error}") from None
