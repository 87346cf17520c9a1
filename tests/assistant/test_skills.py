"""Skills: found, read, refused; whatever stands in a file, nothing breaks and nothing leads out."""

from __future__ import annotations

import asyncio
import contextlib
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pure_agent_loop import ConfigError, MissingExtraError, SkillsLoader
from pure_agent_loop.assistant.skills import read_skill
from pure_agent_loop.support.front_matter import FrontMatterError, split_front_matter
from pure_agent_loop.toolbox import WorkspaceError

GOOD = "---\nname: {name}\ndescription: Makes {name}.\n---\n# How\n\nDo it.\n"


def put(folder, name, text=GOOD, **files):
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    (place / "SKILL.md").write_text(text.replace("{name}", name), encoding="utf-8")
    for file, content in files.items():
        (place / f"{file}.txt").write_text(content, encoding="utf-8")
    return place


def loader(*folders, **options):
    return SkillsLoader(folders, **{"user": False, **options})


def head(text):
    return split_front_matter(f"---\n{text}\n---\nbody")[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: b", {"a": "b"}),
        ("a: b # c", {"a": "b"}),
        ("a: b#c", {"a": "b#c"}),
        ("# c\n\na: b", {"a": "b"}),
        ("a: 'it''s # this'", {"a": "it's # this"}),
        (r'a: "x\ny \u4e2d"', {"a": "x\ny 中"}),
        ("a: true\nb: False\nc: 'true'\nd: 1.0", {"a": True, "b": False, "c": "true", "d": "1.0"}),
        ("a:\nb: x", {"a": "", "b": "x"}),
        ("a: |\n  one\n    two\n\n  three\nb: x", {"a": "one\n  two\n\nthree\n", "b": "x"}),
        ("a: >-\n  one\n  two\n\n  three", {"a": "one two\nthree"}),
        ("a: one\n  two", {"a": "one two"}),
        ("a:\n  - x\n  - 'y'", {"a": ["x", "y"]}),
        ("a:\n- x\n- y\nb: z", {"a": ["x", "y"], "b": "z"}),
        ("a: [x, 'y, z', true]", {"a": ["x", "y, z", True]}),
        ("a:\n  b: c\n  d: 'e'\nf: g", {"a": {"b": "c", "d": "e"}, "f": "g"}),
        ("a: http://x:1/y", {"a": "http://x:1/y"}),
        ("allowed-tools: Bash(git:*) Read", {"allowed-tools": "Bash(git:*) Read"}),
        ("a: Use when: it's late # c\nb: x", {"a": "Use when: it's late", "b": "x"}),
        ("a: one: 1\n  two: 2", {"a": "one: 1 two: 2"}),
        ("a: - not a list\nb: ? c\nc: , d", {"a": "- not a list", "b": "? c", "c": ", d"}),
        ("a: 2024-01-01\nb: 0x10\nc: yes\nd: ~", {"a": "2024-01-01", "b": "0x10", "c": "yes", "d": ""}),
        ("a:\n  - b: c\n  - Bash(git:*)", {"a": ["b: c", "Bash(git:*)"]}),
        ("a: [file] [options]", {"a": "[file] [options]"}),
        ("a: x\x7f\u2028y", {"a": "x\x7f\u2028y"}),
        ("a: |+\n  one\n\nb: x", {"a": "one\n\n", "b": "x"}),
        ("a: {b: c, d: [e, {f: true}]}", {"a": {"b": "c", "d": ["e", {"f": True}]}}),
        ("a: {\n  b: c,\n}\nd: e", {"a": {"b": "c"}, "d": "e"}),
        (
            "a:\n  - b: c\n    d:\n    - e\n  - f: |\n      g\n    h: i",
            {"a": [{"b": "c", "d": ["e"]}, {"f": "g\n", "h": "i"}]},
        ),
        ("a:\n  b:\n    c:\n      - d # e\n# f\n      - g", {"a": {"b": {"c": ["d", "g"]}}}),
        ("{a: b, c: d}", {"a": "b", "c": "d"}),
        (" a: b\n c: d", {"a": "b", "c": "d"}),
        ("a: &x [b]\nc: *x\nd: !!str 1", {"a": ["b"], "c": ["b"], "d": "1"}),
        ("a:\tb\t# c\nd:\n  - 'e'\t\n", {"a": "b", "d": ["e"]}),
        ("# only a comment", {}),
    ],
)
def test_the_part_of_yaml_that_heads_are_written_in(text, expected):
    assert head(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "a: *x",
        "a: !!python/object x",
        "a: {b: !own c}",
        "a: 'open",
        'a: "open',
        "a: b\na: c",
        "a: {b: c, b: d}",
        "no colon",
        "a: [x",
        r'a: "\q"',
        r'a: "\U99999999"',
        "a: " + "[" * 50_000,
        "a: " + "{b: " * 30 + "c" + "}" * 30,
        "a: x\n<<: *a",
        "a: &a [*a]",
        "a: &a [" + "x," * 99 + "]\n" + "\n".join(f"a{n}: &a [{'*a,' * 99}]" for n in range(9)),
        "- a",
        "? [a]\n: b",
    ],
)
def test_everything_else_is_refused_by_line(text):
    with pytest.raises(FrontMatterError, match="line"):
        head(text)


