"""What a question orders to be done with files: deeds and values, by its build alone."""

import pytest

from pure_agent_loop.local.examples import read_tools
from pure_agent_loop.local.plan import file_before, plan_for, without_orders

TEXT = {"type": "string"}


def schema(tool, description="Works with files.", required=None, **properties):
    parameters = {"type": "object", "properties": properties}
    parameters["required"] = list(properties) if required is None else required
    return {"function": {"name": tool, "description": description, "parameters": parameters}}


LIST = schema("list_dir", required=[], path=TEXT)
READ = schema("read_file", required=["path"], path=TEXT, limit={"type": "integer"})
EDIT = schema(
    "edit_file",
    required=["path", "old_text", "new_text"],
    path=TEXT,
    old_text=TEXT,
    new_text=TEXT,
    replace_all={"type": "boolean"},
)
WRITE = schema("write_file", path=TEXT, content=TEXT)
GLOB = schema("glob", required=["pattern"], pattern=TEXT, path=TEXT)
GREP = schema(
    "grep", "Search files for a regular expression.", ["pattern"], pattern=TEXT, path=TEXT, glob=TEXT
)
SHELL = schema("shell", "Run a command.", ["command"], command=TEXT, timeout={"type": "number"})
FETCH = schema("fetch", "Fetch a page.", ["url"], url=TEXT)
ALL = read_tools([LIST, READ, EDIT, WRITE, GLOB, GREP, SHELL, FETCH])


def plan(question, tools=ALL, path=None):
    return [(step.tool.name, tuple(step.arguments.values())) for step in plan_for(question, tools, path)]


@pytest.mark.parametrize(
    ("question", "values"),
    [
        ("Replace one with two in a.txt", ("a.txt", "one", "two")),
        ("In the file a.txt, replace 'one' by \"two\".", ("a.txt", "one", "two")),
        ("Substitute two for one in a.txt.", ("a.txt", "one", "two")),
        ("In lib/a.py change the port from 80 to 8080", ("lib/a.py", "80", "8080")),
        ("Change a.txt from one to two", ("a.txt", "one", "two")),
        ('Turn every "one" into "two" in a.txt', ("a.txt", "one", "two", True)),
        ("Open a.txt: rename the variable x_1 to total please", ("a.txt", "x_1", "total")),
        ('Change "a": 1 to "a": 2 in b.json', ("b.json", '"a": 1', '"a": 2')),
        ('Replace "a.txt" with "b.txt" in list.md', ("list.md", "a.txt", "b.txt")),
        ("Replace “x, then y” with “in z.txt” in a.txt", ("a.txt", "x, then y", "in z.txt")),
        ("Delete the word 'one' from a.txt", ("a.txt", "one", "")),
        ("Change 1.0 to 1.1 in Makefile", ("Makefile", "1.0", "1.1")),
        ("将 a.txt 中所有的“一”替换为“二”。", ("a.txt", "一", "二", True)),
        ("用“二”替换 a.txt 里的“一”", ("a.txt", "一", "二")),
        ("从 a.txt 中删除“一”", ("a.txt", "一", "")),
    ],
)
def test_an_edit_is_read_off_the_build(question, values):
    assert plan(question)[-1] == ("edit_file", values)


