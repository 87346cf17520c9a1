"""What a question offers as arguments: its paths, numbers, sums and words. Pure: no model, no I/O.

The smallest models copy badly. Where an argument can be copied from the question, they choose among its
pieces instead of writing it.
"""

from __future__ import annotations

import re

Features = frozenset[str]

_TOKEN = re.compile(r"[A-Za-z0-9_.\-/\\~]+|[\u3400-\u9fff]+|[-+*/^%=×÷]")
_NUMBER = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?")
_SUM = re.compile(r"[(\d][\d\s.,+\-*/%^()×÷x]*[\d)]")
_OPERATOR = re.compile(r"\d\s*\)*\s*[-+*/%^×÷x]")
_PERCENT_OF = re.compile(r"(\d+(?:\.\d+)?)\s*(?:%|percent|per cent)\s+of\s+(\d+(?:\.\d+)?)", re.IGNORECASE)
_FILE = re.compile(r".*\w\.[A-Za-z]\w{0,7}|\.[A-Za-z]\w+")
_HERE = re.compile(
    r"\b(?:here|(?:this|current|working|present)\s+(?:folder|directory|dir|project))\b|这里|当前|这个(?:文件夹|目录)",
    re.IGNORECASE,
)
_CJK = re.compile(r"[\u3400-\u9fff]")
_QUOTED = re.compile(r"[\"“「']([^\"”」']+)[\"”」'](?!\w)")
_WEAK = frozenset(re.findall(r"\w+", "a an the of to is are was in on at it me my i we you"))
# Words that a question about files is made of, and that are hardly ever the name of one.
_NO_NAMES = _WEAK | frozenset(
    re.findall(
        r"\w+",
        "us our your he she they this that these those there here what which who whose how many "
        "much do does did can could will would please show tell list read open print give get look "
        "see say says has have and or for with from by about into inside file files folder folders "
        "directory directories content contents name names everything all any called text written "
        "first last line lines explain summarise summarize find make let be if not no yes some",
    )
)
_KINDS_WEIGHT, _WEAK_WEIGHT = 2.0, 0.3
_MOST_SPANS = 60
_LONGEST_SPAN = 5


def has_cjk(text: str) -> bool:
    """True if there is Chinese, Japanese or Korean Han text in it."""
    return bool(_CJK.search(text))


def name_words(text: str) -> list[str]:
    """The words of a name, in lower case."""
    split = re.sub(r"([a-z])([A-Z])", r"\1 \2", text)
    return [word.lower() for word in re.findall(r"[A-Za-z]+", split)]


def tokens(text: str) -> list[str]:
    """Words, paths and signs of a text, without the punctuation around them."""
    found = (token.rstrip(".-").lstrip("-") or token for token in _TOKEN.findall(text))
    return [token for token in found if token.strip(".\\") or token in ("-", ".")]


def features(text: str) -> Features:
    """What two questions can have in common: words without a plural s, and the kinds of their tokens."""
    found: set[str] = set()
    for token in tokens(text):
        if has_cjk(token):
            found.update(token[i : i + 2] for i in range(max(1, len(token) - 1)))
        else:
            found.add(_kind(token) or token.lower().rstrip("s") or token)
    return frozenset(found)


def _kind(token: str) -> str | None:
    if re.fullmatch(r"[-+*/^%=×÷]", token):
        return "<sign>"
    if re.fullmatch(r"[\d.,*/+\-]*\d[\d.,*/+\-]*", token):
        return "<number>"
    if _FILE.fullmatch(token):
        return "<file>"
    return "<path>" if "/" in token or "\\" in token else None


def similarity(a: Features, b: Features) -> float:
    """How much two feature sets share, from 0 to 1."""
    shared: float = _weight(a & b) / (_weight(a) * _weight(b) or 1.0) ** 0.5
    return shared


def _weight(features: Features) -> float:
    return sum(_KINDS_WEIGHT if f.startswith("<") else _WEAK_WEIGHT if f in _WEAK else 1.0 for f in features)


def numbers(text: str) -> list[str]:
    """The numbers of a text in order, without thousands separators."""
    return [n.replace(",", "") for n in _NUMBER.findall(text)]


def written_sum(text: str) -> str | None:
    """A sum that stands in the text as such, in Python's signs: ``3×4`` gives ``3*4``."""
    percent = _PERCENT_OF.search(text)
    if percent:
        return f"{percent[1]} / 100 * {percent[2]}"
    for found in _SUM.findall(text):
        if _OPERATOR.search(found) and found.count("(") == found.count(")"):
            signs = found.replace("^", "**").replace("×", "*").replace("÷", "/").replace("x", "*")
            return re.sub(r"(?<=\d),(?=\d{3})", "", signs).strip(" .,")
    return None


def sum_pattern(text: str) -> str | None:
    """A regular expression for the sums that can be made of the numbers in a text, or None without any."""
    found = [re.escape(n) for n in numbers(text)]
    if not found:
        return None
    if len(found) == 1:
        return rf"^{found[0]} (\*\* 2|\*\* 3|\* 2|/ 2|/ 100)$"
    sign = r" (\+|-|\*|/|\*\*) "
    return f"^({sign.join(found)}|{sign.join(reversed(found))})$"


def paths(text: str, default: str | None = None, folders_only: bool = False) -> list[str]:
    """What in a text may be the path that is asked about.

    Args:
        text: The question.
        default: What the argument is if the text names nothing; added as the last choice.
        folders_only: Leave out what looks like a file, if anything else is there.
    """
    words = [t for t in _unique(tokens(text)) if re.search(r"\w", t) and not has_cjk(t)]
    clear = [w for w in words if re.search(r"[./\\_~]", w) and not _NUMBER.fullmatch(w)]
    if folders_only:
        clear = [w for w in clear if not _FILE.fullmatch(w)]
    if not clear and default is not None and _HERE.search(text):
        return [default]
    found = clear or [w for w in words if w.lower() not in _NO_NAMES]
    if folders_only:
        found = [w for w in found if not _FILE.fullmatch(w)] or found
    return found if default is None or default in found else [*found, default]


def phrases(text: str) -> list[str]:
    """Pieces of a text that may be an argument: what is quoted, else its runs of up to five words."""
    quoted = [q.strip() for q in _QUOTED.findall(text) if q.strip()]
    if quoted:
        return _unique(quoted)[:_MOST_SPANS]
    words = [w.strip(".,;:!?\"'()。，？！；：") for w in text.split()]
    words = [w for w in words if w]
    found = []
    for length in range(1, _LONGEST_SPAN + 1):
        for start in range(len(words) - length + 1):
            run = words[start : start + length]
            if run[0].lower() not in _NO_NAMES and run[-1].lower() not in _NO_NAMES:
                found.append(" ".join(run))
    return (_unique(found) or _unique([text.strip()]))[:_MOST_SPANS]


def _unique(items: list[str]) -> list[str]:
    return list(dict.fromkeys(items))
