"""Checks of the further fields of requests that a caller gives as keywords."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.limits import LoopLimits
from pure_agent_loop.llm.profiles import REQUEST_FIELDS, TRANSPORT_FIELDS
from pure_agent_loop.retry import RetryConfig

# What users of other libraries write, and what says the same here.
_OTHER_WORDS = {
    "instructions": "system_prompt",
    "instruction": "system_prompt",
    "system": "system_prompt",
    "system_message": "system_prompt",
    "prompt": "system_prompt",
    "client": "llm",
    "provider": "llm",
    "functions": "tools",
    "function_call": "tool_choice",
    "max_iterations": "limits=LoopLimits(max_turns=...)",
    "session_id": "session_id= of run(), arun(), run_stream() and arun_stream()",
    "messages": "messages= of run(), arun(), run_stream() and arun_stream()",
    "output_type": "output_type= of Agent, or of run() and its siblings",
    **{each.name: f"limits=LoopLimits({each.name}=...)" for each in fields(LoopLimits)},
    **{each.name: f"retry=RetryConfig({each.name}=...)" for each in fields(RetryConfig)},
}
_NOT_HERE = {
    "n": "A run reads one answer.",
}


def check_fields(owner: str, given: Mapping[str, Any], known: Iterable[str] = ()) -> None:
    """Refuse a keyword that nothing would obey, and a value that cannot be sent.

    Args:
        owner: What the keywords were given to, for the message.
        given: The keywords that are no parameters of it.
        known: Its parameters, to find the one that was meant.

    Raises:
        ConfigError: It names the field and what to write instead.
    """
    for name, value in given.items():
        if name not in REQUEST_FIELDS:
            raise ConfigError(
                f"{owner} has no option {name!r}. {_meant(name, known)}"
                f"A field that only your server knows goes into extra_body={{{name!r}: ...}}."
            )
        if name not in TRANSPORT_FIELDS:
            _check_json(name, value)
        if value is not None:
            _check_ours(name, value)


def _check_ours(name: str, value: Any) -> None:
    """What no server sees, so that none can refuse it."""
    wrong = ""
    if name in ("extra_body", "extra_headers", "extra_query") and not isinstance(value, Mapping):
        wrong = "a dict of fields"
    elif name == "stream" and not isinstance(value, bool):
        wrong = "True or False"
    elif name == "timeout" and not (value > 0 if type(value) in (int, float) else hasattr(value, "connect")):
        wrong = "a number of seconds above 0, or a Timeout of the client's HTTP library"
    if wrong:
        raise ConfigError(f"{name} must be {wrong}; it is {value!r:.80}.")


def _meant(name: str, known: Iterable[str]) -> str:
    if name in _NOT_HERE:
        return f"{_NOT_HERE[name]} "
    if name in _OTHER_WORDS:
        return f"Write {_OTHER_WORDS[name]}. "
    import difflib  # not before something is wrong

    names = {each: each for each in (*known, *REQUEST_FIELDS)}
    near = difflib.get_close_matches(name.lower(), {**_OTHER_WORDS, **names}, n=1, cutoff=0.6)
    return f"Did you mean {names.get(near[0]) or _OTHER_WORDS[near[0]]}? " if near else ""


def _check_json(name: str, value: Any) -> None:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"{name}={value!r:.80} cannot be sent, because it has no JSON form: {error}."
        ) from error
