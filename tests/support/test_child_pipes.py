"""Writing to programs that end, in both event loops that our users run."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from pure_agent_loop.support.child import communicate, write_to

LOOPS = {"asyncio": asyncio.run, "uvloop": uvloop.run}


@pytest.fixture(params=LOOPS.values(), ids=LOOPS)
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """One of them."""
    return request.param


async def started(program: str) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdin=pipe, stdout=pipe, stderr=pipe
    )


@pytest.mark.parametrize("data", [b"", b"x", b"x" * 1_000_000], ids=["nothing", "little", "much"])
def test_output_of_a_program_that_ignores_its_input(run, data):
    async def main() -> tuple[bytes, bytes]:
        process = await started("import sys; print('bye'); print('why', file=sys.stderr)")
        await process.wait()
        return await communicate(process, data)

    assert [each.strip() for each in run(main())] == [b"bye", b"why"]


def test_output_of_a_program_that_reads_its_input(run):
    async def main() -> tuple[bytes, bytes]:
        return await communicate(await started("print(len(input()))"), b"x" * 1_000_000)

    assert run(main()) == (b"1000000\n", b"")


def test_a_program_that_has_ended_reads_no_more(run):
    async def main() -> None:
        process = await started("")
        assert process.stdin is not None
        await communicate(process)
        with pytest.raises(BrokenPipeError):
            write_to(process.stdin, b"x")

    run(main())
