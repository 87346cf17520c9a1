"""Mark untrusted text as data: a frame names its source and states that it is not an instruction.

The frame's mark is an HMAC of the text with a key of this process. A page cannot guess the mark to close
the frame, and the same page always gives the same result, so repeated calls can be detected.
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
    """Wrap text in a frame.

    Args:
        source: The origin, such as a URL; shown to the model.
        prompts: Prompts with the frame's wording; the run's if None.
    """
    words = prompts or current_prompts()
    text = clean_text(text)
    source = shorten(_UNPRINTABLE.sub("", clean_text(source)), 300).replace("\n", " ")
    mark = hmac.new(_KEY, f"{source}\0{text}".encode(), hashlib.sha256).hexdigest()[:12]
    head = words.untrusted.format(source=source, mark=mark)
    return f"{head}\n{text}\n{words.untrusted_end.format(mark=mark)}"
