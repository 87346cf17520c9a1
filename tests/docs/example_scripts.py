"""The scripts of the model for the examples, by name; and a command that writes down what they print.

python -m tests.docs.example_scripts NAME...    rewrites the block "Output:" at the end of these examples;
in a notebook, the outputs of its cells
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from pure_agent_loop.testing import (
    Reset,
    ScriptedServer,
    ServerRequest,
    answer,
    assert_replays,
    call,
    deltas,
    status,
)
from pure_agent_loop.testing.script import Item
from tests import forked
from tests.docs.notebook import code_cells, outputs_of

EXAMPLES = Path(__file__).parents[2] / "examples"
OUTPUT = re.compile(r"\n# Output:\n((?:#.*\n)+)\Z")


def form(**fields: Any) -> str:
    """A typed answer, as the model writes it."""
    return json.dumps(fields)


def evaluated(request: ServerRequest) -> Item:
    """A model that calls the tool only if its prompt says so."""
    task = str(request.messages[-1]["content"])
    if request.messages[-1]["role"] == "tool":
        return "Light rain and 8 degrees."
    if "Look it up" in str(request.messages):
        return call("get_weather", city="Oslo")
    return "It may rain." if "umbrella" in task else "About 20 degrees."


# What an example writes to standard error; the others write nothing there.
STDERR = {"durable_worker": "of dead worker"}
SCRIPTS: dict[str, Any] = {
    "first_tool": [
        call("get_weather", city="Oslo"),
        "Yes, take one: light rain and 8 degrees in Oslo.",
    ],
    "typed_answer": [
        form(number="2031-17", customer="Ada Berg", total=45.0),
        form(number="2031-17", customer="Ada Berg", total=85.0),
    ],
    "streamed_answer": [form(city="Oslo", stops=["the opera", "the fortress", "the harbour", "a cafe"])],
    "event_stream": [answer("Let me add them.", call("add", a=17, b=25)), "17 + 25 is 42."],
    "conversation": ["Welcome to the library, Ada!", "Your name is Ada."],
    "dependencies": [
        call("order_status", order=7),
        "It was sent on Monday.",
        call("order_status", order=7),
        "You have no order 7.",
    ],
    "reasoning": [answer("They weigh the same.", reasoning="A pound is a pound, of whatever it is.")],
    "images": [form(shop="Lamps & Co", total=85.0)],
    "cost_and_limits": [
        *(call("read_chapter", number=number) for number in (1, 2, 3)),
        "I read three chapters: they walk on. I do not know the end.",
        "Hello, Ada!",
        "Hello, Bob!",
    ],
    "permissions": [
        call("look_up", customer="Ann"),
        [
            call("refund", customer="Ann", amount=30.0),
            call("refund", customer="Ann", amount=900.0),
            call("refund", customer="Mallory", amount=1.0),
        ],
        "Ann got 30.00 back. Her 900.00 need the manager, and Mallory gets nothing.",
    ],
    "answer_later": [call("refund", order=7, amount=30.0), "Your 30.00 are on their way."],
    "resume": [
        call("print_label", parcel=5),
        call("weigh", parcel=5),
        "The label is printed; parcel 5 weighs 2 kg.",
    ],
    "workspace": [
        call("read_file", path="colours.txt"),
        call("edit_file", path="colours.txt", old_text="grey", new_text="blue"),
        call("shell", command="cp colours.txt .."),
        "The sky is blue. I could not copy the file: I may only write in this folder.",
    ],
    "redaction": [call("read_settings"), "The shop uses euros."],
    "support_desk/story": [
        call("look_up_order", number=7),
        call("refund", order=7, amount=30.0),
        "I am sorry. Your 30.00 are on their way.",
    ],
    "code_care/story": [
        call("shell", command="python -m unittest"),
        call("read_file", path="prices.py"),
        call("edit_file", path="tests/test_prices.py", old_text="6", new_text="5"),
        call("edit_file", path="prices.py", old_text="prices[1:]", new_text="prices"),
        call("shell", command="python -m unittest"),
        "Found: the first price was left out.\nChanged: total() in prices.py.\nLeft open: nothing.",
    ],
    "data_assistant/assistant.ipynb": [
        call("query", sql="SELECT name FROM sales ORDER BY pieces DESC"),
        call("query", sql="SELECT article, pieces FROM sales WHERE month = 'March' ORDER BY pieces DESC"),
        "The lamp: 21 pieces in March.",
        call("query", sql="SELECT month, sum(revenue) FROM sales GROUP BY month"),
        json.dumps(
            [
                {"name": "January", "revenue": 1000.0},
                {"name": "February", "revenue": 990.0},
                {"name": "March", "revenue": 1700.0},
            ]
        ),
        call("query", sql="SELECT pieces FROM sales WHERE article = 'chair' AND month = 'February'"),
        "Seven chairs.",
        call("query", sql="SELECT pieces FROM sales WHERE article = 'chair' AND month = 'March'"),
        "Four chairs.",
    ],
    "subagents": [
        call("task", agent="explore", prompt="Where are the delays of the retries?"),
        call("grep", pattern="DELAYS"),
        "retry.py, line 1: 1, 2 and 4 seconds.",
        call("task", agent="poet", prompt="Delays of 1, 2 and 4 seconds."),
        "One, two, four: it knocks once more.",
        "One, two, four: it knocks once more. (retry.py, line 1)",
    ],
    "handoff": [call("transfer_to_billing"), "It is high because two months are on it."],
    "changing_tools": [call("knock", name="Ada"), call("enter", name="Ada"), "I am in."],
    "hundred_tools": [
        call("search_tools", query="send a letter"),
        call("send_letter", number=12),
        "Letter 12 is sent.",
    ],
    "mcp_tools": [call("mcp__shop__in_stock", article="lamp"), "There are 12 lamps."],
    "mcp_server": [call("in_stock", article="lamp"), "There are 12 lamps."],
    "a2a/app": ["A protocol by which agents give tasks to each other."],
    "own_model": [],
    "own_renderer": [call("search", query="tea", limit=2), "Two notes are about tea."],
    "any_model": [
        status(400, "This model does not support tools."),
        form(tool="get_weather", arguments={"city": "Oslo"}),
        form(tool="final_answer", arguments={"answer": "Yes: light rain and 8 degrees in Oslo."}),
    ],
    "fallback": [deltas("One, two, ", Reset()), "three, four."],
    "durable_worker": [
        call("book", room=3),
        call("confirm", room=3),
        "Room 3 is booked, and the confirmation is sent.",
    ],
    "schedule": [call("sales", day="yesterday"), "12 lamps and 3 chairs were sold."],
    "compaction": [
        *(call("read_log", day=day) for day in ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")),
        "No, all is well.",
    ],
    "evaluation": evaluated,
    "testing_an_agent": [],
    "page_server": [call("in_stock", article="lamp"), "There are 12 lamps."],
    "chat_endpoint": [call("in_stock", article="lamp"), "There are 12 lamps."] * 2,
    "tracing": [call("get_weather", city="Oslo"), "Yes, take one: it rains."],
}


def path_of(name: str) -> Path:
    """The file of an example."""
    return EXAMPLES / (name if name.endswith(".ipynb") else f"{name}.py")


def run_example(path: Path, folder: Path, script: Any) -> subprocess.CompletedProcess[str]:
    """Run an example as a user does, in a folder of its own; the model is a scripted server."""
    with ScriptedServer(**{"handler" if callable(script) else "script": script}) as server:
        ours = ("OPENAI_", "PAL_")
        env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        env |= {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "k", "PAL_HOME": str(folder / "home")}
        env |= {"PYTHONWARNINGS": "error"}
        argv, cwd = [sys.executable, str(path)], folder
        if path.suffix == ".ipynb":  # its data lie beside it
            argv = [sys.executable, "-m", "tests.docs.notebook", str(path)]
            env["PYTHONPATH"], cwd = str(EXAMPLES.parent), path.parent
        done = forked.run(argv, env=env, cwd=cwd, text=True, timeout=120)
        assert STDERR.get(path.stem, "") in done.stderr, done.stderr
        assert path.stem in STDERR or not done.stderr, done.stderr
        assert (done.returncode, server.remaining) == (0, 0), done.stdout
        done.stdout = stripped(done.stdout.replace(server.base_url, "http://127.0.0.1:8000/v1"))
    for session in folder.glob("**/sessions/*.jsonl"):  # what was recorded can be replayed
        assert_replays(session)
    return done


def stripped(output: str) -> str:
    """The output without blanks at the ends of lines, as it stands in a file."""
    return "".join(f"{line.rstrip()}\n" for line in output.splitlines())


def written_output(path: Path) -> str:
    """The output that the block at the end of an example shows."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        return json.dumps([outputs_of(cell) for cell in code_cells(json.loads(text))]) + "\n"
    block = OUTPUT.search(text)
    return "" if block is None else "".join(line[2:] or "\n" for line in block[1].splitlines(keepends=True))


def write_output(path: Path, output: str) -> None:
    """Write the output into the block at the end of an example."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        notebook = json.loads(text)
        for number, (cell, printed) in enumerate(
            zip(code_cells(notebook), json.loads(output), strict=True), 1
        ):
            stream = {"name": "stdout", "output_type": "stream", "text": printed.splitlines(keepends=True)}
            cell |= {"execution_count": number, "outputs": [stream] if printed else []}
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        return
    lines = "".join(f"# {line}".rstrip() + "\n" for line in output.splitlines())
    code = OUTPUT.sub("", text).rstrip("\n")
    path.write_text(f"{code}\n\n# Output:\n{lines}", encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:] or SCRIPTS:
        path = path_of(name)
        with tempfile.TemporaryDirectory() as folder:
            done = run_example(path, Path(folder), SCRIPTS[name])
        print(f"== {name}\n{done.stdout}{done.stderr}")
        write_output(path, done.stdout)
