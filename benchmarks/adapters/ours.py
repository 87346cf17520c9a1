"""pure-agent-loop as an adapter of the comparison harness, in the form of the other libraries' adapters."""

import pure_agent_loop as pal
from _base import *

VENV, IMPORT, PKGS = "ours", "import pure_agent_loop", ["pure-agent-loop"]
NO_LIMITS = pal.LoopLimits(max_steps=None, timeout=None, max_tokens=None, doom_loop_threshold=None)
_client = None


def client():
    global _client
    if _client is None:
        _client = pal.OpenAIClient(MODEL, KEY, URL)
    return _client


def build(tools):
    return pal.Agent(llm=client(), tools=tools, limits=NO_LIMITS, system_prompt="")


async def run(agent, prompt):
    return (await agent.arun(prompt)).content


async def stream(agent, prompt):
    async for event in agent.arun_stream(prompt):
        if event.type is pal.EventType.TEXT_DELTA:
            yield event.data["content"]


install(globals())
