"""Rules for session stores, to run against a custom store.

    from pure_agent_loop.testing import check_store

    def test_my_store():
        check_store(lambda folder: MyStore(folder / "sessions"))

With pytest, ``@pytest.mark.parametrize("rule", STORE_RULES)`` and ``check_store(make, rules=[rule])`` create
one test per rule.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from pure_agent_loop.errors import (
    ConfigError,
    PureAgentLoopError,
    SessionLockedError,
    SessionNotFoundError,
)
from pure_agent_loop.sessions.store import SessionStore, append_all
from pure_agent_loop.sessions.stores.records import Record
from pure_agent_loop.testing.gate import ScriptError

MakeStore = Callable[[Path], SessionStore]

_ODD_DATA: dict[str, Any] = {
    "line separators": "\n \r \u2028 \u2029 \u0085 \x0b \x0c \x1c",
    "nothing": "\0\0",
    "half a character": "\ud800 and \udfff",
    "a split surrogate pair": "\ud83d\ude00",
    "far": "𝔘🙂",
    "like a record": '{"id":"00000001","parent":null,"time":1,"type":"x","data":{}}\n',
    "nested": {"id": "00000001", "parent": None, "time": 1, "type": "x", "data": {"crc": "00000000"}},
    "numbers": [0, -1, 2**80, 1e-300, 0.1, float("inf"), True, None],
    "foreign": {1: b"bytes", "set": {1}},
    "": "",
}
_BAD_IDS: list[Any] = [
    "",
    " ",
    "a\n",
    "a\0",
    "x" * 201,
    "\ud800",
    None,
    7,
    b"a",
]
_GOOD_IDS = ["a", "A-1", "a.b", "a.jsonl", "a.lock", "a.torn", "-", "_", "x" * 64, "20260131-142501-9f3a1c5e"]
_THREADS, _APPENDS = 4, 25


def check_store(make_store: MakeStore, *, rules: Iterable[str] | None = None) -> None:
    """Run the rules against a store.

    Args:
        make_store: Function that creates a store for an existing empty folder; a store without files can use
            the folder's path as a name. Two stores created for the same folder must share their sessions.
        rules: Rules to check, from `STORE_RULES`; None for all.

    Raises:
        ScriptError: A rule is broken. The message names the rule.
    """
    for name in STORE_RULES if rules is None else rules:
        with tempfile.TemporaryDirectory(prefix="store-") as folder:
            try:
                _RULES[name](make_store, Path(folder).resolve())
            except ScriptError as error:
                raise ScriptError(f"The store breaks the rule {name!r}: {error}") from error
            except PureAgentLoopError as error:
                kind = type(error).__name__
                raise ScriptError(f"The store breaks the rule {name!r}: it raised {kind}: {error}") from error


def need(holds: bool, otherwise: str) -> None:
    """Raise `ScriptError` with these words unless a condition holds."""
    if not holds:
        raise ScriptError(otherwise)


def _need_error(kind: type[Exception], action: str, act: Callable[[], object]) -> Exception:
    try:
        act()
    except kind as error:
        return error
    except Exception as error:
        raise ScriptError(
            f"{action} raised {type(error).__name__} ({error}); expected {kind.__name__}"
        ) from error
    raise ScriptError(f"{action} raised no error; expected {kind.__name__}")


def _need_records(store: SessionStore, session_id: str, expected: list[Record]) -> None:
    loaded = store.read(session_id)
    need(list(loaded.records) == expected, f"read returned {loaded.records}, but append returned {expected}")
    need(not loaded.problems, f"nothing is damaged, but read reports {loaded.problems}")


def _records_come_back(make: MakeStore, folder: Path) -> None:
    store = make(folder)
    with store.open("s") as log:
        written = [log.append("user", {"n": number}, durable=number % 2 == 0) for number in range(5)]
    need(
        [record.data for record in written] == [{"n": number} for number in range(5)],
        "append changed its argument data",
    )
    parents = [None, *(record.id for record in written[:-1])]
    need([record.parent for record in written] == parents, "each record must follow the one before")
    need([record.id for record in written] == sorted({record.id for record in written}), "ids must sort")
    _need_records(store, "s", written)
    _need_records(make(folder), "s", written)


def _several_at_once(make: MakeStore, folder: Path) -> None:
    """Append several records at once, as a run does: in one commit if the log supports it."""
    store = make(folder)
    with store.open("s") as log:
        written = append_all(log, [("user", {"n": number}) for number in range(3)], durable=True)
        written += append_all(log, [("user", {"n": number}) for number in range(2)], durable=False)
    _need_records(make(folder), "s", written)


def _odd_data_survives(make: MakeStore, folder: Path) -> None:
    store = make(folder)
    with store.open("s") as log:
        written = [log.append("odd", {"text": _ODD_DATA[name]}) for name in _ODD_DATA]
        written += [log.append("odd", _ODD_DATA), log.append("empty", {})]
        written.append(log.append("long", {"text": "é\n" * 500_000}))
    need(written[3].data == {"text": "😀"}, "a surrogate pair must become one character")
    _need_records(store, "s", written)


def _reopened_session_continues(make: MakeStore, folder: Path) -> None:
    written: list[Record] = []
    for number in range(3):
        with make(folder).open("s", create=number == 0) as log:
            need(list(log.records) == written, f"an opened log has {log.records}, not {written}")
            need(not log.problems, f"nothing is damaged, but the log reports {log.problems}")
            written += [log.append("user", {"n": number}), log.append("user", {"n": number})]
    need(len({record.id for record in written}) == len(written), "two records have the same id")
    need(written[2].parent == written[1].id, "the first new record must follow the newest old one")
    _need_records(make(folder), "s", written)


def _parents_make_a_tree(make: MakeStore, folder: Path) -> None:
    with make(folder).open("s") as log:
        first = log.append("user", {})
        log.append("user", {})
        branch = log.append("user", {}, parent=first.id)
        need(branch.parent == first.id, "append(parent=...) must set the parent")
        need(log.append("user", {}).parent == branch.id, "append without parent= must use the newest record")
        _need_error(
            ConfigError, "append with a missing parent", lambda: log.append("user", {}, parent="9999")
        )


def _wrong_values_are_refused(make: MakeStore, folder: Path) -> None:
    store = make(folder)
    with store.open("s") as log:
        bad: Any
        for bad in ("", "Two words", "a\n", "é", "x" * 65, None, 5):
            _need_error(ConfigError, f"type={bad!r}", partial(log.append, bad, {}))
        for bad in (None, [], "text", 5):
            _need_error(ConfigError, f"data={bad!r}", partial(log.append, "x", bad))
        written = log.append("good", {})
    _need_records(store, "s", [written])


def _one_writer(make: MakeStore, folder: Path) -> None:
    store, other = make(folder), make(folder)
    with store.open("s") as log:
        for second in (store, other):
            error = _need_error(SessionLockedError, "a second open", partial(second.open, "s"))
            need(
                str(os.getpid()) in str(error),
                f"the error must name the process that holds the lock: {error}",
            )
        written = [log.append("user", {}, durable=True)]
        _need_records(other, "s", written)
        _need_error(SessionLockedError, "delete of an open session", lambda: other.delete("s"))
        with other.open("t") as free:
            free.append("user", {})
    with other.open("s") as log:
        written.append(log.append("user", {}))
    _need_records(store, "s", written)


def _a_closed_log_is_closed(make: MakeStore, folder: Path) -> None:
    log = make(folder).open("s")
    log.append("user", {})
    log.close()
    log.close()
    _need_error(ConfigError, "append to a closed log", lambda: log.append("user", {}))
    need(len(log.records) == 0, "log.records must stay as they were when the log was opened")


def _ids_are_checked(make: MakeStore, folder: Path) -> None:
    store = make(folder)
    for bad in _BAD_IDS:
        for act in (store.open, store.read, store.delete, store.exists):
            _need_error(ConfigError, f"{act.__name__}({bad!r})", partial(act, bad))
    need(not store.list(), "a rejected id created a session")


def _sessions_stay_apart(make: MakeStore, folder: Path) -> None:
    store = make(folder)
    written = {}
    logs = {session_id: store.open(session_id) for session_id in _GOOD_IDS}
    for session_id, log in logs.items():
        written[session_id] = [log.append("user", {"to": session_id})]
    for log in logs.values():
        log.close()
    for session_id in _GOOD_IDS:
        _need_records(store, session_id, written[session_id])
    need(sorted(info.id for info in store.list()) == sorted(_GOOD_IDS), "list must name each session once")


def _what_is_missing_is_said(make: MakeStore, folder: Path) -> None:
    store = make(folder)
    for _ in range(2):
        need(not store.exists("s"), "exists is true for a missing session")
        _need_error(SessionNotFoundError, "open(create=False)", lambda: store.open("s", create=False))
        _need_error(SessionNotFoundError, "read", lambda: store.read("s"))
        _need_error(SessionNotFoundError, "delete", lambda: store.delete("s"))
        need(not store.list(), "list() returned a missing session")
        store.open("other").close()  # check again with a session in the store
        store.delete("other")


def _deleted_is_gone(make: MakeStore, folder: Path) -> None:
    store = make(folder)
    for session_id in ("s", "t"):
        with store.open(session_id) as log:
            kept = log.append("user", {"of": session_id})
    store.delete("s")
    need(not store.exists("s"), "a deleted session still exists")
    _need_records(store, "t", [kept])
    with store.open("s") as log:
        need(not log.records, "a new session has records from a deleted one")
        written = log.append("user", {})
    _need_records(store, "s", [written])


def _the_list_tells(make: MakeStore, folder: Path) -> None:
    store = make(folder)
    written: dict[str, list[Record]] = {"a": [], "b": []}
    for session_id, text in (("a", "x"), ("b", "x"), ("a", "x" * 100_000)):
        with store.open(session_id) as log:
            written[session_id].append(log.append("user", {"text": text}))
    store.open("empty").close()
    infos = {info.id: info for info in store.list()}
    need(set(infos) == {"a", "b", "empty"}, f"list() returned {sorted(infos)}")
    for session_id, records in written.items():
        info = infos[session_id]
        need(info.created == records[0].time, "created must be the time of the first record")
        need(info.updated == records[-1].time, "updated must be the time of the last record")
    sizes = infos["a"].size_bytes, infos["b"].size_bytes
    wanted = "size_bytes must be the size of the records, uncompressed: over 100,000 for 'a', less for 'b'"
    need(sizes[0] > 100_000 > sizes[1] > 0, f"{wanted}; they are {sizes[0]:,} and {sizes[1]:,}")
    order = [info.updated for info in store.list()]
    need(order == sorted(order, reverse=True), "the session used last must come first")


def _threads_may_write(make: MakeStore, folder: Path) -> None:
    store = make(folder)
    written: list[Record] = []
    with store.open("s") as log:

        def work() -> None:
            written.extend([log.append("user", {"text": "x" * 3000}) for _ in range(_APPENDS)])

        threads = [threading.Thread(target=work) for _ in range(_THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    need(len(written) == _THREADS * _APPENDS, "append failed in a thread")
    _need_records(store, "s", sorted(written, key=lambda record: record.id))


_RULES: dict[str, Callable[[MakeStore, Path], None]] = {
    "records come back": _records_come_back,
    "several at once": _several_at_once,
    "odd data survives": _odd_data_survives,
    "opening again goes on": _reopened_session_continues,
    "parents make a tree": _parents_make_a_tree,
    "wrong values are refused": _wrong_values_are_refused,
    "one writer": _one_writer,
    "a closed log is closed": _a_closed_log_is_closed,
    "ids are checked": _ids_are_checked,
    "sessions stay apart": _sessions_stay_apart,
    "what is missing is said": _what_is_missing_is_said,
    "deleted is gone": _deleted_is_gone,
    "the list tells": _the_list_tells,
    "threads may write": _threads_may_write,
}
STORE_RULES = tuple(_RULES)
