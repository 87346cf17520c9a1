"""Any history in the chat-completions shape, for property tests of the makers' protocols."""

from hypothesis import strategies as st

TEXTS = st.sampled_from(["", " ", "a", "b c"])
IDS = st.sampled_from(["c{}", "call.{}", "x" * 70 + "{}"])


@st.composite
def histories(draw, own, texts=TEXTS):
    """Draw a history.

    Args:
        own: Makes a message of the protocol itself from `draw` and a text.
        texts: The texts.
    """
    history = [{"role": "system", "content": "s"}] if draw(st.booleans()) else []
    count = 0
    for _ in range(draw(st.integers(1, 6))):
        role, content = draw(st.sampled_from(["user", "assistant", "round", "own"])), draw(texts)
        if role == "round":
            ids = [draw(IDS).format(count + n) for n in range(draw(st.integers(1, 3)))]
            count += len(ids)
            calls = [
                {"id": i, "type": "function", "function": {"name": "add", "arguments": "{}"}} for i in ids
            ]
            history.append({"role": "assistant", "content": content or None, "tool_calls": calls})
            for call_id in ids:
                failed = {"meta": {"failed": True}} if draw(st.booleans()) else {}
                history.append({"role": "tool", "tool_call_id": call_id, "content": draw(texts), **failed})
        else:
            history.append(own(draw, content) if role == "own" else {"role": role, "content": content})
    return history
