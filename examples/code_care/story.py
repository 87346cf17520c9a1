"""The story of one night: a failing test, a repair, a report, and undo in the morning.

python examples/code_care/story.py     makes a small repository in the folder where you start it
"""

import subprocess
import sys
from pathlib import Path

from pure_agent_loop.audit import history, verify

REPO, AUDIT = Path("repo"), Path("audit")
CARE = Path(__file__).with_name("care.py")
TEST = """import unittest

from prices import total


class TotalTest(unittest.TestCase):
    def test_total(self):
        self.assertEqual(total([1, 2, 3]), 6)
"""


def git(*words: str) -> str:
    command = ["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.com", *words]
    return subprocess.run(command, cwd=REPO, check=True, capture_output=True, text=True).stdout.strip()


def care(command: str) -> None:
    done = subprocess.run([sys.executable, str(CARE), command], check=True, stdout=subprocess.PIPE, text=True)
    print(done.stdout.strip())


(REPO / "tests").mkdir(parents=True)
(REPO / "prices.py").write_text("def total(prices):\n    return sum(prices[1:])\n")
(REPO / "tests" / "__init__.py").touch()
(REPO / "tests" / "test_prices.py").write_text(TEST)
git("init", "--quiet")
git("add", ".")
git("commit", "--quiet", "--message", "Begin")

care("now")  # instead of waiting for three in the morning
print("\n".join(git("diff", "--unified=0").splitlines()[-2:]))
for entry in history(AUDIT):
    print(f"audit: {entry.tool} {entry.status}: {str(entry.args)[:60]}")
print("the audit log is whole:", verify(AUDIT).ok)

care("undo")
print("differences to the last commit:", git("diff", "--stat") or "none")

# Output:
# Found: the first price was left out.
# Changed: total() in prices.py.
# Left open: nothing.
# -    return sum(prices[1:])
# +    return sum(prices)
# audit: shell error: {'command': 'python -m unittest'}
# audit: read_file ok: {'path': 'prices.py'}
# audit: edit_file denied: {'path': 'tests/test_prices.py', 'old_text': '6', 'new_text'
# audit: edit_file ok: {'path': 'prices.py', 'old_text': 'prices[1:]', 'new_text':
# audit: shell ok: {'command': 'python -m unittest'}
# the audit log is whole: True
# restored: ('prices.py',), removed: (), left alone: ()
# differences to the last commit: none
