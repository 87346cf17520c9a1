"""Which awk programs only compute and print: awk can also write files, run commands and read secrets."""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r'\s+|(?P<text>"(?:[^"\\\n]|\\[^\n])*")'
    r"|(?P<number>\d+(?:\.\d+)?)(?![\w.])"
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign>&&|\|\||\+\+|--|[-+*%=!<>]=|!~|[-+*%=!<>~?:,;(){}\[\]$/])"
)
_REGEX = re.compile(r"/(?:[^/\\\n\[]|\\[^\n]|\[[^\]/\\\n]+\])*/")
_BEFORE_REGEX = frozenset(["", "{", "}", ";", "(", ",", "!", "~", "!~", "&&", "||"])
_FUNCTIONS = frozenset(
    ["length", "substr", "index", "split", "sub", "gsub", "match", "sprintf", "tolower", "toupper", "int"]
)
_VARIABLES = frozenset(
    ["BEGIN", "END", "NR", "NF", "FNR", "FS", "OFS", "RS", "ORS", "FILENAME", "RSTART", "RLENGTH", "SUBSEP"]
)
_REFUSED = frozenset(
    ["system", "getline", "close", "fflush", "func", "function", "extension", "strftime", "systime", "switch"]
)
_OTHER_WORDS = frozenset(["do", "return", "break", "continue", "nextfile", "case", "default"])
_KEYWORDS = frozenset(["print", "printf", "if", "else", "for", "in", "while", "next", "exit", "delete"])

_NO_OPERANDS = _FUNCTIONS | _REFUSED | _KEYWORDS | _OTHER_WORDS


def only_prints(program: str) -> bool:
    """Whether a program is made of known parts, none of which writes, runs or opens anything.

    A ``>`` behind ``print`` writes a file; elsewhere it compares. A new line does not end a statement for
    sure, so only braces and semicolons do here. A slash divides behind a value, and is not known elsewhere.

    Args:
        program: The text that awk is given.
    """
    at, before, printing, divides = 0, "", False, False
    while at < len(program):
        regex = _REGEX.match(program, at) if before in _BEFORE_REGEX else None
        found = regex or _TOKEN.match(program, at)
        if found is None:
            return False
        at = found.end()
        token = found.group()
        if regex is None and token.isspace():
            divides = divides and "\n" not in token
            continue
        if found.group() == "/" and not divides:
            return False
        divides = regex is None and _ends_value(found)
        if regex is None and not _is_known(found, program, at, printing=printing):
            return False
        printing = token in ("print", "printf") or (printing and token not in (";", "{", "}"))
        before = token
    return bool(before)


def _ends_value(found: re.Match[str]) -> bool:
    """Whether a slash behind this token divides, in every awk."""
    word = found.group()
    if found["name"] is None:
        return bool(found["number"]) or word == "]"
    return word in _VARIABLES - {"BEGIN", "END"} or (word.islower() and word not in _NO_OPERANDS)


def _is_known(found: re.Match[str], program: str, at: int, *, printing: bool) -> bool:
    word = found.group()
    if found["name"] is None:
        return not (printing and word in (">", ">="))
    if word in _KEYWORDS or word in _FUNCTIONS:
        return True
    if program[at:].lstrip().startswith("("):
        return False
    return word in _VARIABLES or (word.islower() and word not in _REFUSED)
