"""An agent in each library, set up as its documentation does; `measure.py` starts this in its environment.

    libraries.py NAME faults URL FOLDER [careful]    cases come in on standard input, a line each
    libraries.py NAME kill URL FOLDER CASE           one run; resumed if the process before was killed
    libraries.py NAME costs URL FOLDER               CPU times of this process

`careful` turns on what a library documents against failing requests and tools, but does not do by default.
"""

import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path

BEGUN = time.process_time()
MODE, URL, FOLDER = sys.argv[2], sys.argv[3], Path(sys.argv[4])
IS_CAREFUL = sys.argv[5:6] == ["careful"]
KILL = sys.argv[5] if MODE == "kill" else ""
MODEL, KEY = "m", "k"
MANY = 2000 if MODE == "costs" else None  # limits on steps are raised where costs are measured
MARKS = FOLDER / "marks"


def put(n: int) -> str:
    """Put a thing in its place.

    Args:
        n: The number of the thing.
    """
    if n == 99:
        raise ValueError("there is no place 99")
    if (KILL, n) in (("before", 2), ("beside", 3)):
        die_once(seconds=1.5)  # the parallel call has ended long before
    if MODE != "costs":
        with MARKS.open("a") as file:
            file.write(f"{n}\n")
    if KILL == "after" and n == 2:
        die_once()
    return f"thing {n} is in its place"


