"""A standalone program: print the input lines that match a regular expression, as ripgrep does.

The program is run as a file and imports nothing from the package, so it starts fast and can be killed: a
regular expression may run forever, and Python cannot interrupt it.

    python -I line_matcher.py PATTERN_AS_HEX IGNORE_CASE CONTEXT

A matching line is printed as ``12:text``, with a mark (character 1) before the match. A context line is
printed as ``11-text``. The exit code is 2, with a message, for a bad pattern, and 3 for a failed search; it
is never 1, which means "nothing found" in ripgrep.
"""

import re
import sys
import warnings
from collections import deque


def main() -> int:
    """Read lines until the input ends."""
    pattern, ignore_case, context = bytes.fromhex(sys.argv[1]).decode(), sys.argv[2] == "1", int(sys.argv[3])
    warnings.simplefilter("ignore")
    try:
        search = re.compile(pattern, re.IGNORECASE if ignore_case else 0).search
    except (re.error, OverflowError, RecursionError, ValueError) as error:
        sys.stderr.write(str(error))
        return 2
    out = sys.stdout.buffer
    before: deque[tuple[int, bytes]] = deque(maxlen=context)
    after = 0
    for number, line in enumerate(sys.stdin.buffer, 1):
        text = line.rstrip(b"\n").decode("utf-8", "replace")
        if match := search(text):
            marked = f"{text[: match.start()]}\x01{text[match.start() :]}"
            out.writelines(b"%d-%s" % context_line for context_line in before)
            out.write(b"%d:%s\n" % (number, marked.encode("utf-8", "replace")))
            before.clear()
            after = context
        elif after:
            out.write(b"%d-%s" % (number, line))
            after -= 1
        else:
            before.append((number, line))
    return 0


if __name__ == "__main__":
    try:
        code = main()
    except Exception as error:  # noqa: BLE001 - probably out of memory; Python would exit with 1
        sys.stderr.write(repr(error))
        code = 3
    sys.exit(code)
