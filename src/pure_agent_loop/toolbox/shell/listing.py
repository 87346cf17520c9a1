"""What a command prints, where that is known: names of files in the workspace, or a few harmless words."""

from __future__ import annotations

import re

from pure_agent_loop.toolbox.shell.line import Simple

_LISTINGS = frozenset({"find", "ls", "rg", "grep", "git"})
_FILTERS = frozenset({"sort", "uniq", "head", "tail"})
_SHORT = frozenset({"date", "nproc", "seq", "uname", "wc", "whoami"})


def listed(simple: Simple | None) -> str:
    """What is known of a command's output, given that the command itself is allowed.

    Args:
        simple: The command, the last of its pipe.

    Returns:
        ``"names"`` of files below this folder, ``"bare"`` words without a slash or pattern, or nothing.
    """
    if _names(simple):
        return "names"
    texts = [word.text for word in simple.words] if simple is not None else []
    if not texts or simple is None or not all(word.is_literal for word in simple.words):
        return ""
    if texts[0] in _SHORT and not re.search(r"[/*?\[\\]", " ".join(texts)):
        return "bare"
    return "bare" if re.fullmatch(r"git rev-parse (--short |--abbrev-ref )?HEAD", " ".join(texts)) else ""


def _names(simple: Simple | None) -> bool:
    while simple is not None and simple.words and simple.words[0].text in _FILTERS:
        if any(not re.match(r"-|\d+$", word.text) for word in simple.words[1:]):
            return False
        simple = simple.fed_by
    if simple is None or not simple.words or simple.words[0].text not in _LISTINGS:
        return False
    name, texts = simple.words[0].text, [word.text for word in simple.words[1:]]
    prints = any(re.match(r"-\w*o|--only|-\w*[cnHb]", text) for text in texts)
    if name == "grep" and simple.fed_by is not None and not prints:
        return len([text for text in texts if not text.startswith("-")]) <= 1 and _names(simple.fed_by)
    if name == "find":
        return not {"-printf", "-exec", "-ls"} & set(texts)
    if name == "git":
        return _git_names(texts)
    if name == "ls":
        return all(not text.startswith("-") or text == "-1" for text in texts)
    return any(re.fullmatch(r"-\w*l\w*|--files(-with-matches)?", text) for text in texts)


def _git_names(texts: list[str]) -> bool:
    if texts[:1] == ["ls-files"]:
        return not any(re.match(r"-\w*[sut]|--stage|--eol|--unmerged|--format", text) for text in texts)
    if texts[:1] == ["grep"]:
        return any(text in ("-l", "--name-only", "--files-with-matches") for text in texts)
    return texts[:1] == ["diff"] and "--name-only" in texts