def die_once(seconds=0.0):
    """End this process without any cleaning up, the first time."""
    if not (FOLDER / "killed").exists():
        time.sleep(seconds)
        (FOLDER / "killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)


# -- agents: each function returns how to run a task, and how to run it streamed ---------------------------


def ours():
    import pure_agent_loop as pal

    client = pal.OpenAIClient(MODEL, KEY, URL)
    limits = pal.LoopLimits(max_steps=MANY, max_tokens=None) if MANY else None

    def agent():
        return pal.Agent(llm=client, tools=[put], limits=limits)

    def ended(result):
        result.raise_for_error()
        if result.stop_reason != "completed":
            raise RuntimeError(result.stop_reason)
        return result.content

    async def run(task):
        return ended(await agent().arun(task))

    async def stream(task):
        last = None
        async for event in agent().arun_stream(task):
            last = event
        if last.data["stop_reason"] != "completed":
            raise RuntimeError(last.data["stop_reason"])
        return last.data["content"]

    return run, stream


def pydantic_ai():
    import pydantic_ai
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    client = None
    if IS_CAREFUL:  # "Smart retry handling" of its page on retries
        from httpx2 import AsyncClient, HTTPStatusError
        from pydantic_ai.capabilities import Hooks
        from pydantic_ai.retries import AsyncHTTPX2TenacityTransport, RetryConfig, wait_retry_after
        from tenacity import retry_if_exception_type, stop_after_attempt, wait_exponential

        def check(response):
            if response.status_code in (429, 502, 503, 504):
                response.raise_for_status()

        transport = AsyncHTTPX2TenacityTransport(
            config=RetryConfig(
                retry=retry_if_exception_type((HTTPStatusError, ConnectionError)),
                wait=wait_retry_after(fallback_strategy=wait_exponential(multiplier=1, max=60), max_wait=300),
                stop=stop_after_attempt(5),
                reraise=True,
            ),
            validate_response=check,
        )
        client = AsyncClient(transport=transport)
    provider = OpenAIProvider(base_url=URL, api_key=KEY, http_client=client)
    model = OpenAIChatModel(MODEL, provider=provider)
    options = {}
    if IS_CAREFUL:  # errors of tools: a hook of the run, of its page on hooks

        async def tell(ctx, *, call, tool_def, args, error):
            raise pydantic_ai.ModelRetry(str(error))

        options = {"retries": 3, "capabilities": [Hooks(tool_execute_error=tell)]}
    limits = pydantic_ai.UsageLimits(request_limit=MANY) if MANY else None

    def agent():
        return pydantic_ai.Agent(model, tools=[put], **options)

    async def run(task):
        return (await agent().run(task, usage_limits=limits)).output

    async def stream(task):
        result = None
        async with agent().run_stream_events(task, usage_limits=limits) as events:
            async for event in events:
                result = getattr(event, "result", result)
        return result.output

    return run, stream


def openai_agents():
    import agents
    from openai import AsyncOpenAI

    agents.set_tracing_disabled(True)
    model = agents.OpenAIChatCompletionsModel(MODEL, AsyncOpenAI(base_url=URL, api_key=KEY))
    options = {}
    if IS_CAREFUL:  # examples/basic/retry.py of its repository
        from agents import ModelRetrySettings, ModelSettings, retry_policies

        policy = retry_policies.any(
            retry_policies.provider_suggested(),
            retry_policies.retry_after(),
            retry_policies.network_error(),
            retry_policies.http_status([408, 409, 429, 500, 502, 503, 504]),
        )
        options["model_settings"] = ModelSettings(retry=ModelRetrySettings(max_retries=4, policy=policy))
    missing = "return_error_to_model" if IS_CAREFUL else "raise_error"
    config = agents.RunConfig(tool_not_found_behavior=missing)

    def agent():
        return agents.Agent(name="agent", model=model, tools=[agents.function_tool(put)], **options)

    limits = {"run_config": config, **({"max_turns": MANY} if MANY else {})}

    async def run(task):
        return (await agents.Runner.run(agent(), task, **limits)).final_output

    async def stream(task):
        result = agents.Runner.run_streamed(agent(), task, **limits)
        async for _ in result.stream_events():
            pass
        return result.final_output

    return run, stream


def langgraph():
    from langchain.agents import create_agent
    from langchain_openai import ChatOpenAI

    options = {}
    if IS_CAREFUL:  # two of the middlewares that its documentation lists
        from langchain.agents.middleware import ModelRetryMiddleware, ToolRetryMiddleware

        options["middleware"] = [
            ModelRetryMiddleware(max_retries=3, on_failure="error"),
            ToolRetryMiddleware(max_retries=1, on_failure="continue"),
        ]
    model = ChatOpenAI(model=MODEL, base_url=URL, api_key=KEY)

    def agent():
        return create_agent(model, [put], **options)

    def ended(state):
        return state["messages"][-1].text

    async def run(task):
        return ended(await agent().ainvoke({"messages": [("user", task)]}))

    async def stream(task):
        state = None
        modes = ["messages", "values"]
        async for mode, item in agent().astream({"messages": [("user", task)]}, stream_mode=modes):
            state = item if mode == "values" else state
        return ended(state)

    return run, stream


def smolagents():
    from smolagents import LogLevel, OpenAIModel, ToolCallingAgent, tool

    model = OpenAIModel(model_id=MODEL, api_base=URL, api_key=KEY)

    def agent(is_streamed):
        limits = {"max_steps": MANY} if MANY else {}
        return ToolCallingAgent(
            [tool(put)], model, verbosity_level=LogLevel.OFF, stream_outputs=is_streamed, **limits
        )

    async def run(task):
        return agent(is_streamed=False).run(task)

    async def stream(task):
        last = None
        for item in agent(is_streamed=True).run(task, stream=True):
            last = item
        return last.output

    return run, stream


def strands():
    from openai import AsyncOpenAI
    from strands import Agent, ModelRetryStrategy, tool
    from strands.models.openai import OpenAIModel

    client = AsyncOpenAI(base_url=URL, api_key=KEY)  # otherwise each request creates a new client

    def agent(is_streamed):
        model = OpenAIModel(client=client, model_id=MODEL, stream=is_streamed)
        options = {}
        if IS_CAREFUL:  # its page on retry strategies, with shorter waits than by default
            options["retry_strategy"] = ModelRetryStrategy(max_attempts=4, initial_delay=1, max_delay=60)
        return Agent(model, tools=[tool(put)], callback_handler=None, **options)

    async def run(task):
        return str(await agent(is_streamed=False).invoke_async(task)).strip()

    async def stream(task):
        result = None
        async for event in agent(is_streamed=True).stream_async(task):
            result = event.get("result", result)
        return str(result).strip()

    return run, stream


def agno():
    os.environ["AGNO_TELEMETRY"] = "false"
    from agno.agent import Agent
    from agno.models.openai import OpenAIChat

    options = {"retries": 3, "exponential_backoff": True} if IS_CAREFUL else {}

    model = OpenAIChat(id=MODEL, base_url=URL, api_key=KEY)

    def agent():
        return Agent(model=model, tools=[put], telemetry=False, **options)

    def ended(output):
        if output.status != "COMPLETED":
            raise RuntimeError(f"{output.status}: {output.content}")
        return output.content

    async def run(task):
        return ended(await agent().arun(task))

    async def stream(task):
        last = None
        async for event in agent().arun(task, stream=True, yield_run_output=True):
            last = event
        return ended(last)

    return run, stream


def openai_loop():
    """A hand-written loop over the typed calls of OpenAI's SDK: the baseline of all costs."""
    from openai import AsyncOpenAI

    client = AsyncOpenAI(base_url=URL, api_key=KEY)
    arguments = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    function = {"name": "put", "description": "Put a thing in its place.", "parameters": arguments}
    tools = [{"type": "function", "function": function}]

    async def run(task):
        messages = [{"role": "user", "content": task}]
        while True:
            answer = await client.chat.completions.create(model=MODEL, messages=messages, tools=tools)
            message = answer.choices[0].message
            if not message.tool_calls:
                return message.content
            calls = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.function.name, "arguments": call.function.arguments},
                }
                for call in message.tool_calls
            ]
            messages.append({"role": "assistant", "content": message.content, "tool_calls": calls})
            for call in message.tool_calls:
                result = put(**json.loads(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})

    async def stream(task):
        chunks = await client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": task}], tools=tools, stream=True
        )
        texts = [chunk.choices[0].delta.content or "" async for chunk in chunks if chunk.choices]
        return "".join(texts)

    return run, stream


