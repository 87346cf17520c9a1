"""Span, attribute and metric names from OpenTelemetry's GenAI semantic conventions.

The names come from v0.1.0 of ``open-telemetry/semantic-conventions-genai``. Their status is "Development", so
they may change; therefore only this module contains them.
"""

from __future__ import annotations

from typing import NamedTuple

SCOPE = "pure_agent_loop"
# -- operations, also the first words of span names ------------------------------------------------------
INVOKE_AGENT, CHAT, EXECUTE_TOOL = "invoke_agent", "chat", "execute_tool"
# -- attributes -------------------------------------------------------------------------------------------
OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
AGENT = "gen_ai.agent.name"
CONVERSATION = "gen_ai.conversation.id"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"  # differs from the requested model if a client uses several models
STREAM = "gen_ai.request.stream"
FINISH_REASONS = "gen_ai.response.finish_reasons"
FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS = "gen_ai.usage.cache_creation.input_tokens"
REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens"
# The modality is unknown, because servers do not report it.
MODALITY, UNKNOWN = "gen_ai.token.modality", "unknown"
TOOL = "gen_ai.tool.name"
TOOL_CALL = "gen_ai.tool.call.id"
TOOL_TYPE = "gen_ai.tool.type"
ERROR = "error.type"
ADDRESS, PORT = "server.address", "server.port"
LABELS = (
    OPERATION,
    PROVIDER,
    REQUEST_MODEL,
    RESPONSE_MODEL,
    ADDRESS,
    PORT,
    AGENT,
    TOOL,
)  # span attributes that metrics have too
# -- content, only if enabled -----------------------------------------------------------------------------
INSTRUCTIONS = "gen_ai.system_instructions"
INPUT_MESSAGES, OUTPUT_MESSAGES = "gen_ai.input.messages", "gen_ai.output.messages"
ARGUMENTS, RESULT = "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"
# -- custom attributes of chat and agent spans, and a custom event -----------------------------------------
COST = "pure_agent_loop.usage.cost"  # attribute that is set if the cost is known
# custom attribute, because the semantic conventions have none for this
CACHE_MISSED_TOKENS = "pure_agent_loop.usage.cache_missed.input_tokens"
RETRY, RETRY_ATTEMPT = "retry", "pure_agent_loop.retry.attempt"
_SECONDS = tuple(0.01 * 2**n for n in range(14))
_LONG = tuple(0.1 * 2**n for n in range(13))
_TOKENS = tuple(float(4**n) for n in range(14))
_CALLS = tuple(float(2**n) for n in range(8))
_CLIENT, _INFERENCE = "gen_ai.client.operation", "gen_ai.client.inference"
OPENAI = "openai"  # name of the protocol, used if the provider is unknown
# Providers, by part of the server's host name.
PROVIDERS = {
    "openai.azure.com": "azure.ai.openai",
    "anthropic.com": "anthropic",
    "bedrock-runtime": "aws.bedrock",
    "deepseek.com": "deepseek",
    "aiplatform": "gcp.vertex_ai",  # must precede googleapis.com, because Vertex AI's host names match both
    "googleapis.com": "gcp.gemini",
    "groq.com": "groq",
    "mistral.ai": "mistral_ai",
    "moonshot": "moonshot_ai",
    "perplexity.ai": "perplexity",
    "x.ai": "x_ai",
    "cohere": "cohere",
}


class Metric(NamedTuple):
    """A metric.

    Args:
        bounds: Bucket bounds of a histogram; empty for a counter.
    """

    name: str
    unit: str
    description: str
    bounds: tuple[float, ...] = ()


DURATION = Metric(f"{_CLIENT}.duration", "s", "Duration of requests to models.", _SECONDS)
CHUNK_TIME = Metric(f"{_CLIENT}.time_to_first_chunk", "s", "Time to the first chunk of a response.", _SECONDS)
AGENT_TIME = Metric("gen_ai.invoke_agent.duration", "s", "Duration of runs.", _LONG)
CHATS = Metric("gen_ai.invoke_agent.inference_calls", "{inference_call}", "Requests per run.", _CALLS)
CALLS = Metric("gen_ai.invoke_agent.tool_calls", "{tool_call}", "Tool calls per run.", _CALLS)
TOOL_TIME = Metric("gen_ai.execute_tool.duration", "s", "Duration of tool calls.", _SECONDS)
# Metrics for the total number of tokens, and for the tokens per request. The keys are the span attributes
# that hold these numbers.
TOTALS = {
    INPUT_TOKENS: Metric(f"{_INFERENCE}.usage.input_tokens", "{token}", "Input tokens."),
    OUTPUT_TOKENS: Metric(f"{_INFERENCE}.usage.output_tokens", "{token}", "Output tokens."),
    CACHED_TOKENS: Metric(f"{_INFERENCE}.usage.cache_read.input_tokens", "{token}", "Cached input tokens."),
    CACHE_WRITE_TOKENS: Metric(
        f"{_INFERENCE}.usage.cache_creation.input_tokens", "{token}", "Input tokens written to a cache."
    ),
    REASONING_TOKENS: Metric(f"{_INFERENCE}.usage.reasoning.output_tokens", "{token}", "Reasoning tokens."),
}
DISTRIBUTIONS = {
    INPUT_TOKENS: Metric(
        f"{_INFERENCE}.operation.input_tokens", "{token}", "Input tokens per request.", _TOKENS
    ),
    OUTPUT_TOKENS: Metric(
        f"{_INFERENCE}.operation.output_tokens", "{token}", "Output tokens per request.", _TOKENS
    ),
}
METRICS = (
    DURATION,
    CHUNK_TIME,
    AGENT_TIME,
    CHATS,
    CALLS,
    TOOL_TIME,
    *TOTALS.values(),
    *DISTRIBUTIONS.values(),
)
