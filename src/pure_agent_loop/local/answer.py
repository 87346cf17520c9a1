"""Turning a tool's result into an answer that is true to it. Pure: no I/O.

The smallest models add what is not there ("17 + 25 = 32"). So a sentence of theirs is used only if it holds
the whole result and no word or number that stands neither in the question nor in the result. Else the result
is shown as it came, and of a long one the lines that are closest to the question.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pure_agent_loop.local.spans import features, has_cjk, similarity
from pure_agent_loop.local.turns import Message, Result
from pure_agent_loop.prompts import CHINESE, ENGLISH

SHORT = 120
_LONG = 1200
_MOST_LINES = 5
_LEAST_SIMILARITY = 0.2
_WORD = re.compile(r"[^\W_]+")
_FREE_WORDS = frozenset(
    re.findall(
        r"\w+",
        "a an the is are was were be of in on at to and or it its there this that these has have "
        "had with says say holds contains result answer equals file files folder directory left",
    )
)
_FAILED = tuple(
    re.compile(re.escape(p.tool_error.split("\n", 1)[0]).replace(re.escape("{tool}"), ".+"))
    for p in (ENGLISH, CHINESE)
)
_SYSTEM = "Answer the question with the result. Use only the result."
_SHOTS = (
    ("How much is 6 times 7?", "42", "6 times 7 is 42"),
    ("What does todo.txt say?", "Buy bread", "todo.txt says: Buy bread"),
    ("What is in the music folder?", "song.mp3\nlist.txt", "The music folder contains: song.mp3, list.txt"),
)


def answer_messages(question: str, results: Sequence[Result]) -> list[Message]:
    """The request for a sentence about the results."""
    messages: list[Message] = [{"role": "system", "content": _SYSTEM}]
    for asked, result, said in _SHOTS:
        messages += [_asked(asked, result), {"role": "assistant", "content": said}]
    return [*messages, _asked(question, "\n".join(r.text.strip() for r in results))]


def _asked(question: str, result: str) -> Message:
    return {"role": "user", "content": f"Question: {question}\nResult: {result}"}


def worth_a_sentence(results: Sequence[Result]) -> bool:
    """True for a result that fits in a sentence."""
    text = "".join(r.text for r in results).strip()
    return 0 < len(text) <= SHORT and not any(has_failed(r) for r in results)


def is_true_to(said: str, question: str, results: Sequence[Result]) -> bool:
    """True if a sentence holds every line of the results, and nothing else that is not in the question."""
    lines = [line.strip() for r in results for line in r.text.splitlines() if line.strip()]
    if not lines or not all(re.search(rf"(?<![\w.]){re.escape(line)}(?![\w]|\.\d)", said) for line in lines):
        return False
    known = _words(question) | {word for line in lines for word in _words(line)} | _FREE_WORDS
    return _words(said) <= known and _words(said) > {word for line in lines for word in _words(line)}


def _words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(text)}


def has_failed(result: Result) -> bool:
    """True if the loop reports that the tool failed."""
    first = result.text.strip().split("\n", 1)[0]
    return any(pattern.fullmatch(first) for pattern in _FAILED)


def plain_answer(question: str, results: Sequence[Result]) -> str:
    """The results themselves, each with what it is the result of."""
    chinese = has_cjk(question)
    return "\n\n".join(_told(question, result, chinese) for result in results)


def _told(question: str, result: Result, chinese: bool) -> str:
    text = result.text.strip()
    if has_failed(result):
        return f"{result.call} 没有成功。\n{text}" if chinese else f"{result.call} did not work.\n{text}"
    if not text:
        return f"{result.call}：没有内容。" if chinese else f"{result.call} gave back nothing."
    if set(result.arguments) == {"expression"} and "\n" not in text:
        return f"{result.arguments['expression']} = {text}"
    lead = f"{result.call} 的结果" if chinese else f"Result of {result.call}"
    if len(text) <= _LONG:
        return f"{lead}{'：' if chinese else ':'}\n{text}"
    part, note = _excerpt(question, text), "（节选）：" if chinese else " (an excerpt):"
    return f"{lead}{note}\n{part}"


def _excerpt(question: str, text: str) -> str:
    """The few lines that share most words with the question, in their order; else the beginning."""
    lines = [line for line in text.splitlines() if line.strip()]
    wanted = features(question)
    ranked = sorted(((similarity(wanted, features(line)), -i) for i, line in enumerate(lines)), reverse=True)
    best = sorted(-i for score, i in ranked[:_MOST_LINES] if score >= _LEAST_SIMILARITY)
    if best:
        return "\n".join(lines[i] for i in best)
    return text[:_LONG].rsplit("\n", 1)[0] + "\n..."
