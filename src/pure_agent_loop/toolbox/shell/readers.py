"""Commands with a language of their own, of which only a small part is known to be harmless."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from pure_agent_loop.toolbox.shell.awk import only_prints
from pure_agent_loop.toolbox.shell.commands import COMMANDS, Command
from pure_agent_loop.toolbox.shell.git import GIT, GIT_EXACT, GIT_GLOBAL
from pure_agent_loop.toolbox.shell.options import (
    Surroundings,
    objection,
    path_objection,
    text_objection,
    value_objection,
)
from pure_agent_loop.toolbox.shell.words import Word

_CONVERSION = re.compile(r"%(%|[-+ #0-9.*]*[sdiuoxXfFeEgGcbq])")
_ADDRESS = r"(?:\d+|\$|/(?:[^/\\\n]|\\[^\n])*/I?)"
_COMMAND = (
    r"(?:[pd=]|q|Q|y/[^/\\\n]*/[^/\\\n]*/|s/(?:[^/\\\n]|\\[^\n])*/(?:[^/\\\n]|\\[^\n])*/[gpiI0-9]*"
    r"|s\|(?:[^|\\\n]|\\[^\n])*\|(?:[^|\\\n]|\\[^\n])*\|[gpiI0-9]*"
    r"|s#(?:[^#\\\n]|\\[^\n])*#(?:[^#\\\n]|\\[^\n])*#[gpiI0-9]*"
    r"|s,(?:[^,\\\n]|\\[^\n])*,(?:[^,\\\n]|\\[^\n])*,[gpiI0-9]*)"
)
_SED_STEP = (
    rf"\s*(?:{_ADDRESS}(?:,(?:{_ADDRESS}|[+~]\d+))?\s*!?\s*)?(?:{_COMMAND}|\{{\s*{_COMMAND}\s*;?\s*\}})\s*"
)
_SED = re.compile(rf"{_SED_STEP}(?:;{_SED_STEP})*;?\s*")
_SED_OPTIONS = Command(
    "nErsuz", "e", "", "", "quiet silent regexp-extended expression= separate null-data", text=1,
    pattern="-e --expression",
)  # fmt: skip
_AWK_OPTIONS = Command("", "Fv", operands="paths", text=1, any_option=True)  # no options behind the program
_AWK_VARIABLE = re.compile(r"(?:-v)?[a-z_][a-z0-9_]*=.*", re.S)
_JQ_OPTIONS = Command(
    "rcensSMCRja", "", long="raw-output compact-output exit-status null-input slurp sort-keys "
    "monochrome-output "
    "color-output raw-input join-output ascii-output tab", text=1, any_option=False,
)  # fmt: skip
_JQ_TEXT = re.compile(r'"(?:[^"\\]|\\[nt"\\]|\\\([^()"\\]*\))*"')
_JQ_INSERTED = re.compile(r"\\\(([^()\"\\]*)\)")
_JQ_WORDS = frozenset(
    [
        "keys",
        "length",
        "map",
        "select",
        "has",
        "type",
        "to_entries",
        "from_entries",
        "with_entries",
        "sort",
        "sort_by",
        "group_by",
        "unique",
        "unique_by",
        "add",
        "any",
        "all",
        "flatten",
        "range",
        "floor",
        "tostring",
        "tonumber",
        "ascii_downcase",
        "ascii_upcase",
        "test",
        "match",
        "split",
        "join",
        "contains",
        "inside",
        "startswith",
        "endswith",
        "first",
        "last",
        "nth",
        "limit",
        "min",
        "max",
        "min_by",
        "max_by",
        "reverse",
        "empty",
        "not",
        "and",
        "or",
        "if",
        "then",
        "elif",
        "else",
        "end",
        "as",
        "null",
        "true",
        "false",
        "paths",
        "del",
        "keys_unsorted",
        "values",
        "tojson",
        "fromjson",
        "map_values",
        "ltrimstr",
        "rtrimstr",
        "index",
        "tojson",
        "reduce",
        "foreach",
        "try",
        "catch",
        "def",
        "recurse",
        "objects",
        "arrays",
        "strings",
        "numbers",
        "booleans",
        "scalars",
        "nulls",
        *("in", "indices", "path", "getpath", "round", "ceil", "sub", "gsub", "scan", "capture", "splits"),
        *("tostream", "transpose", "walk", "while", "until", "isempty", "error", "todate", "inputs", "input"),
    ]
)
_GIT_READS = re.compile(r"git remote get-url [A-Za-z][\w.-]*|git config [A-Za-z][\w-]*\.[\w.-]*\w")
_UNARY = frozenset(
    ["-f", "-d", "-e", "-r", "-w", "-x", "-s", "-L", "-h", "-z", "-n", "-S", "-p", "-b", "-c", "-t"]
)
_BINARY = frozenset(["=", "==", "!=", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef"])
_PS = re.compile(r"-?(?:aux?|ax|auxf|auxw+)|-[eAfFlj]+|--forest|--no-headers|--sort=-?%?\w+")


def printf(words: Sequence[Word], around: Surroundings) -> str | None:
    """A format that only prints; `%n` and `-v` would set variables."""
    rest = list(words[1:])
    if rest and rest[0].text == "--":
        rest = rest[1:]
    elif rest and rest[0].may_be_option:
        return f"the option {rest[0].raw} is not known to be harmless"
    if rest and (not rest[0].is_literal or "%" in _CONVERSION.sub("", rest[0].text)):
        return f"the format {rest[0].raw} is not known to be harmless"
    return next((said for word in rest for said in [text_objection(word, around)] if said), None)


def test(words: Sequence[Word], _around: Surroundings) -> str | None:
    """Tests of files and texts; `-v` and arithmetic would evaluate what they are given."""
    name, rest = words[0].text, list(words[1:])
    closing = {"[": "]", "[[": "]]"}.get(name)
    if closing is not None and (not rest or rest.pop().text != closing):
        return f"{name} without {closing}"
    if name != "[[" and any(word.splits or any(p.kind == "glob" for p in word.parts) for word in rest):
        return "a test of something that may become any words"
    steps: list[list[Word]] = [[]]
    for word in rest:
        if word.is_plain and word.text in (("&&", "||") if name == "[[" else ("-a", "-o")) and steps[-1]:
            steps.append([])
        else:
            steps[-1].append(word)
    if name != "[[" and len(steps) > 1 and not all(word.is_literal for word in rest):
        return "a test with several parts and values that are not known"
    return next((said for step in steps for said in [_test_step(name, step)] if said), None)


def _test_step(name: str, step: list[Word]) -> str | None:
    unary = len(step) == 3 and step[1].is_plain and step[1].text in _UNARY
    if step and step[0].is_plain and step[0].text == "!" and (len(step) != 3 or unary):
        step = step[1:]
    if len(step) == 2 and step[0].is_plain and step[0].text in _UNARY:
        return value_objection(step[1])
    if len(step) == 3 and step[1].is_plain and step[1].text in _BINARY:
        if name == "[[" and step[1].text.startswith("-") and not all(w.text.isdigit() for w in step[::2]):
            return "arithmetic on something that is not a number"
        return value_objection(step[0]) or value_objection(step[2])
    if len(step) == 1 and step[0].is_literal:
        return None
    return "a test that is not known to be harmless"


def sed(words: Sequence[Word], around: Surroundings) -> str | None:
    """Printing, deleting and replacing in what is shown; no file is written and nothing run."""
    scripts, said = _scripts(words, "-e", "--expression")
    if said:
        return said
    if any(not script.is_literal or not _SED.fullmatch(script.text) for script in scripts):
        return "the script is not one of the few that are known only to print"
    return objection(_SED_OPTIONS, words[1:], around)


def _scripts(words: Sequence[Word], short: str, long: str) -> tuple[list[Word], str | None]:
    """The scripts among a command's words: those behind the option, or the first operand."""
    found, operands = [], []
    rest = iter(words[1:])
    for word in rest:
        text = word.text
        if text in (short, long):
            following = next(rest, None)
            found += [following] if following else []
        elif text.startswith((f"{long}=",)) or re.match(rf"-\w*{short[1]}", text):
            return [], f"write the script apart from the option in {word.raw}"
        elif not word.head.startswith("-"):
            operands.append(word)
    return found or operands[:1], None if found or operands else "no script"


