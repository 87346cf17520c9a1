"""Marking text from outside as data: a frame that says where it came from and that it is no instruction.

The mark of a frame depends on the text and on a key that only this process has. No page can know it and
close the frame, and the same page twice still gives the same result, so that repetitions are noticed.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets

from pure_agent_loop.prompts import Prompts, current_prompts
from pure_agent_loop.support.text import clean_text, shorten

_KEY = secrets.token_bytes(32)
_UNPRINTABLE = re.compile(r"[^\S ]|[\x00-\x1f\x7f-\x9f\[\]]")


def mark_untrusted(text: str, source: str, prompts: Prompts | None = None) -> str:
    """The text in a frame.

    Args:
        source: Where from, such as a URL; shown to the model.
        prompts: The words of the frame; those of the run if None.
    """
    words = prompts or current_prompts()
    text = clean_text(text)
    source = shorten(_UNPRINTABLE.sub("", clean_text(source)), 300).replace("\n", " ")
    mark = hmac.new(_KEY, f"{source}\0{text}".encode(), hashlib.sha256).hexdigest()[:12]
    head = words.untrusted.format(source=source, mark=mark)
    return f"{head}\n{text}\n{words.untrusted_end.format(mark=mark)}"
