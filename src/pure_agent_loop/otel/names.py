"""Every name that is sent: spans, attributes and metrics of the GenAI conventions of OpenTelemetry.

All of them are still "Development" there, so they stand in this one place. They are those of v0.1.0 of the
repository ``open-telemetry/semantic-conventions-genai``.
"""

from __future__ import annotations

from typing import NamedTuple

SCOPE = "pure_agent_loop"
# -- operations, which are also the first words of the names of spans ------------------------------------
INVOKE_AGENT, CHAT, EXECUTE_TOOL = "invoke_agent", "chat", "execute_tool"
# -- attributes -------------------------------------------------------------------------------------------
OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
AGENT = "gen_ai.agent.name"
CONVERSATION = "gen_ai.conversation.id"
REQUEST_MODEL = "gen_ai.request.model"
STREAM = "gen_ai.request.stream"
FINISH_REASONS = "gen_ai.response.finish_reasons"
FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens"
REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens"
MODALITY, UNKNOWN = "gen_ai.token.modality", "unknown"  # servers do not say which tokens are whose
TOOL = "gen_ai.tool.name"
TOOL_CALL = "gen_ai.tool.call.id"
TOOL_TYPE = "gen_ai.tool.type"
ERROR = "error.type"
ADDRESS, PORT = "server.address", "server.port"
LABELS = (OPERATION, PROVIDER, REQUEST_MODEL, ADDRESS, PORT, AGENT, TOOL)  # those that metrics have too
# -- what was said, only on request -----------------------------------------------------------------------
INSTRUCTIONS = "gen_ai.system_instructions"
INPUT_MESSAGES, OUTPUT_MESSAGES = "gen_ai.input.messages", "gen_ai.output.messages"
ARGUMENTS, RESULT = "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"
# -- an event of a chat span, of our own -------------------------------------------------------------------
RETRY, RETRY_ATTEMPT = "retry", "pure_agent_loop.retry.attempt"


class Metric(NamedTuple):
    """What is measured.

    Args:
        name: Its name.
        unit: Of its values.
        about: What it says.
        bounds: Of the buckets of a histogram; none for a counter.
    """

    name: str
    unit: str
    about: str
    bounds: tuple[float, ...] = ()


_SECONDS = tuple(0.01 * 2**each for each in range(14))
_LONG = tuple(0.1 * 2**each for each in range(13))
_TOKENS = tuple(float(4**each) for each in range(14))
_CALLS = tuple(float(2**each) for each in range(8))
_CLIENT, _INFERENCE = "gen_ai.client.operation", "gen_ai.client.inference"
DURATION = Metric(f"{_CLIENT}.duration", "s", "How long requests to models took.", _SECONDS)
CHUNK_TIME = Metric(f"{_CLIENT}.time_to_first_chunk", "s", "How long answers took to begin.", _SECONDS)
AGENT_TIME = Metric("gen_ai.invoke_agent.duration", "s", "How long runs took.", _LONG)
CHATS = Metric("gen_ai.invoke_agent.inference_calls", "{inference_call}", "Requests of a run.", _CALLS)
CALLS = Metric("gen_ai.invoke_agent.tool_calls", "{tool_call}", "Calls of a run.", _CALLS)
TOOL_TIME = Metric("gen_ai.execute_tool.duration", "s", "How long calls of tools took.", _SECONDS)
# What was spent, and how it is spread over the requests; by the attribute of the span that says the same.
SPENT = {
    INPUT_TOKENS: Metric(f"{_INFERENCE}.usage.input_tokens", "{token}", "Tokens read."),
    OUTPUT_TOKENS: Metric(f"{_INFERENCE}.usage.output_tokens", "{token}", "Tokens written."),
    CACHED_TOKENS: Metric(f"{_INFERENCE}.usage.cache_read.input_tokens", "{token}", "Read from a cache."),
    REASONING_TOKENS: Metric(f"{_INFERENCE}.usage.reasoning.output_tokens", "{token}", "Thought."),
}
SPREAD = {
    INPUT_TOKENS: Metric(f"{_INFERENCE}.operation.input_tokens", "{token}", "Tokens read.", _TOKENS),
    OUTPUT_TOKENS: Metric(f"{_INFERENCE}.operation.output_tokens", "{token}", "Tokens written.", _TOKENS),
}
METRICS = (DURATION, CHUNK_TIME, AGENT_TIME, CHATS, CALLS, TOOL_TIME, *SPENT.values(), *SPREAD.values())
OPENAI = "openai"  # whose protocol is spoken, where nothing more is known
# What a part of a server's name says about the provider.
PROVIDERS = {
    "openai.azure.com": "azure.ai.openai",
    "anthropic.com": "anthropic",
    "deepseek.com": "deepseek",
    "googleapis.com": "gcp.gemini",
    "groq.com": "groq",
    "mistral.ai": "mistral_ai",
    "moonshot": "moonshot_ai",
    "perplexity.ai": "perplexity",
    "x.ai": "x_ai",
    "cohere": "cohere",
}
