"""Notices and errors of the library that a person reads. Chinese."""

MESSAGES = {
    # -- choice of a model -------------------------------------------------------------------------
    "selected_by": "由 {source} 指定",
    "is_set": "已设置 {variable}",
    "server_found": "未设置密钥；在 {server} 的默认端口上找到：{owner}",
    "no_server": "未设置密钥，本机也没有运行模型服务{also}",
    "refused": "；{reason}（--base-url）{also}",
    "no_key": "没有用于 {url} 的 API 密钥。请设置 PAL_API_KEY（或 OPENAI_API_KEY）。",
    "key_unset": "设置中以 {variable} 作为 API 密钥的环境变量，但它未设置。请设置它。",
    "not_a_url": "{source}={url} 不是服务器 URL。示例：http://127.0.0.1:8080/v1。",
    "no_model": "未选择 {url} 上的模型。请用 --model 名称（或 PAL_MODEL）指定。",
    # -- local models ------------------------------------------------------------------------------
    "fetching": "正在从软件包索引下载 {package} {version}（{size} MB）……",
    "file_ready": "模型文件已就绪：{file}",
    "received": "{file}：{done} MB",
    "received_of": "{file}：{done} / {total} MB（{percent} %）",
    "not_verified": "{name}：哈希值未知，未经校验。已保存 SHA-256 {sha256}，再次下载此 URL 时将据此校验。",
    "starting": "正在启动本地模型 {model}（{size} MB）……",
    "server_ready": "本地模型 {model}：服务已就绪（进程 {process}）。",
    "not_used": "{url} 的服务器属于 {owner}，对方能读到所有任务；只有明确指定时才会使用",
    # -- sandbox -----------------------------------------------------------------------------------
    "sandbox_bubblewrap_offline": "shell：bubblewrap，无网络",
    "sandbox_bubblewrap_network": "shell：bubblewrap，可联网",
    "sandbox_landlock_offline": "shell：Landlock，无 TCP，受保护的名称不受强制保护（{why}）",
    "sandbox_landlock_network": "shell：Landlock，可联网，受保护的名称不受强制保护（{why}）",
    "sandbox_none": "shell：无沙箱（{why}），每条命令都需批准",
    "sandbox_none_unsandboxed": "shell：无沙箱（{why}），命令按策略运行",
    "sandbox_configured": "按设置",
    "sandbox_both": "{first}；{second}",
    "sandbox_bubblewrap_linux": "bubblewrap 需要 Linux",
    "sandbox_bubblewrap_missing": "未安装 bubblewrap（Debian：apt-get install bubblewrap）",
    "sandbox_bubblewrap_fails": "bubblewrap 无法工作：{error}",
    "sandbox_landlock_linux": "Landlock 需要 Linux",
    "sandbox_landlock_missing": "Landlock：此内核不支持或未启用",
    "sandbox_not_here": "sandbox={name!r} 在此无法使用：{why}。",
}
