"""Tests of an agent without a network: a scripted model, and what it was sent. For pytest, or as it is."""

from pathlib import Path

from pure_agent_loop import Agent, PermissionRules, Retry, tool
from pure_agent_loop.testing import ScriptedLLM, call


@tool
def refund(order: int, amount: float) -> str:
    """Give money back."""
    if amount > 100:
        raise Retry("more than 100.00 needs the manager")
    with Path("refunds.txt").open("a") as file:
        file.write(f"{order}\n")
    return f"refunded {amount:.2f}"


# The agent of your program. It needs no key before its first request.
agent = Agent(tools=[refund], permission_rules=PermissionRules(ask=["refund"]))


def test_nothing_is_refunded_before_somebody_allows_it() -> None:
    with agent.override(llm=ScriptedLLM([call("refund", order=7, amount=30.0)])):
        result = agent.run("My lamp is broken.")
    assert result.stop_reason == "waiting_permission"
    assert not Path("refunds.txt").exists()


def test_a_refund_is_told_to_the_customer() -> None:
    llm = ScriptedLLM([call("refund", order=7, amount=30.0), "You get 30.00 back."])
    generous = agent.clone(on_ask=lambda request: True)
    with generous.override(llm=llm):
        assert generous.run("My lamp is broken.").content == "You get 30.00 back."
    assert llm.requests[1].messages[-1]["content"] == "refunded 30.00"  # what the model was sent


def test_the_model_reads_why_a_tool_refused() -> None:
    refused = "I cannot refund that much."
    with ScriptedLLM([call("refund", order=7, amount=999.0), refused]) as llm:  # fails if not used up
        result = Agent(llm=llm, tools=[refund]).run("My palace is broken.")
    assert "needs the manager" in result.messages[-2]["content"]


if __name__ == "__main__":
    for name, test in [*globals().items()]:
        if name.startswith("test_"):
            test()
            print("passed:", name)

# Output:
# passed: test_nothing_is_refunded_before_somebody_allows_it
# passed: test_a_refund_is_told_to_the_customer
# passed: test_the_model_reads_why_a_tool_refused