@pytest.mark.parametrize(
    ("text", "left_out"),
    [
        (
            "b: !!python/object/apply:os.system ['touch x']",
            ["line 4: this tag is not supported; quote the text."],
        ),
        ("b: [x", ["line 5: expected ',' or ']', but got '<stream end>'."]),
        ("b:\n  c: d: e\nf: [g]", ["line 5: mapping values are not allowed here."]),
        ("b: x\nb: y", ["line 5: 'b' occurs twice."]),
    ],
)
def test_field_that_is_not_needed_is_left_out(text, left_out):
    found = split_front_matter(f"---\na: 1\n# c\n{text}\nz: '2'\n---\nbody", ["a", "z"])
    assert (found.fields["a"], found.fields["z"], found.body) == ("1", "2", "body")
    assert found.left_out == left_out
    with pytest.raises(FrontMatterError, match="line"):
        split_front_matter(f"---\na: 1\n# c\n{text}\nz: '2'\n---\nbody", ["a", "b"])


@pytest.mark.parametrize(
    "text", ["a: x" + " " * 99_000 + "y", "a" + " " * 99_000 + "b", "a: b: c" + " " * 99_000 + "#"]
)
def test_work_grows_with_the_length_of_a_line(text):
    with contextlib.suppress(FrontMatterError):
        split_front_matter(f"---\n{text}\n---\nbody", [])


def test_long_front_matter_is_rejected():
    with pytest.raises(FrontMatterError, match="over 100,000 characters"):
        head("a: " + "x" * 100_000)


def test_front_matter_without_the_extra_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(MissingExtraError, match=r"\[skills\]"):
        head("a: b")


def test_missing_extra_is_a_problem_of_folders_that_are_not_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    put(tmp_path / ".agents" / "skills", "found")
    (problem,) = loader(workspace=tmp_path, trust_project=True).problems
    assert "[skills]" in problem.reason
    with pytest.raises(MissingExtraError):
        loader(tmp_path / ".agents" / "skills")


def test_body_and_line_ends():
    assert split_front_matter("\ufeff---\r\na: b\r\n---\r\n\r\nThe body.\r\n") == (
        {"a": "b"},
        "The body.",
        [],
    )
    for text in ("", "a: b", "---\na: b"):
        with pytest.raises(FrontMatterError):
            split_front_matter(text)


@given(
    text=st.text(alphabet=st.sampled_from("ab:-'\"|>[]{}#&\\ \n\t,~u0") | st.characters(), max_size=120),
    needed=st.none() | st.just(["a"]),
)
def test_damaged_heads_are_read_or_refused(text, needed):
    try:
        fields, body, _ = split_front_matter(f"---\n{text}\n---\nbody", needed)
    except FrontMatterError:
        return
    assert isinstance(fields, dict)
    assert isinstance(body, str)


@given(fields=st.dictionaries(st.from_regex(r"[a-z][a-z-]{0,10}", fullmatch=True), st.text(max_size=60)))
def test_quoted_texts_come_back_as_they_were(fields):
    def quoted(text):
        return '"' + "".join(f"\\u{ord(c):04x}" if c < " " or c in '"\\' else c for c in text) + '"'

    assert head("\n".join(f"{key}: {quoted(value)}" for key, value in fields.items())) == fields


@given(data=st.binary(max_size=200))
def test_a_damaged_skill_is_a_problem_and_no_failure(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("skills")
    put(folder, "good")
    put(folder, "bad")
    (folder / "bad" / "SKILL.md").write_bytes(b"---\nname: bad\n" + data)
    found = loader(folder)
    assert "good" in [skill.name for skill in found.skills]
    unused = [problem for problem in found.problems if not problem.reason.startswith("Left out")]
    assert len(found.skills) + len(unused) == 2


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("Upper", GOOD, "lower-case"),
        ("a" * 65, GOOD, "lower-case"),
        ("other", "---\nname: another\ndescription: d\n---\n", "must match the folder name"),
        ("none", "---\nname: none\n---\n", "description"),
        ("long", "---\nname: long\ndescription: " + "x" * 1025 + "\n---\n", "1024"),
        ("maybe", "---\nname: maybe\ndescription: d\nalways: perhaps\n---\n", "true or false"),
        ("huge", GOOD + "x" * 200_001, "200,000"),
    ],
)
def test_bad_skills_are_reported(tmp_path, name, text, reason):
    put(tmp_path, "fine")
    put(tmp_path, name, text)
    found = loader(tmp_path)
    assert [skill.name for skill in found.skills] == ["fine"]
    assert [reason in str(problem) for problem in found.problems] == [True]