def awk(words: Sequence[Word], around: Surroundings) -> str | None:
    """Programs that only compute and print."""
    rest = list(words[1:])
    script: Word | None = None
    for at, word in enumerate(rest):
        before = rest[at - 1].text if at else ""
        sets = word if before == "-v" or (word.head.startswith("-v") and word.text != "-v") else None
        if sets and not (sets.is_literal and _AWK_VARIABLE.fullmatch(sets.text)):
            return f"{sets.raw} sets a variable that is not known to be harmless"
        if before in ("-F", "-v"):
            continue
        if not word.head.startswith("-"):
            script = word
            break
    if script is None or not script.is_literal or not only_prints(script.text):
        return "only programs that compute and print are known to be harmless"
    behind = rest[rest.index(script) + 1 :]
    if any("=" in word.text or (word.is_literal and word.may_be_option) for word in behind):
        return "an operand that sets a variable"
    return objection(_AWK_OPTIONS, rest, around)


def jq(words: Sequence[Word], around: Surroundings) -> str | None:
    """Filters made of known functions: others read the environment, or more files."""
    words = list(words)
    given: set[str] = set()
    while at := next((n for n, word in enumerate(words) if word.text in ("--arg", "--argjson")), 0):
        name = words[at + 1].text if len(words) > at + 2 else ""
        if not re.fullmatch(r"[a-z]+", name) or not all(word.is_literal for word in words[at : at + 3]):
            return "what is given to the filter is not known"
        given.add(name)
        del words[at : at + 3]
    program = next((word for word in words[1:] if not word.head.startswith("-")), None)
    if program is None or not program.is_literal:
        return "the filter is not known"
    bare = _JQ_TEXT.sub(lambda found: " ".join(['""', *_JQ_INSERTED.findall(found[0])]), program.text)
    if "#" in bare:
        return "a comment in the filter"
    if re.search(r"[\\$@?#]\(|\\|\$(?![a-z]+\b)|\$(env|__)|::", bare) or "$ENV" in bare:
        return "the filter is not one of those known to be harmless"
    unknown = [name for name in re.findall(r"(?<![.\w$@])[A-Za-z_]\w*", bare) if name not in _JQ_WORDS]
    if unknown:
        return f"the filter's {unknown[0]} is not known to be harmless"
    return objection(_JQ_OPTIONS, words[1:], around)


