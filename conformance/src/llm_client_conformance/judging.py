"""Judgement of client programs: in each scene a program is right, wrong or hung, with the reason."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from dataclasses import dataclass
from typing import Literal

from llm_client_conformance.programs import BadOutput, Ended, end_programs, result_of, run_program, variables
from llm_client_conformance.quirks import Quirk, check
from llm_client_conformance.scenes import Scene
from llm_client_conformance.scripted.server import ScriptedServer
from llm_client_conformance.values import LLMError

Word = Literal["right", "wrong", "hung"]
WORDS: tuple[Word, ...] = ("right", "wrong", "hung")
_SHOWN = 200


@dataclass(frozen=True)
class Verdict:
    """Judgement of one scene.

    Args:
        scene: The scene.
        word: The result: ``right``, ``wrong`` or ``hung``.
        reason: Why the program is not right; empty if it is.
    """

    scene: Scene
    word: Word
    reason: str = ""


@dataclass(frozen=True)
class Terms:
    """Conditions of a check.

    Args:
        deadline: Seconds after which a program is stopped and counts as hung.
        timeout: Seconds without data that a program should tolerate.
        rechunk: Bytes of the pieces of streamed bodies; None for whole events.
        any_error: True if an error of any kind is right where an error is expected.
    """

    deadline: float = 30.0
    timeout: float = 2.0
    rechunk: int | None = None
    any_error: bool = False


def judge(scene: Scene, command: Sequence[str], terms: Terms) -> Verdict:
    """Run a client program in a scene, and judge the result.

    Args:
        scene: The scene.
        command: Program and arguments.
        terms: Deadline and further terms.

    Raises:
        OSError: The program cannot be started.
    """
    server = scene.make(terms.rechunk)
    server.start()
    try:
        ended = run_program(command, variables(scene, server, terms.timeout), terms.deadline)
        reasons = list(_reasons(scene, server, ended, terms))
    finally:
        server.close()
    if ended.code is None and not ended.is_flood:
        return Verdict(scene, "hung", f"no end after {terms.deadline:g} s")
    return Verdict(scene, "wrong" if reasons else "right", "; ".join(reasons))


def _reasons(scene: Scene, server: ScriptedServer, ended: Ended, terms: Terms) -> Iterator[str]:
    """Yield the faults of a program that has ended."""
    if ended.is_flood:
        yield "the program printed more than 16 MB"
        return
    if not server.requests:
        yield f"no request came{_last_words(ended)}"
        return
    yield from server.violations
    try:
        result, missing = result_of(ended.output)
    except BadOutput as problem:
        yield f"{problem}{_last_words(ended)}"
        return
    if isinstance(result, LLMError) and scene.accepts:
        if result.kind not in scene.accepts and not terms.any_error:
            yield f"expected an error of kind {' or '.join(scene.accepts)}, got {result.kind}"
        return
    ignore = {*missing, *(("calls", "reasoning", "finish_reason", "usage") if scene.kind != "reply" else ())}
    yield from check(Quirk(scene.name, scene.why, b"", scene.expected), result, ignore=ignore)
    if scene.kind == "conversation" and server.remaining:
        yield f"{server.remaining} of the server's answers were not requested"


def _last_words(ended: Ended) -> str:
    lines = ended.errors.decode("utf-8", "replace").strip().splitlines()
    said = f": {lines[-1][:_SHOWN]}" if lines else ""
    return f" (exit status {ended.code}{said})"


def judge_all(
    scenes: Iterable[Scene],
    command: Sequence[str],
    terms: Terms,
    jobs: int,
    tell: Callable[[Verdict], None] = lambda _: None,
) -> list[Verdict]:
    """Judge a client program in each scene, several at a time; return the verdicts in the order of scenes.

    Args:
        scenes: The scenes.
        command: Program and arguments.
        terms: Deadline and further terms.
        jobs: Number of programs that run at the same time.
        tell: Function called with each verdict, by one thread at a time.

    Raises:
        OSError: The program cannot be started.
        KeyboardInterrupt: Ctrl-C was pressed; scenes that have not started are skipped.
    """
    scenes, lock = list(scenes), threading.Lock()

    def judged(scene: Scene) -> Verdict:
        verdict = judge(scene, command, terms)
        with lock:
            tell(verdict)
        return verdict

    waiting: list[Future[Verdict]] = []
    with ThreadPoolExecutor(jobs) as pool:
        try:
            waiting += (pool.submit(judged, scene) for scene in scenes)
            for done in as_completed(waiting):
                done.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            while not all(map(Future.done, waiting)):  # a program may start after others were ended
                end_programs()
                wait(waiting, timeout=0.1)
            raise
    return [future.result() for future in waiting]
