"""Trust in the texts and settings of a folder: the user is asked once per content."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pure_agent_loop.assistant import Guidance, guidance_of, is_trusted, trust_guidance
from pure_agent_loop.cli.output import CommandOutput
from pure_agent_loop.cli.questions import TerminalQuestions, blanks_shown
from pure_agent_loop.cli.settings.files import ConfigFile, read
from pure_agent_loop.support.language import user_text
from pure_agent_loop.support.terminal import one_line

_MAX_SHOWN = 200_000  # maximum bytes of a file


def may_guide(
    workspace: Path, questions: TerminalQuestions | None, output: CommandOutput, *, trust_folder: bool
) -> Guidance | None:
    """Return the instructions in a folder if they are trusted; ask at a terminal, and store a yes.

    Args:
        trust_folder: The option ``--trust-folder``, which applies to this run.
    """
    guidance = guidance_of(workspace)
    if not guidance.names or trust_folder:
        return guidance if trust_folder else None
    more = partial(_all, workspace, guidance)
    return guidance if _is_agreed("texts", guidance, list, questions, output, more) else None


def _all(workspace: Path, guidance: Guidance) -> str:
    """Return the texts in full."""
    texts = [f"{one_line(note.name)}:\n{note.text}" for note in guidance.notes]
    for name in guidance.names[len(texts) :]:
        try:
            data = (workspace / name).read_bytes()
        except OSError:
            data = b""
        is_text = guidance.holds(data) and b"\0" not in data and len(data) <= _MAX_SHOWN
        texts.append(
            f"{one_line(name)}:\n{data.decode('utf-8', 'replace') if is_text else user_text('cli.not_shown')}"
        )
    return blanks_shown("\n\n".join(texts), is_code=True)


def settings_guidance(file: ConfigFile) -> Guidance:
    """Return the trust record of a project's settings file, valid only for the current content."""
    return _guidance_of(b"settings", file)


def _guidance_of(kind: bytes, file: ConfigFile) -> Guidance:
    place = file.shown.encode("utf-8", "surrogateescape")
    digest = hashlib.sha256(b"%b|%d|%b|%b" % (kind, len(place), place, file.data))
    return Guidance((file.shown,), digest.hexdigest())


def may_set(
    file: ConfigFile, questions: TerminalQuestions | None, output: CommandOutput, *, trust_folder: bool
) -> bool:
    """Return True if the settings of a project are trusted; asks like `may_guide`."""
    guidance = settings_guidance(file)

    def settings() -> list[str]:
        return [user_text("cli.trust_sets", line=blanks_shown(line)) for line in read(file).lines]

    return trust_folder or _is_agreed("settings", guidance, settings, questions, output)


def may_start(
    file: ConfigFile,
    lines: list[str],
    questions: TerminalQuestions | None,
    output: CommandOutput,
    *,
    trust_folder: bool,
) -> bool:
    """Return True if the MCP servers of a folder may start; asks like `may_guide`."""
    guidance, servers = _guidance_of(b"mcp", file), [f"  {blanks_shown(line)}" for line in lines]
    return trust_folder or _is_agreed("servers", guidance, lambda: servers, questions, output)


def _is_agreed(
    kind: str,
    guidance: Guidance,
    lines: Callable[[], list[str]],
    questions: TerminalQuestions | None,
    output: CommandOutput,
    more: Callable[[], str] | None = None,
) -> bool:
    """Ask whether to trust a part of a folder, unless it is already trusted, and store a yes.

    Args:
        kind: Part of the message ids: ``texts``, ``settings`` or ``servers``.
        lines: Function that returns the lines to trust.
        more: Function that returns the full text.
    """
    if is_trusted(guidance):
        return True
    if questions is not None:
        text = "\n".join([user_text(f"cli.trust_{kind}", names=guidance.shown), *lines()])
        if questions.confirm(user_text(f"cli.trust_{kind}_question"), text, more):
            try:
                trust_guidance(guidance)
            except OSError as error:
                output.info(user_text("cli.trust_not_saved", file=error.filename, error=error.strerror))
            return True
    output.info(user_text("cli.not_trusted", names=guidance.shown))
    return False
