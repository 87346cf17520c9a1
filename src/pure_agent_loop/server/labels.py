"""Labels of a server's sessions: their names, folders, pins and origins, from the lines of ``runs.jsonl``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

from pure_agent_loop.support.folders import server_folder
from pure_agent_loop.support.parsing import read_json

LABELS = ("folder", "title", "pin", "version")
VERSION = "version"  # kind of the label that names a version's origin: ``STEP PARENT``
RUNS_FILE = "runs.jsonl"
_HEADS = tuple(f'{{"{kind}":'.encode() for kind in LABELS)


def read_labels(lines: Iterable[bytes]) -> dict[str, dict[str, str]]:
    """Return labels by kind and session. Later lines replace earlier ones; an empty text removes a label."""
    labels: dict[str, dict[str, str]] = {kind: {} for kind in LABELS}
    for line in lines:
        if line.startswith(_HEADS):
            # A line is incomplete if the process was killed while writing.
            with suppress(ValueError, TypeError):
                ((kind, (session, text)),) = read_json(line).items()
                labels[kind][session] = text
    return {kind: {name: text for name, text in of.items() if text} for kind, of in labels.items()}


def origin_of(versions: Mapping[str, str], session: str) -> tuple[int, str] | None:
    """Return the step up to which a version equals its parent, and the parent; None for a first version.

    Args:
        versions: The labels of the kind `VERSION`.
    """
    step, _, parent = versions.get(session, "").partition(" ")
    return (int(step), parent) if parent else None


def root_of(versions: Mapping[str, str], session: str) -> str:
    """Return the session with the first version of the conversation."""
    while origin := origin_of(versions, session):
        session = origin[1]
    return session


def first_versions() -> dict[str, str]:
    """Map each session with a later version of a conversation to the session with the first version.

    The versions are read from the server's folder in the data folder.
    """
    try:
        versions = read_labels((server_folder() / RUNS_FILE).read_bytes().splitlines())[VERSION]
    except OSError:  # no server has run yet
        return {}
    return {session: root_of(versions, session) for session in versions}
