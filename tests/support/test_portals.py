"""The event loops behind sync calls."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
import threading

import pytest

from pure_agent_loop.support.portal import get_portal, run_sync


async def where():
    return threading.current_thread().name, threading.current_thread().daemon


def test_sync_calls_share_one_loop_in_a_daemon_thread():
    async def loop():
        return asyncio.get_running_loop()

    assert run_sync(loop()) is run_sync(loop())
    assert run_sync(where()) == ("pal-loop", True)


def test_errors_come_back_as_they_are():
    async def fail():
        raise KeyError("x")

    with pytest.raises(KeyError):
        run_sync(fail())


def test_a_nested_call_never_waits_for_the_loop_it_is_on():
    async def nest(depth):
        here = asyncio.get_running_loop()
        below = run_sync(nest(depth - 1)) if depth else []
        assert here not in below
        return [*below, here]

    loops = run_sync(nest(4))
    assert len(set(loops)) == 5
    assert run_sync(nest(0)) == [loops[-1]]  # the outermost is used again


def test_a_worker_of_a_nested_call_goes_to_a_loop_that_is_free():
    """The loop of its own run is free; the ones outside of it wait for that run."""

    async def inner():
        return await asyncio.to_thread(run_sync, where())

    async def outer():
        return run_sync(inner())

    assert run_sync(outer())[0] == "pal-loop"


def test_the_callers_context_is_left_alone():
    before = get_portal()

    async def nest():
        return run_sync(where())

    run_sync(nest())
    assert get_portal() is before


def python(program):
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


def test_runs_after_a_fork_get_a_loop_of_their_own():
    code = """
        import os, sys, warnings
        warnings.simplefilter("ignore")
        from pure_agent_loop import Agent
        from pure_agent_loop.testing import ScriptedLLM
        print(Agent(llm=ScriptedLLM(["parent"])).run("go"), flush=True)
        child = os.fork()
        if not child:
            print(Agent(llm=ScriptedLLM(["child"])).run("go"), flush=True)
            os._exit(0)
        os.waitpid(child, 0)
    """
    assert hasattr(os, "fork")
    assert python(code) == (0, "parent\nchild\n", "")


def test_ctrl_c_cancels_the_run_and_reaches_the_caller():
    code = """
        import os, signal, threading
        from pure_agent_loop import Agent
        from pure_agent_loop.testing import Gate, ScriptedLLM, deltas
        gate = Gate()
        prepared = Agent(llm=ScriptedLLM([deltas("half", gate)])).prepare("go")
        def interrupt():
            gate.reached.wait()
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt).start()
        try:
            prepared.wait_sync()
        except KeyboardInterrupt:
            print(prepared.state.stop_reason, prepared.state.content)
    """
    assert python(code) == (0, "cancelled half\n", "")


def test_ctrl_c_gives_the_result_so_far_and_the_session_holds_it(tmp_path):
    code = f"""
        import asyncio, os, signal
        from pure_agent_loop import Agent, tool
        from pure_agent_loop.sessions.stores.jsonl import JsonlStore
        from pure_agent_loop.testing import ScriptedLLM, call
        @tool
        def count() -> str:
            "Count."
            return "three"
        @tool
        async def stop() -> str:
            "Stop."
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.Event().wait()
        llm = ScriptedLLM([call("count"), call("stop"), "gone on"])
        agent = Agent(llm=llm, tools=[count, stop], sessions=JsonlStore({str(tmp_path)!r}))
        try:
            agent.run("go", session_id="s")
        except KeyboardInterrupt as stopped:
            result = stopped.result
        print(result.stop_reason, result.steps, result.messages[2]["content"])
        again = agent.run("go on", session_id="s")
        print(again.content, again.messages[: len(result.messages)] == result.messages)
    """
    assert python(code) == (0, "cancelled 2 three\ngone on True\n", "")


def test_ctrl_c_in_an_event_loop_of_the_caller_leaves_the_result_with_the_run():
    code = """
        import asyncio, os, signal
        from pure_agent_loop import Agent
        from pure_agent_loop.testing import ScriptedLLM, call
        def count() -> str:
            "Count."
            return "three"
        async def stop() -> str:
            "Stop."
            asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGINT)
            await asyncio.Event().wait()
        run = Agent(llm=ScriptedLLM([call("count"), call("stop")]), tools=[count, stop]).prepare("go")
        try:
            asyncio.run(run.wait())
        except KeyboardInterrupt:
            result = run.result()
        print(result.stop_reason, result.steps, [each["role"] for each in result.messages][-1])
    """
    assert python(code) == (0, "cancelled 2 tool\n", "")


def test_ctrl_c_while_a_stream_is_read_cancels_the_run():
    code = """
        import os, signal
        from pure_agent_loop import Agent
        from pure_agent_loop.testing import Gate, ScriptedLLM, deltas
        prepared = Agent(llm=ScriptedLLM([deltas("half", Gate())])).prepare("go")
        try:
            for event in prepared.stream_sync():
                if event.content == "half":
                    os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            pass
        print(prepared.state.stop_reason, prepared.state.content)
    """
    assert python(code) == (0, "cancelled half\n", "")


def test_a_hanging_tool_does_not_keep_the_program():
    code = """
        import threading
        from pure_agent_loop import Agent, tool
        from pure_agent_loop.testing import ScriptedLLM, call

        @tool(timeout=0.05)
        def hangs() -> str:
            "Hang for ever."
            threading.Event().wait()
            return "never"

        print(Agent(llm=ScriptedLLM([call("hangs"), "the end"]), tools=[hangs]).run("go"))
    """
    assert python(code) == (0, "the end\n", "")
