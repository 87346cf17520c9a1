"""What a model reads about MCP servers, in English and Chinese."""

from __future__ import annotations

from pure_agent_loop.support.language import Sentences

say = Sentences(
    {
        "mcp_described": (
            "[The MCP server '{server}' says:] {text}",
            "［MCP 服务器 '{server}' 的说明：］{text}",
        ),
        "mcp_connect": (
            "The tools of the MCP server '{server}' are not here: {why} Call this to try again.",
            "MCP 服务器 '{server}' 的工具不可用：{why} 调用此工具可重试。",
        ),
        "mcp_connected": (
            "The MCP server '{server}' answers now. Its {count} tools can be called from the next step on.",
            "MCP 服务器 '{server}' 现已可用，其 {count} 个工具可从下一步起调用。",
        ),
        "mcp_no_program": ("There is no program {program!r}.", "没有程序 {program!r}。"),
        "mcp_one_word": (
            "There is no program {program!r}. A command is one word; what follows it belongs into args.",
            "没有程序 {program!r}。command 只写程序名；其余各词写进 args。",
        ),
        "mcp_no_folder": (
            "There is no folder {folder!r} to start it in.",
            "没有启动所用的文件夹 {folder!r}。",
        ),
        "mcp_cannot_start": ("{program!r} cannot be started: {error}.", "无法启动 {program!r}：{error}。"),
        "mcp_start_timeout": (
            "It did not answer within {seconds:g} seconds.",
            "它在 {seconds:g} 秒内没有应答。",
        ),
        "mcp_ended": ("It ended (exit code {code}).", "它已退出（退出码 {code}）。"),
        "mcp_closed": ("It closed the connection.", "它关闭了连接。"),
        "mcp_too_large": (
            "It sent more than {limit:,} bytes in one message, so the connection was closed.",
            "它在一条消息中发送了超过 {limit:,} 字节，因此连接已关闭。",
        ),
        "mcp_rubbish": (
            "It writes what is no MCP message to its standard output, so the connection was closed.",
            "它向标准输出写入了不是 MCP 消息的内容，因此连接已关闭。",
        ),
        "mcp_unreachable": ("Nobody answers at {url}: {error}", "{url} 没有应答：{error}"),
        "mcp_status": ("It answered with the HTTP status {status}.", "它以 HTTP 状态 {status} 应答。"),
        "mcp_login": (
            "It wants a login. A person has to run: pal mcp login {server}",
            "它要求登录。需要有人运行：pal mcp login {server}",
        ),
        "mcp_login_failed": ("The login does not work: {error}", "登录不成功：{error}"),
        "mcp_issuer": (
            "The login does not work: the server sends us to {found}, and not to the issuer {issuer!r}.",
            "登录不成功：服务器指向 {found}，而不是颁发者 {issuer!r}。",
        ),
        "mcp_protocol": (
            "What it answered is no MCP that is understood here: {error}",
            "它的应答不是此处可理解的 MCP：{error}",
        ),
        "mcp_no_json": ("what it answered cannot be read", "其应答无法读取"),
        "mcp_said": ("It said: {text}", "它的输出：{text}"),
        "mcp_wait": (
            "It failed {count} times in a row and is started again in {seconds:.0f} seconds. {why}",
            "它连续失败 {count} 次，{seconds:.0f} 秒后再启动。{why}",
        ),
        "mcp_lost": (
            "The MCP server '{server}' was lost in the call; what it did is not known. {why}",
            "调用期间与 MCP 服务器 '{server}' 的连接中断；不知道它做了什么。{why}",
        ),
        "mcp_failed": (
            "The MCP server '{server}' cannot be used. {why}",
            "无法使用 MCP 服务器 '{server}'。{why}",
        ),
        "mcp_refused": ("The MCP server '{server}' refuses: {error}", "MCP 服务器 '{server}' 拒绝：{error}"),
        "mcp_prompt_takes": ("{error} Its arguments: {names}.", "{error} 其参数：{names}。"),
        "mcp_no_text": ("(the tool gave no result)", "（工具没有给出结果）"),
        "mcp_no_base64": ("[{kind} that is no valid base64]", "［{kind}：不是有效的 base64］"),
        "mcp_link": ("[resource {uri}{about}]", "［资源 {uri}{about}］"),
        "mcp_resource": ("[resource {uri}]\n{text}", "［资源 {uri}］\n{text}"),
        "mcp_changed": (
            "The MCP server '{server}' has changed this tool. Call it without arguments to ask a person.",
            "MCP 服务器 '{server}' 更改了此工具的说明。不带参数调用它可请人确认。",
        ),
        "mcp_agree": (
            "the MCP server '{server}' has changed what it says of its tool {tool!r}. It says now: {text}",
            "MCP 服务器 '{server}' 更改了其工具 {tool!r} 的说明。现在的说明：{text}",
        ),
        "mcp_not_agreed": (
            "The MCP server '{server}' has changed it. A person must agree: pal mcp test {server} --agree",
            "MCP 服务器 '{server}' 更改了此工具。需有人同意：pal mcp test {server} --agree",
        ),
        "mcp_agreed": (
            "A person agreed. The tool can be called from the next step on, as it is described then.",
            "已有人同意。该工具从下一步起可按其说明调用。",
        ),
        "mcp_wrong_value": (
            "What was answered for {field!r} is none of the kind that was asked for ({kind}).",
            "{field!r} 的回答不符合所要求的类型（{kind}）。",
        ),
        "mcp_list_resources": (
            "List what can be read of the MCP server '{server}': resources, templates of addresses.",
            "列出 MCP 服务器 '{server}' 可读取的资源及其地址模板。",
        ),
        "mcp_read_resource": (
            "Read a resource of the MCP server '{server}' by its address (uri).",
            "按地址（uri）读取 MCP 服务器 '{server}' 的资源。",
        ),
        "mcp_no_resources": ("It has none.", "没有资源。"),
        "mcp_asks": ("The MCP server '{server}' asks: {text}", "MCP 服务器 '{server}' 询问：{text}"),
        "mcp_asks_field": ("{text} [{field}: {kind}]", "{text}［{field}：{kind}］"),
        "mcp_asks_url": ("{text} Open this address: {url}", "{text} 请打开此地址：{url}"),
        "mcp_asks_model": (
            "The MCP server '{server}' wants your model to answer this, at your cost: {text}",
            "MCP 服务器 '{server}' 想让您的模型回答以下内容，费用由您承担：{text}",
        ),
        "mcp_more_logs": (
            "The MCP server '{server}' says more than is shown. Its log has it.",
            "MCP 服务器 '{server}' 的消息过多，其余见其日志。",
        ),
        "mcp_nobody": ("Nobody can be asked here.", "此处无人可问。"),
    }
)