@pytest.mark.parametrize(
    ("question", "call"),
    [
        ("Create a.txt with the text one two.", ("write_file", ("a.txt", "one two."))),
        ("Write 'print(\"a\")' into a.py", ("write_file", ("a.py", 'print("a")'))),
        ("Make a new file called a.md: # One", ("write_file", ("a.md", "# One"))),
        ("Create an empty file a.txt", ("write_file", ("a.txt", ""))),
        ("把“一二”写入 a.txt", ("write_file", ("a.txt", "一二"))),
        ("创建文件 a.txt，内容为一二", ("write_file", ("a.txt", "一二"))),
        ("Find all *.md files in docs", ("glob", ("**/*.md", "docs"))),
        ("Show me the Python files", ("glob", ("**/*.py",))),
        ("List all files ending with .txt", ("glob", ("**/*.txt",))),
        ("Where is setup.cfg?", ("glob", ("**/setup.cfg",))),
        ("有哪些 JSON 文件？", ("glob", ("**/*.json",))),
        ("Look for 'a.b()' in src/app", ("grep", (r"a\.b\(\)", "src/app"))),
        ("Which files in this project mention Anna?", ("grep", ("Anna",))),
        ("Where is get_it used?", ("grep", ("get_it",))),
        ("在 src 目录里查找 get_it", ("grep", ("get_it", "src"))),
        ("Run the command ls -l", ("shell", ("ls -l",))),
        ("执行“ls -l”", ("shell", ("ls -l",))),
        ("What is on https://example.com/a.html?", ("fetch", ("https://example.com/a.html",))),
        ('Write "see https://example.com" to a.txt', ("write_file", ("a.txt", "see https://example.com"))),
    ],
)
def test_other_deeds_are_too(question, call):
    assert plan(question) == [call]


def test_several_orders_are_steps_in_their_order_and_it_is_the_file_before():
    read, edit = ("read_file", ("a.txt",)), ("edit_file", ("a.txt", "x", "y"))
    assert plan("Read a.txt, then replace x with y in it") == [read, edit]
    assert plan("List the files, read a.txt and change x to y.") == [("list_dir", (".",)), read, edit]
    assert plan("先读取 a.txt，然后把里面的“x”改成“y”") == [read, edit]
    assert plan("First change x to y in a.txt. Then show a.txt") == [edit, read]


def test_the_file_may_come_from_an_earlier_call():
    calls = [{"path": "b.txt"}, {"path": "a.txt", "limit": 3}, {"expression": "1 + 1"}]
    assert file_before(calls, ALL) == "a.txt"
    assert file_before([], ALL) is None
    assert plan("Now replace x with y in it", path="a.txt") == [("edit_file", ("a.txt", "x", "y"))]
    assert plan("Now replace x with y in it") == []


@pytest.mark.parametrize(
    "question",
    [
        "Do not change x to y in a.txt",
        "How do I replace x with y in a.txt?",
        "Should I delete the word 'x' from a.txt?",
        "怎么把 a.txt 里的“x”改成“y”？",
        "Delete a.txt",
        "Create a.txt",
        "Write a poem about rain to a.txt",
        "Add the line 'x' to a.txt",
        "Change my flight from Paris to London",
        "Search for a hotel in Paris",
        "What files do we have here?",
        "Read a.txt",
        "Run a marathon",
        "What is 3 * 4?",
        "",
        "\ue000 replace x with y in a.txt",
        "Replace x with y in a.txt " + "very " * 1000,
    ],
)
def test_what_is_no_clear_order_is_left_to_the_rest(question):
    assert plan(question) == []


def test_a_part_without_a_tool_is_not_left_out():
    question = "Read a.txt, then replace x with y in it"
    assert plan(question, read_tools([LIST, READ])) == []
    assert plan(question, read_tools([READ, EDIT])) != []


def test_tools_are_known_by_their_arguments_not_by_one_name():
    other = schema("str_replace", "Edits files.", file_path=TEXT, old_string=TEXT, new_string=TEXT)
    assert plan("Replace x with y in a.txt", read_tools([other])) == [("str_replace", ("a.txt", "x", "y"))]
    alien = schema("replace_part", "Order a part of a machine.", part=TEXT, machine=TEXT)
    needy = schema("edit_file", path=TEXT, old_text=TEXT, new_text=TEXT, why=TEXT)
    notes = schema("memory_search", "Search earlier notes.", pattern=TEXT)
    assert [tool.name for tool in without_orders(read_tools([other, alien, needy, notes]))] == [
        "replace_part",
        "edit_file",
        "memory_search",
    ]
