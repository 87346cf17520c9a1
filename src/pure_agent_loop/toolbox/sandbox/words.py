"""Messages to people about the sandbox, in English and Chinese."""

from __future__ import annotations

from functools import partial

from pure_agent_loop.support.language import TranslatedText

notice = partial(
    TranslatedText,
    {
        "bubblewrap_offline": ("shell: bubblewrap, no network", "shell：bubblewrap，无网络"),
        "bubblewrap_network": ("shell: bubblewrap, network allowed", "shell：bubblewrap，可联网"),
        "landlock_offline": (
            "shell: Landlock, no TCP, protected names are not enforced ({why})",
            "shell：Landlock，无 TCP，受保护的名称不受强制保护（{why}）",
        ),
        "landlock_network": (
            "shell: Landlock, network allowed, protected names are not enforced ({why})",
            "shell：Landlock，可联网，受保护的名称不受强制保护（{why}）",
        ),
        "none": (
            "shell: no sandbox ({why}), every command needs approval",
            "shell：无沙箱（{why}），每条命令都需批准",
        ),
        "none_unsandboxed": (
            "shell: no sandbox ({why}), commands run as the policy decides",
            "shell：无沙箱（{why}），命令按策略运行",
        ),
        "configured": ("as configured", "按设置"),
        "both": ("{first}; {second}", "{first}；{second}"),
        "bubblewrap_linux": ("bubblewrap needs Linux", "bubblewrap 需要 Linux"),
        "bubblewrap_missing": (
            "bubblewrap is not installed (Debian: apt-get install bubblewrap)",
            "未安装 bubblewrap（Debian：apt-get install bubblewrap）",
        ),
        "bubblewrap_fails": ("bubblewrap does not work: {error}", "bubblewrap 无法工作：{error}"),
        "landlock_linux": ("Landlock needs Linux", "Landlock 需要 Linux"),
        "landlock_missing": (
            "Landlock: not supported or not enabled in this kernel",
            "Landlock：此内核不支持或未启用",
        ),
        "not_here": ("sandbox={name!r} does not work here: {why}.", "sandbox={name!r} 在此无法使用：{why}。"),
    },
)
