"""Every name that is sent: spans, attributes and metrics of the GenAI conventions of OpenTelemetry.

All of them are still "Development" there, so they stand in this one place. As of November 2026, in the
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
TOKEN_TYPE = "gen_ai.token.type"  # noqa: S105 - the name of an attribute
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
    """A histogram.

    Args:
        name: Its name.
        unit: What is measured.
        about: What it says.
        bounds: Of its buckets.
    """

    name: str
    unit: str
    about: str
    bounds: tuple[float, ...]


_SECONDS = tuple(0.01 * 2**each for each in range(14))
_TOKENS = tuple(float(4**each) for each in range(14))
DURATION = Metric("gen_ai.client.operation.duration", "s", "How long requests to models took.", _SECONDS)
CHUNK_TIME = Metric(
    "gen_ai.client.operation.time_to_first_chunk", "s", "How long answers took to begin.", _SECONDS
)
TOKENS = Metric("gen_ai.client.token.usage", "{token}", "Tokens read and written.", _TOKENS)
AGENT_TIME = Metric("gen_ai.invoke_agent.duration", "s", "How long runs took.", _SECONDS)
TOOL_TIME = Metric("gen_ai.execute_tool.duration", "s", "How long calls of tools took.", _SECONDS)
METRICS = (DURATION, CHUNK_TIME, TOKENS, AGENT_TIME, TOOL_TIME)
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