# -- faults: a run for each line of standard input ---------------------------------------------------------


def play_cases(name):
    run, stream = globals()[name]()

    async def play():
        for line in sys.stdin:
            case = json.loads(line)
            found = {"answer": None, "error": None}
            try:
                found["answer"] = str(await (stream if case["streamed"] else run)("Put things in place."))
            except Exception as error:  # noqa: BLE001 - how a run ends is what is measured
                found["error"] = f"{type(error).__name__}: {error!s:.200}"
            print("RESULT", json.dumps(found), flush=True)

    asyncio.run(play())


# -- kills: one run, begun or resumed ----------------------------------------------------------------------

TASK = "Put three things in place."


def ours_kill():
    import pure_agent_loop as pal

    tool = pal.tool(put, idempotent=True) if os.environ.get("IDEMPOTENT") else put
    agent = pal.Agent(llm=pal.OpenAIClient(MODEL, KEY, URL), tools=[tool], sessions=str(FOLDER / "sessions"))
    has_begun = (FOLDER / "sessions").exists()
    return agent.run(None if has_begun else TASK, session_id="s").content


def pydantic_ai_kill():
    """Its page on DBOS: model requests are steps by the capability, tools by `@DBOS.step`."""
    from dbos import DBOS
    from pydantic_ai import Agent
    from pydantic_ai.durable_exec.dbos import DBOSDurability
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    database = f"sqlite:///{FOLDER / 'dbos.sqlite'}"
    DBOS(config={"name": "peer", "system_database_url": database, "run_admin_server": False})
    model = OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=URL, api_key=KEY))
    agent = Agent(model, name="agent", tools=[DBOS.step()(put)], capabilities=[DBOSDurability()])

    @DBOS.workflow()
    async def answer(task: str) -> str:
        return (await agent.run(task)).output

    return in_dbos(DBOS, answer)


def openai_agents_kill():
    """Its page on running agents names DBOS; the package `dbos-openai-agents` says how."""
    import agents
    from dbos import DBOS
    from dbos_openai_agents import DBOSRunner
    from openai import AsyncOpenAI

    agents.set_tracing_disabled(True)
    database = f"sqlite:///{FOLDER / 'dbos.sqlite'}"
    DBOS(config={"name": "peer", "system_database_url": database, "run_admin_server": False})
    model = agents.OpenAIChatCompletionsModel(MODEL, AsyncOpenAI(base_url=URL, api_key=KEY))

    @DBOS.step()
    async def put_step(n: int) -> str:
        return await asyncio.to_thread(put, n)

    tool = agents.function_tool(put_step, name_override="put")
    agent = agents.Agent(name="agent", model=model, tools=[tool])

    @DBOS.workflow()
    async def answer(task: str) -> str:
        return (await DBOSRunner.run(agent, task)).final_output

    return in_dbos(DBOS, answer)


