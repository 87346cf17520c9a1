"""Texts and settings of a folder: a person trusts them once, as they are, or they stay out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from pure_agent_loop.assistant.trust import Guidance, guidance_of, is_trusted, trust
from pure_agent_loop.cli.output import Output
from pure_agent_loop.cli.questions import Questions, blanks_shown
from pure_agent_loop.cli.settings.files import File
from pure_agent_loop.support.terminal import one_line

QUESTION = "Shall the model follow them? [y]es, [n]o: "
SERVERS_QUESTION = "May they be started, with your rights and outside of the sandbox? [y]es, [n]o: "
SETTINGS_QUESTION = "Shall they hold here? [y]es, [n]o: "
_MOST_SHOWN = 200_000  # bytes of a file


def may_guide(
    workspace: Path, questions: Questions | None, output: Output, *, given: bool
) -> Guidance | None:
    """A folder's own texts if they may guide the model; a person is asked where one is there, and remembered.

    Args:
        output: Told what is left out.
        given: The option ``--trust-folder``; it holds for this run.
    """
    guidance = guidance_of(workspace)
    if not guidance.names or given:
        return guidance if given else None

    brings = "this folder brings texts for the model, which somebody else may have written"

    def confirm(questions: Questions) -> bool:
        return questions.confirm(QUESTION, f"{brings}: {guidance.shown}", lambda: _all(workspace, guidance))

    return guidance if _is_agreed(guidance, questions, output, confirm) else None


def _all(workspace: Path, guidance: Guidance) -> str:
    """The texts themselves."""
    texts = [f"{one_line(note.name)}:\n{note.text}" for note in guidance.notes]
    for name in guidance.names[len(texts) :]:
        try:
            data = (workspace / name).read_bytes()
        except OSError:
            data = b""
        is_text = guidance.holds(data) and b"\0" not in data and len(data) <= _MOST_SHOWN
        texts.append(f"{one_line(name)}:\n{data.decode('utf-8', 'replace') if is_text else '(not shown)'}")
    return blanks_shown("\n\n".join(texts), is_code=True)


def settings_guidance(file: File) -> Guidance:
    """What is trusted of the settings of a project: this file, as it is.

    Args:
        file: Where they stand.
    """
    return _guidance_of(b"settings", file)


def _guidance_of(kind: bytes, file: File) -> Guidance:
    place = file.shown.encode("utf-8", "surrogateescape")
    digest = hashlib.sha256(b"%b|%d|%b|%b" % (kind, len(place), place, file.data))
    return Guidance((file.shown,), digest.hexdigest())


def may_set(
    file: File, lines: Callable[[], list[str]], questions: Questions | None, output: Output, *, given: bool
) -> bool:
    """Whether the settings of a project hold; asked and remembered as in `may_guide`.

    Args:
        file: Where they stand.
        output: Told what is left out.
        given: The option ``--trust-folder``.
    """
    guidance = settings_guidance(file)

    def confirm(questions: Questions) -> bool:
        brings = f"this folder brings settings, which somebody else may have written: {guidance.shown}"
        return questions.confirm(
            SETTINGS_QUESTION, "\n".join([brings, *(f"  it sets {blanks_shown(line)}" for line in lines())])
        )

    return given or _is_agreed(guidance, questions, output, confirm)


def may_start(
    file: File, lines: list[str], questions: Questions | None, output: Output, *, given: bool
) -> bool:
    """Whether the MCP servers that a folder brings may be started; asked and remembered as in `may_guide`.

    Args:
        file: Where they stand.
        lines: What would be started, for the person.
        output: Told what is left out.
        given: The option ``--trust-folder``.
    """
    guidance = _guidance_of(b"mcp", file)

    def confirm(questions: Questions) -> bool:
        brings = f"this folder brings MCP servers, which somebody else may have written: {guidance.shown}"
        return questions.confirm(
            SERVERS_QUESTION, "\n".join([brings, *(f"  {blanks_shown(line)}" for line in lines)])
        )

    return given or _is_agreed(guidance, questions, output, confirm)


def _is_agreed(
    guidance: Guidance,
    questions: Questions | None,
    output: Output,
    confirm: Callable[[Questions], bool],
) -> bool:
    if is_trusted(guidance):
        return True
    if questions is not None and confirm(questions):
        _remember(guidance, output)
        return True
    output.say(f"left out, as nobody has trusted it: {guidance.shown} (--trust-folder uses it)")
    return False


def _remember(guidance: Guidance, output: Output) -> None:
    try:
        trust(guidance)
    except OSError as error:
        output.say(f"this is not remembered: {error.filename}: {error.strerror}")
