"""Ten cases of each file, for tests that need not be repeated whole: ``--sample tests/kernel/``.

The commit chooses the cases, so that each commit runs other ones.
"""

from __future__ import annotations

import random
from itertools import groupby

from tests.seeds import seed_of_commit

CASES = 10
OPTION = "--sample"


def pytest_addoption(parser):
    words = f"Run only {CASES} cases of each file whose path begins so; the commit chooses which."
    parser.addoption(OPTION, action="append", default=[], metavar="PREFIX", help=words)


def pytest_collection_modifyitems(config, items):
    prefixes = tuple(config.getoption(OPTION))
    kept, left_out = [], []
    for file, group in groupby(items, lambda item: item.nodeid.partition("::")[0]):
        cases = list(group)
        if prefixes and file.startswith(prefixes) and len(cases) > CASES:
            chosen = set(random.Random(f"{seed_of_commit()} {file}").sample(range(len(cases)), CASES))
            left_out += [case for number, case in enumerate(cases) if number not in chosen]
            cases = [case for number, case in enumerate(cases) if number in chosen]
        kept += cases
    if left_out:
        items[:] = kept
        config.hook.pytest_deselected(items=left_out)