def in_dbos(dbos, workflow):
    """Start a workflow under a name; a later process recovers it at its launch and waits for it."""
    from dbos import SetWorkflowID

    has_begun = (FOLDER / "begun").exists()
    dbos.launch()
    (FOLDER / "begun").touch()

    async def wait():
        if has_begun:
            return await (await dbos.retrieve_workflow_async("run")).get_result()
        with SetWorkflowID("run"):
            return await (await dbos.start_workflow_async(workflow, TASK)).get_result()

    return asyncio.run(wait())


def langgraph_kill():
    """Its pages on persistence and durable execution: a checkpointer, `durability="sync"`, then no input."""
    from langchain.agents import create_agent
    from langchain_openai import ChatOpenAI
    from langgraph.checkpoint.sqlite import SqliteSaver

    with SqliteSaver.from_conn_string(str(FOLDER / "checkpoints.sqlite")) as saver:
        agent = create_agent(ChatOpenAI(model=MODEL, base_url=URL, api_key=KEY), [put], checkpointer=saver)
        thread = {"configurable": {"thread_id": "run"}}
        has_begun = bool(agent.get_state(thread).values)
        given = None if has_begun else {"messages": [("user", TASK)]}
        return agent.invoke(given, thread, durability="sync")["messages"][-1].text


def smolagents_kill():
    """It documents no resuming in another process: the task is given again."""
    return asyncio.run(smolagents()[0](TASK))


def strands_kill():
    """Its page on sessions: the same session id; an agent with a history is called without a prompt."""
    from strands import Agent, tool
    from strands.models.openai import OpenAIModel
    from strands.session.file_session_manager import FileSessionManager

    model = OpenAIModel(client_args={"base_url": URL, "api_key": KEY}, model_id=MODEL)
    session = FileSessionManager(session_id="run", storage_dir=str(FOLDER / "sessions"))
    agent = Agent(model, tools=[tool(put)], callback_handler=None, session_manager=session, agent_id="agent")
    return str(agent() if agent.messages else agent(TASK)).strip()


def agno_kill():
    """Its example on crash recovery: `checkpoint="tool-batch"` and `continue_run`."""
    os.environ["AGNO_TELEMETRY"] = "false"
    from agno.agent import Agent
    from agno.db.sqlite import SqliteDb
    from agno.models.openai import OpenAIChat

    agent = Agent(
        id="agent",
        model=OpenAIChat(id=MODEL, base_url=URL, api_key=KEY),
        tools=[put],
        telemetry=False,
        db=SqliteDb(db_file=str(FOLDER / "agno.sqlite")),
        checkpoint="tool-batch",
    )
    if not (FOLDER / "begun").exists():
        (FOLDER / "begun").touch()
        return agent.run(TASK, run_id="run", session_id="s").content
    return agent.continue_run(run_id="run", session_id="s").content


def play_kill(name):
    found = {"answer": None, "error": None}
    try:
        found["answer"] = str(globals()[f"{name}_kill"]())
    except Exception as error:  # noqa: BLE001 - how it ends is what is measured
        found["error"] = f"{type(error).__name__}: {error!s:.300}"
    print("RESULT", json.dumps(found), flush=True)
    os._exit(0)


# -- costs: CPU time of this process -----------------------------------------------------------------------


def measure_costs(name):
    run, stream = globals()[name]()
    found = {"loaded": time.process_time() - BEGUN}

    async def measure():
        await run("steps 1")
        found["first"] = time.process_time() - BEGUN
        begun = time.process_time()
        await run("steps 50")
        found["step"] = (time.process_time() - begun) / 50
        begun = time.process_time()
        for _ in range(20):
            await run("steps 2")
        found["short"] = (time.process_time() - begun) / 20
        if name != "smolagents":  # whose answer is a call
            await stream("chunks 10")
            begun = time.process_time()
            await stream("chunks 2000")
            found["chunk"] = (time.process_time() - begun) / 2000

    asyncio.run(measure())
    print("RESULT", json.dumps(found), flush=True)
    os._exit(0)


if __name__ == "__main__":
    {"faults": play_cases, "kill": play_kill, "costs": measure_costs}[MODE](sys.argv[1])