def test_always_catalogue_and_fields(tmp_path):
    more = "license: MIT\nallowed-tools: [Read, Bash]\nmetadata:\n  author: ada\n"
    put(tmp_path, "style", f"---\nname: style\ndescription: d\nalways: true\n{more}---\nBe brief.")
    put(tmp_path, "pdf", "---\nname: pdf\ndescription: >\n  Reads\n  PDF.\n---\nSteps.")
    found = loader(tmp_path)
    assert found.catalogue() == "- pdf: Reads PDF."
    assert found.always() == [("style", "Be brief.")]
    style = found.get("style")
    assert (style.license, style.allowed_tools) == ("MIT", ("Read", "Bash"))


def test_field_that_cannot_be_read_is_a_problem_and_the_skill_is_used(tmp_path):
    put(tmp_path, "odd", "---\nname: odd\nlicense: [MIT]\nmetadata: !own x\ndescription: Odd.\n---\nBe odd.")
    put(tmp_path, "bad", "---\nname: bad\ndescription: !own x\n---\nBe bad.")
    found = loader(tmp_path)
    assert [(skill.name, skill.description, skill.license) for skill in found.skills] == [("odd", "Odd.", "")]
    reason = "this tag is not supported; quote the text."
    assert [str(problem) for problem in found.problems] == [
        f"{tmp_path / 'bad'}: line 3: {reason}",
        f"{tmp_path / 'odd'}: Left out of the front matter: line 4: {reason}",
    ]
    assert found.load("odd") == "Be odd."


def test_a_project_is_not_trusted_by_itself_and_given_folders_come_first(tmp_path, monkeypatch):
    home, project, given_folder = tmp_path / "home", tmp_path / "project", tmp_path / "given"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    put(home / ".agents" / "skills", "mine")
    put(project / ".agents" / "skills", "theirs")
    put(project / ".agents" / "skills", "mine")
    put(given_folder, "theirs")
    careful = SkillsLoader([given_folder], workspace=project)
    assert {skill.name: skill.folder.parent.parent.name for skill in careful.skills} == {
        "mine": ".agents",
        "theirs": tmp_path.name,
    }
    assert sum("not trusted" in str(problem) for problem in careful.problems) == 2
    trusting = SkillsLoader([given_folder], workspace=project, trust_project=True)
    assert trusting.get("mine").folder.is_relative_to(project.resolve())
    assert trusting.get("theirs").folder.is_relative_to(given_folder.resolve())
    assert sum("Same name" in str(problem) for problem in trusting.problems) == 2


def test_load_skill_gives_body_and_files_and_stays_inside(tmp_path):
    (tmp_path / "secret.txt").write_text("secret", encoding="utf-8")
    place = put(tmp_path / "skills", "pdf", guide="The guide.")
    (place / "picture.bin").write_bytes(b"\0\1")
    (place / "link.txt").symlink_to(tmp_path / "secret.txt")
    found = loader(tmp_path / "skills")
    (tool,) = found.tools()

    def use(**args):
        return asyncio.run(tool.execute(args))

    assert use(name="pdf").startswith("# How\n\nDo it.")
    assert "- guide.txt" in use(name="pdf")
    assert "link.txt" not in use(name="pdf")
    assert use(name="pdf", file="guide.txt") == "The guide."
    assert "not text" in use(name="pdf", file="picture.bin")
    for bad in ("../../secret.txt", str(tmp_path / "secret.txt"), "link.txt", "none.txt"):
        assert "failed" in use(name="pdf", file=bad)
        assert "secret\n" not in use(name="pdf", file=bad)
        with pytest.raises(WorkspaceError):
            found.load("pdf", bad)
    assert "Use one of: pdf." in use(name="nope")
    assert tool.read_only
    assert loader().tools() == []


def test_a_skill_file_that_is_a_link_out_is_not_read(tmp_path):
    outside = tmp_path / "outside.md"
    outside.write_text(GOOD.replace("{name}", "bad"), encoding="utf-8")
    place = tmp_path / "skills" / "bad"
    place.mkdir(parents=True)
    (place / "SKILL.md").symlink_to(outside)
    assert loader(tmp_path / "skills").skills == []
    with pytest.raises(WorkspaceError):
        read_skill(place)


def test_bytes_are_no_folder():
    with pytest.raises(ConfigError, match="a folder or a list of folders"):
        SkillsLoader(b"skills")