def ps(words: Sequence[Word], _around: Surroundings) -> str | None:
    """The usual lists of processes; other options show their environment."""
    odd = next((word.raw for word in words[1:] if not word.is_literal or not _PS.fullmatch(word.text)), None)
    return f"the option {odd} is not known to be harmless" if odd else None


def tar(words: Sequence[Word], around: Surroundings) -> str | None:
    """The table of one archive beside us."""
    texts = [word.text for word in words[1:]]
    if len(texts) != 2 or not re.fullmatch(r"-?(?=\w*t)[tvzjJ]*f", texts[0]) or ":" in texts[1]:
        return "only the listing of one archive (tar -tf FILE) is known to be harmless"
    if any(not word.is_literal for word in words) or words[2].may_be_option:
        return "the archive's name is not known"
    return path_objection(words[2], around)


def cd(words: Sequence[Word], around: Surroundings) -> str | None:
    """Into a folder below this one."""
    rest = [word for word in words[1:] if word.text not in ("--", "-P", "-L")]
    if len(rest) != 1 or not rest[0].is_literal or rest[0].text in ("", "-"):
        return "where it leads is not known"
    return objection(COMMANDS["cd"], words[1:], around)


def date(words: Sequence[Word], around: Surroundings) -> str | None:
    """Showing the date; an operand without a plus sign would set it."""
    said = objection(COMMANDS["date"], words[1:], around)
    rest, skip = [], False
    for word in words[1:]:
        if not skip and not word.head.startswith("-"):
            rest.append(word)
        skip = not skip and word.text in ("-d", "-r", "--date", "--reference", "--rfc-3339")
    if said is None and any(not word.head.startswith("+") for word in rest):
        return "it may set the clock"
    return said


