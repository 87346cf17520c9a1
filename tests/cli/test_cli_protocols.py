"""The command with models of other protocols."""

from llm_client_conformance.protocols import GeminiServer, MessagesServer


def test_a_task_is_done_by_a_model_of_the_messages_protocol(pal):
    with MessagesServer(["hello"], api_key="k") as server:
        address = {"PAL_API_KEY": "k", "ANTHROPIC_BASE_URL": server.base_url}
        done = pal("run", "--model", "anthropic:claude-opus-4-6", "hi", **address)
    assert done.returncode == 0, done.stderr
    assert "hello" in done.stdout
    assert "claude-opus-4-6 at http://127.0.0.1" in done.stderr


def test_a_task_is_done_by_a_model_of_the_gemini_protocol(pal):
    with GeminiServer(["hello"], api_key="k") as server:
        address = {"PAL_API_KEY": "k", "GEMINI_BASE_URL": server.base_url}
        done = pal("run", "--model", "gemini:gemini-3-pro", "hi", **address)
    assert done.returncode == 0, done.stderr
    assert "hello" in done.stdout
    assert "gemini-3-pro at http://127.0.0.1" in done.stderr
