"""Histories to shorten: any valid one, and long ones with a plan."""

from __future__ import annotations

import json

from hypothesis import strategies as st

from pure_agent_loop.llm.messages import user_message

_WORDS = st.text("ab \nü中", max_size=60)
_TEXTS = st.builds(lambda text, times: text * times, _WORDS, st.sampled_from([1, 1, 5, 60]))


@st.composite
def histories(draw):
    """Any valid history that a run may have."""
    messages, number = [], 0
    for _ in range(draw(st.integers(1, 12))):
        kind = draw(st.sampled_from(["user", "notice", "answer", "round", "round"]))
        if kind in ("user", "notice"):
            messages.append(user_message(draw(_TEXTS), synthetic=kind == "notice"))
        elif kind == "answer":
            messages.append({"role": "assistant", "content": draw(_TEXTS)})
        else:
            count = draw(st.integers(1, 3))
            ids = [f"call_{number + each}" for each in range(count)]
            number += count
            messages.append(asking(ids, draw(st.sampled_from(["read", "write"])), path=draw(_TEXTS)))
            messages += [{"role": "tool", "tool_call_id": each, "content": draw(_TEXTS)} for each in ids]
    return messages


def asking(ids, name, /, **arguments):
    function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
    calls = [{"id": each, "type": "function", "function": function} for each in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def round_of(number, text, name="read_file", /, **arguments):
    """One call and its result."""
    arguments = arguments or {"path": f"src/module_{number}.py"}
    call_id = f"call_{number}"
    result = {"role": "tool", "tool_call_id": call_id, "content": text}
    return [asking([call_id], name, **arguments), result]


def prose(number, words):
    """So many different words."""
    return f"part {number} " + " ".join(f"word{number}x{each}" for each in range(words))


def long_session(rounds=40, words=300, name="read_file"):
    """A question, and many rounds behind it."""
    messages = [user_message("Fix the bug in the parser.")]
    for number in range(rounds):
        messages += round_of(number, prose(number, words), name)
    return messages
