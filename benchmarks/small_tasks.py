"""Twenty small tasks in throw-away folders: find, edit, run and explain, graded by programs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

Grade = Callable[[Path, str], bool]


@dataclass(frozen=True, slots=True)
class SmallTask:
    """A task.

    Args:
        name: Its kind and number.
        text: The task.
        files: Texts of the folder's files, by path.
        grade: Called with the folder and the answer; returns whether the task is done.
    """

    name: str
    text: str
    files: Mapping[str, str]
    grade: Grade


def says(*patterns: str, never: str = "") -> Grade:
    """Return a grade: the answer matches each pattern, and does not match another one."""

    def grade(_: Path, answer: str) -> bool:
        wanted = all(re.search(pattern, answer, re.IGNORECASE) for pattern in patterns)
        return wanted and not (never and re.search(never, answer, re.IGNORECASE))

    return grade


def has(files: Mapping[str, str], changed: Mapping[str, str]) -> Grade:
    """Return a grade: the folder has these files, with these changes, and nothing else."""
    wanted = {**files, **changed}

    def grade(folder: Path, _: str) -> bool:
        return {name: text.strip() for name, text in texts(folder).items()} == {
            name: text.strip() for name, text in wanted.items()
        }

    return grade


def prints(script: str, output: str, same: Mapping[str, str]) -> Grade:
    """Return a grade: a Python program prints this, and some files are as before."""

    def grade(folder: Path, _: str) -> bool:
        done = subprocess.run(
            [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, '.')\n{script}"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        now = texts(folder)
        return done.stdout.strip() == output and all(now.get(name) == text for name, text in same.items())

    return grade


def texts(folder: Path) -> dict[str, str]:
    """Return the texts of a folder's files, without caches."""
    return {
        path.relative_to(folder).as_posix(): path.read_text(errors="replace")
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


SHOP = {
    "shop/__init__.py": "",
    "shop/prices.py": (
        "from shop.dates import parse_date\n\nRATE = 0.2\n\n\ndef net(price):\n    return price\n\n\n"
        "def gross(price):\n    return round(net(price) * (1 + RATE), 2)\n"
    ),
    "shop/dates.py": (
        "import datetime\n\n\ndef parse_date(text):\n    return datetime.date.fromisoformat(text)\n"
    ),
    "shop/orders.py": (
        "from shop.prices import gross\n\n\ndef total(prices):\n"
        "    return sum(gross(price) for price in prices)\n"
    ),
    "README.md": "# Shop\n\nA small shop. Prices are recieved in euros.\n",
}
SERVER = {
    "config.ini": "[server]\nhost = localhost\nport = 8137\n\n[log]\nlevel = info\n",
    "server.py": (
        "import configparser\n\nparser = configparser.ConfigParser()\nparser.read('config.ini')\n"
        "PORT = parser.getint('server', 'port')\n"
    ),
    "docs/setup.md": "# Setup\n\nThe server reads its port from a file.\n",
}
TABLES = {
    "data/a.csv": "name,age\nAda,36\nBob,41\n",
    "data/b.csv": "name,age\nCleo,29\nDan,52\nEve,44\nFay,31\n",
    "data/old/c.csv": "name,age\nGus,60\nHal,61\nIda,62\n",
}
MEDIAN = {
    "median.py": (
        "def median(values):\n    ordered = sorted(values)\n    middle = len(ordered) // 2\n"
        "    return ordered[middle]\n"
    ),
    "check.py": (
        "from median import median\n\nassert median([3, 1, 2]) == 2\n"
        "assert median([4, 1, 2, 3]) == 2.5\nprint('ok')\n"
    ),
}
PACKAGE = {
    "pyproject.toml": '[project]\nname = "tool"\nversion = "1.4.0"\n',
    "tool/__init__.py": '__version__ = "1.4.0"\n',
    "CHANGES.md": "# Changes\n\n## 1.4.0\n\n- Faster.\n",
}
TESTS = {
    "words.py": (
        "def count(text):\n    return len(text.split())\n\n\ndef longest(text):\n"
        "    return min(text.split(), key=len)\n"
    ),
    "run_tests.py": (
        "import words\n\n\ndef test_count():\n    assert words.count('a bc') == 2\n\n\n"
        "def test_longest():\n    assert words.longest('a bcd ef') == 'bcd'\n\n\n"
        "for name, function in list(globals().items()):\n    if name.startswith('test_'):\n        try:\n"
        "            function()\n            print(name, 'passed')\n        except AssertionError:\n"
        "            print(name, 'FAILED')\n"
    ),
}
REPORT = {
    "report.py": (
        "import csv\n\ntotal = 0\nwith open('sales.csv') as file:\n    for row in csv.DictReader(file):\n"
        "        total += int(row['units']) * int(row['price'])\nprint('total', total)\n"
    ),
    "sales.csv": "units,price\n3,17\n11,29\n7,43\n",
}
SEQUENCE = {
    "sequence.py": (
        "import hashlib\n\nvalue = b'start'\nfor _ in range(1000):\n    value = hashlib.md5(value).digest()\n"
        "print(value.hex()[:8])\n"
    )
}
EXITS = {
    "check.py": "import sys\n\nlines = open('list.txt').read().split()\nsys.exit(len(set(lines)) + 30)\n"
}
LIST = {"list.txt": "fig plum fig pear plum kiwi\n"}
MUTABLE = {
    "stack.py": (
        "def push(item, stack=[]):\n    stack.append(item)\n    return stack\n\n\npush(1)\nprint(push(2))\n"
    )
}
LOADER = {
    "app.py": (
        "import json\n\nwith open('settings.json') as file:\n    settings = json.load(file)\n"
        "print(settings['name'], settings['retries'] * settings['delay'])\n"
    ),
    "settings.json": '{"name": "app", "delay": 2, "retry": 3}\n',
}
CALLS = {
    "main.py": (
        "from steps import alpha, beta\n\n\ndef gamma():\n    beta()\n    print('gamma')\n\n\n"
        "gamma()\nalpha()\n"
    ),
    "steps.py": "def alpha():\n    print('alpha')\n\n\ndef beta():\n    print('beta')\n",
}
RECURSION = {"fold.py": "def fold(n):\n    return n if n < 2 else fold(n - 1) + 2 * fold(n - 2)\n"}
UNUSED = {
    "clean.py": (
        "import json\nimport os\nimport sys\n\n\ndef show(data):\n    sys.stdout.write(json.dumps(data))\n"
    )
}

TASKS = [
    SmallTask(
        "find 1",
        "Which file defines the function parse_date? Answer with its path.",
        SHOP,
        says(r"shop/dates\.py", never=r"prices\.py"),
    ),
    SmallTask("find 2", "Which port does the server listen on?", SERVER, says(r"\b8137\b")),
    SmallTask(
        "find 3",
        "Which CSV file, in all folders, has the most rows? Answer with its path only.",
        TABLES,
        says(r"data/b\.csv", never=r"[ac]\.csv"),
    ),
    SmallTask(
        "find 4",
        "How many Python files are here, in all folders? Answer with the number.",
        SHOP,
        says(r"\b(4|four)\b"),
    ),
    SmallTask("find 5", "Who is the oldest person in the tables in data?", TABLES, says(r"\bIda\b")),
    SmallTask(
        "edit 1",
        "Correct the spelling mistake in README.md.",
        SHOP,
        has(SHOP, {"README.md": SHOP["README.md"].replace("recieved", "received")}),
    ),
    SmallTask(
        "edit 2",
        "Rename the function gross to with_tax everywhere.",
        SHOP,
        has(
            SHOP,
            {
                name: re.sub(r"\bgross\b", "with_tax", SHOP[name])
                for name in ("shop/prices.py", "shop/orders.py")
            },
        ),
    ),
    SmallTask(
        "edit 3",
        "check.py fails. Correct median.py so that it passes.",
        MEDIAN,
        prints(
            "from median import median; print(median([1, 9, 5]) == 5, median([7, 1, 3, 5]) == 4)",
            "True True",
            {"check.py": MEDIAN["check.py"]},
        ),
    ),
    SmallTask(
        "edit 4",
        "Set the version to 1.5.0 in pyproject.toml and in the package. Leave the changelog as it is.",
        PACKAGE,
        has(
            PACKAGE,
            {
                name: PACKAGE[name].replace("1.4.0", "1.5.0")
                for name in ("pyproject.toml", "tool/__init__.py")
            },
        ),
    ),
    SmallTask(
        "edit 5",
        "Remove the import in clean.py that is not used.",
        UNUSED,
        has(UNUSED, {"clean.py": UNUSED["clean.py"].replace("import os\n", "")}),
    ),
    SmallTask(
        "edit 6",
        "Write a file people.json: a list of the names in data/a.csv, in the same order.",
        TABLES,
        lambda folder, _: json.loads(texts(folder).get("people.json", "null")) == ["Ada", "Bob"],
    ),
    SmallTask(
        "edit 7",
        "Change the log level to debug in the configuration.",
        SERVER,
        has(SERVER, {"config.ini": SERVER["config.ini"].replace("info", "debug")}),
    ),
    SmallTask(
        "run 1",
        "Run run_tests.py. Which test fails? Change nothing.",
        TESTS,
        lambda folder, answer: "test_longest" in answer and has(TESTS, {})(folder, answer),
    ),
    SmallTask("run 2", "Run report.py and tell me the total.", REPORT, says(r"\b671\b")),
    SmallTask("run 3", "What does sequence.py print?", SEQUENCE, says("f0797539")),
    SmallTask("run 4", "With which exit code does check.py end?", {**EXITS, **LIST}, says(r"\b34\b")),
    SmallTask(
        "explain 1",
        "What does stack.py print, and why? One or two sentences.",
        MUTABLE,
        says(r"\[1, ?2\]", r"default|mutable|shared"),
    ),
    SmallTask(
        "explain 2",
        "app.py fails with this settings.json. Which key is missing? Change nothing.",
        LOADER,
        lambda folder, answer: "retries" in answer and has(LOADER, {})(folder, answer),
    ),
    SmallTask(
        "explain 3",
        "In which order do alpha, beta and gamma print when main.py is run? Answer with the three words.",
        CALLS,
        says(r"beta\W+(then\W+)?gamma\W+(and\W+)?(then\W+)?alpha"),
    ),
    SmallTask("explain 4", "What is fold(5) in fold.py?", RECURSION, says(r"\b11\b")),
]
