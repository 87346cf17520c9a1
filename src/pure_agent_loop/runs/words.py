"""What a model is told about other agents, in English and Chinese."""

from __future__ import annotations

from pure_agent_loop.support.language import Sentences

say = Sentences(
    {
        "hand_over": (
            "Hand the conversation over to the agent '{agent}', who goes on in your place. {description}",
            "把对话移交给代理 '{agent}'，由它接替你继续。{description}",
        ),
        "handed_over": (
            "The conversation is handed over. From here on the agent '{agent}' answers.",
            "对话已移交。从现在起由代理 '{agent}' 回答。",
        ),
        "ask_agent": (
            "Ask the agent '{agent}'. It knows nothing of this conversation: write everything it needs.",
            "询问代理 '{agent}'。它不知道本次对话的内容：请写明所需的一切。",
        ),
    }
)


def in_both(name: str, **values: object) -> dict[str, str]:
    """A sentence by language."""
    english, chinese = say.pairs[name]
    return {"en": english.format(**values).strip(), "zh": chinese.format(**values).strip()}
