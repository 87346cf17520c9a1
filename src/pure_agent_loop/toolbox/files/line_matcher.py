"""A program of its own: print the lines of its input that fit a regular expression, as ripgrep does.

It imports nothing of the package and is run as a file, so that it starts fast and can be killed: a regular
expression may take for ever, and within Python nothing can stop it.

    python -I line_matcher.py PATTERN_AS_HEX IGNORE_CASE CONTEXT

Each line comes as ``12:text``, a line of context as ``11-text``. Exit code 2 with a message if the pattern
cannot be used, 3 if the search failed; never 1, which is ripgrep's word for "nothing found".
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
        if search(line.rstrip(b"\n").decode("utf-8", "replace")):
            out.writelines(b"%d-%s" % each for each in before)
            out.write(b"%d:%s" % (number, line))
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
    except Exception as error:  # noqa: BLE001 - out of memory, most likely; Python would end with 1
        sys.stderr.write(repr(error))
        code = 3
    sys.exit(code)
