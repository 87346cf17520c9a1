"""Texts about other agents for models, and about the selected model for people, in English and Chinese."""

from __future__ import annotations

from functools import partial

from pure_agent_loop.support.language import Sentences, TranslatedText

message = Sentences(
    {
        "hand_over": (
            "Hand the conversation over to the agent '{agent}', which continues in your place. {description}",
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

notice = partial(
    TranslatedText,
    {
        "selected_by": ("selected by {source}", "由 {source} 指定"),
        "is_set": ("{variable} is set", "已设置 {variable}"),
        "server_found": (
            "no key is set; found on the default port of {server}: {owner}",
            "未设置密钥；在 {server} 的默认端口上找到：{owner}",
        ),
        "no_server": (
            "no key is set and no local model server is running{also}",
            "未设置密钥，本机也没有运行模型服务{also}",
        ),
        "refused": ("; {reason} (--base-url){also}", "；{reason}（--base-url）{also}"),
        "no_key": (
            "No API key for {url}. Set PAL_API_KEY (or OPENAI_API_KEY).",
            "没有用于 {url} 的 API 密钥。请设置 PAL_API_KEY（或 OPENAI_API_KEY）。",
        ),
        "no_own_key": (
            "No API key for {url}. Set PAL_API_KEY, or {variable}, which is sent only to its maker.",
            "没有用于 {url} 的 API 密钥。请设置 PAL_API_KEY，或设置只发送给其厂商的 {variable}。",
        ),
        "key_unset": (
            "{variable} is not set, but the settings name it as the API key variable. Set it.",
            "设置中以 {variable} 作为 API 密钥的环境变量，但它未设置。请设置它。",
        ),
        "not_a_url": (
            "{source}={url} is not a server URL. Example: http://127.0.0.1:8080/v1.",
            "{source}={url} 不是服务器 URL。示例：http://127.0.0.1:8080/v1。",
        ),
        "no_model": (
            "No model selected at {url}. Use --model NAME (or PAL_MODEL).",
            "未选择 {url} 上的模型。请用 --model 名称（或 PAL_MODEL）指定。",
        ),
    },
)


def in_both(name: str, **values: object) -> dict[str, str]:
    """Return a sentence by language."""
    english, chinese = message.pairs[name]
    return {"en": english.format(**values).strip(), "zh": chinese.format(**values).strip()}
