"""Helpers for tests of agents: scripted models, a scripted server, chaos, and a manual clock.

The helpers need no test framework, no network beyond loopback, and no real model.
"""

from pure_agent_loop.testing.carried_agents import carrier_agents
from pure_agent_loop.testing.carriers import CARRIER_RULES, CarrierPlace, carrier_contract
from pure_agent_loop.testing.chaos import ChaosLLM
from pure_agent_loop.testing.clock import FakeClock
from pure_agent_loop.testing.exchange import Exchange
from pure_agent_loop.testing.faults import (
    EndEarly,
    ErrorChunk,
    Reset,
    ServerFault,
    Silence,
    Status,
    status,
    unauthorized,
)
from pure_agent_loop.testing.gate import Gate, ScriptError, Signal
from pure_agent_loop.testing.history import check_history, check_request
from pure_agent_loop.testing.journals import JOURNAL_RULES, journal_contract
from pure_agent_loop.testing.llm import LLMRequest, ScriptedLLM
from pure_agent_loop.testing.replays import assert_replays
from pure_agent_loop.testing.request import ServerRequest
from pure_agent_loop.testing.script import answer, call, deltas, raw_call
from pure_agent_loop.testing.server import ScriptedServer
from pure_agent_loop.testing.stores import STORE_RULES, check_store

__all__ = [
    "CARRIER_RULES",
    "JOURNAL_RULES",
    "STORE_RULES",
    "CarrierPlace",
    "ChaosLLM",
    "EndEarly",
    "ErrorChunk",
    "Exchange",
    "FakeClock",
    "Gate",
    "LLMRequest",
    "Reset",
    "ScriptError",
    "ScriptedLLM",
    "ScriptedServer",
    "ServerFault",
    "ServerRequest",
    "Signal",
    "Silence",
    "Status",
    "answer",
    "assert_replays",
    "call",
    "carrier_agents",
    "carrier_contract",
    "check_history",
    "check_request",
    "check_store",
    "deltas",
    "journal_contract",
    "raw_call",
    "status",
    "unauthorized",
]
