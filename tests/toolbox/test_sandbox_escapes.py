"""Some forty ways out of a sandbox, tried for real, as root and as a plain user."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.toolbox.sandbox_ground import USERS, Ground, ground, require_tools, victims

from pure_agent_loop.toolbox.sandbox.bubblewrap import Bubblewrap
from pure_agent_loop.toolbox.sandbox.landlocked import Landlock
from pure_agent_loop.toolbox.sandbox.launch import Unconfined

# What Landlock cannot hold back; docs/sandbox.md says so.
BEYOND_LANDLOCK = {
    "chmod_outside",
    "list_processes",
    "plant_a_git_hook",
    "plant_a_git_hook_in_a_new_repository",
}
# What would change this machine for good if it got through, so it is not tried without a sandbox.
DANGEROUS = (
    *(
        "write_etc",
        "write_usr",
        "remount",
        "mount",
        "unmount",
        "chroot",
        "namespaces_of_our_own",
        "write_sys",
    ),
    *("nested_bubblewrap", "make_a_device", "set_hostname", "become_another_user", "load_a_module"),
    *("make_a_cgroup", "type_into_the_terminal", "read_shadow", "write_hostname", "write_core_pattern"),
    *("write_sysrq", "open_a_device", "inherited_files"),
)


@pytest.fixture(autouse=True)
def _tools():
    require_tools()


@pytest.fixture(params=USERS)
def made(request):
    with ground(request.param) as each:
        yield each


def untouched(made: Ground) -> None:
    outside = {path.name for path in made.outside.iterdir()} - {"socket"}
    assert outside == {"secret", "victim-file"}
    assert (made.outside / "secret").read_text() == "secret"
    assert not (made.folder / "written").exists()
    assert not Path("/etc/pal-probe").exists()
    assert not Path("/usr/bin/pal-probe").exists()


def test_bubblewrap_confines_every_probe(made):
    sandbox = Bubblewrap(made.workspace)
    with victims(made) as known:
        # Beside the workspace there is an empty folder in memory, in which anybody may write.
        found = made.probe(sandbox, known, without=("write_outside_beside",))
        made.run(sandbox, ["sh", "-c", "echo x > ../written"])
        assert found["escaped"] == [], found
        assert len(found["refused"]) >= 40
        untouched(made)


def test_landlock_leaks_only_the_documented(made):
    with victims(made) as known:
        found = made.probe(Landlock(made.workspace), known)
        assert set(found["escaped"]) == BEYOND_LANDLOCK, found
        untouched(made)


def test_probes_succeed_without_a_sandbox(made):
    with victims(made) as known:
        found = made.probe(Unconfined(), known, without=tuple(DANGEROUS))
        held = {"read_environment", "through_the_first_process"}
        if made.user == "nobody":  # another user's home is shut for them anyway
            held |= {"read_home", "read_our_data", "unix_socket_in_home"}
        assert set(found["refused"]) - held == set(), found
        assert {path.name for path in made.outside.iterdir()} > {"secret", "written"}