def git(words: Sequence[Word], around: Surroundings) -> str | None:
    """Subcommands that only look, with options that only choose what is shown."""
    rest = list(words[1:])
    while rest and rest[0].is_literal and rest[0].text in GIT_GLOBAL:
        rest = rest[1:]
    if not rest or not rest[0].is_plain:
        return "the subcommand is not known"
    name, rest = rest[0].text, rest[1:]
    if name in ("stash", "worktree") and rest and rest[0].is_plain:
        name, rest = f"{name} {rest[0].text}", rest[1:]
    if name == "reflog" and rest and rest[0].text == "show":
        rest = rest[1:]
    elif name == "reflog" and rest and not rest[0].head.startswith(("-", "HEAD")):
        return "the subcommand is not known to be harmless"
    if name in ("branch", "tag") and any(_lists(word) for word in rest):
        return objection(_as_text(GIT[name]), rest, around)
    if _only_reads(name, rest):
        return None
    if name not in GIT:
        return f"git {name} is not known to be harmless"
    return objection(GIT[name], rest, around)


def _only_reads(name: str, rest: Sequence[Word]) -> bool:
    """Whether a subcommand that could also write is called in a form that does not."""
    text = " ".join([f"git {name}", *(word.text for word in rest)])
    if not all(word.is_plain for word in rest):
        return False
    return text in GIT_EXACT or bool(_GIT_READS.fullmatch(text))


def _lists(word: Word) -> bool:
    """Whether an option makes `git branch` and `git tag` list, so that operands are patterns."""
    return word.is_literal and word.text in (
        "--list",
        "-l",
        "--contains",
        "--merged",
        "--no-merged",
        "--points-at",
    )


def _as_text(command: Command) -> Command:
    return Command(command.short + "l", command.takes, "", command.optional, command.long, operands="text")


_SET = re.compile(r"set(?: [-+][euxf]+| [-+][eux]*o (?:pipefail|errexit|nounset|xtrace))+")
_SHOPT = re.compile(r"shopt(?: -[su])(?: (?:globstar|nullglob|dotglob|nocaseglob|failglob))+")


def setting(words: Sequence[Word], _around: Surroundings) -> str | None:
    """The shell's options that only say when it stops and what a pattern finds."""
    text = " ".join(word.text for word in words)
    plain = all(word.is_plain for word in words)
    return None if plain and (_SET.fullmatch(text) or _SHOPT.fullmatch(text)) else "it changes the shell"


def listing(words: Sequence[Word], around: Surroundings) -> str | None:
    """The packages that are installed here; what asks a registry about newer ones is not known."""
    if len(words) < 2 or not words[1].is_plain or words[1].text not in ("list", "ls", "show", "freeze"):
        return "only the listing of packages is known to be harmless"
    name = "npm" if words[0].text == "npm" else "pip"
    if (name, words[1].text) in (("npm", "show"), ("npm", "freeze"), ("pip", "ls")):
        return "it asks a registry"
    return objection(_PACKAGES[name], words[2:], around)


_PACKAGES = {
    "npm": Command("ag", long="depth= all global json long parseable", operands="text"),
    "pip": Command(
        "fle", long="format= local user editable exclude-editable not-required files all", operands="text"
    ),
}


Reader = Callable[[Sequence[Word], Surroundings], "str | None"]

READERS: dict[str, Reader] = {
    "printf": printf,
    "test": test,
    "[": test,
    "[[": test,
    "sed": sed,
    "awk": awk,
    "gawk": awk,
    "mawk": awk,
    "jq": jq,
    "ps": ps,
    "tar": tar,
    "cd": cd,
    "date": date,
    "git": git,
    "set": setting,
    "shopt": setting,
    "pip": listing,
    "pip3": listing,
    "npm": listing,
}
"""The commands read here, each with what speaks against running it unasked."""
