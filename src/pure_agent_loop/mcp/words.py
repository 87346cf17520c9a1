"""Texts for a model about MCP servers, in English and Chinese."""

from __future__ import annotations

from pure_agent_loop.support.language import Sentences

message = Sentences(
    {
        "mcp_described": (
            "[The MCP server '{server}' says:] {text}",
            "［MCP 服务器 '{server}' 的说明：］{text}",
        ),
        "mcp_connect": (
            "The tools of the MCP server '{server}' are unavailable: {why} Call this tool to try again.",
            "MCP 服务器 '{server}' 的工具不可用：{why} 调用此工具可重试。",
        ),
        "mcp_connected": (
            "The MCP server '{server}' is connected. Its {count} tools are available from the next step on.",
            "MCP 服务器 '{server}' 现已可用，其 {count} 个工具可从下一步起调用。",
        ),
        "mcp_no_program": ("The program {program!r} was not found.", "没有程序 {program!r}。"),
        "mcp_one_word": (
            (
                "The program {program!r} was not found. command takes only the program; put its "
                "arguments in args."
            ),
            "没有程序 {program!r}。command 只写程序名；其余各词写进 args。",
        ),
        "mcp_no_folder": (
            "The working folder {folder!r} does not exist.",
            "没有启动所用的文件夹 {folder!r}。",
        ),
        "mcp_cannot_start": ("{program!r} cannot be started: {error}.", "无法启动 {program!r}：{error}。"),
        "mcp_start_timeout": (
            "The server did not answer within {seconds:g} seconds.",
            "它在 {seconds:g} 秒内没有应答。",
        ),
        "mcp_ended": ("The program ended (exit code {code}).", "它已退出（退出码 {code}）。"),
        "mcp_closed": ("The server closed the connection.", "它关闭了连接。"),
        "mcp_too_large": (
            "The server sent more than {limit:,} bytes in one message, so the connection was closed.",
            "它在一条消息中发送了超过 {limit:,} 字节，因此连接已关闭。",
        ),
        "mcp_rubbish": (
            (
                "The program writes lines that are not MCP messages to standard output, so the "
                "connection was closed."
            ),
            "它向标准输出写入了不是 MCP 消息的内容，因此连接已关闭。",
        ),
        "mcp_unreachable": ("No answer from {url}: {error}", "{url} 没有应答：{error}"),
        "mcp_status": ("The server answered with HTTP status {status}.", "它以 HTTP 状态 {status} 应答。"),
        "mcp_login": (
            "The server requires a login. A person has to run: pal mcp login {server}",
            "它要求登录。需要有人运行：pal mcp login {server}",
        ),
        "mcp_login_failed": ("The login failed: {error}", "登录不成功：{error}"),
        "mcp_issuer": (
            "The login failed: the server redirects to {found}, not to the issuer {issuer!r}.",
            "登录不成功：服务器指向 {found}，而不是颁发者 {issuer!r}。",
        ),
        "mcp_protocol": (
            "The server's answer is not valid MCP: {error}",
            "它的应答不是此处可理解的 MCP：{error}",
        ),
        "mcp_rest": ("the rest of the list", "列表的其余部分"),
        "mcp_left_out": ("{what}: {name} is left out: {why}", "{what}：已略去 {name}：{why}"),
        "mcp_field_left_out": (
            "{what}: a field of {name} is left out: {why}",
            "{what}：已略去 {name} 的一个字段：{why}",
        ),
        "mcp_same_name": ("another one has the same name", "已有同名项"),
        "mcp_no_object": ("its schema does not describe an object", "其 schema 描述的不是对象"),
        "mcp_too_deep": ("its schema is nested too deeply", "其 schema 嵌套过深"),
        "mcp_too_long": (
            "its schema has more than {most:,} characters",
            "其 schema 超过 {most:,} 个字符",
        ),
        "mcp_no_json": ("the server's answer cannot be parsed", "其应答无法读取"),
        "mcp_said": ("Its output: {text}", "它的输出：{text}"),
        "mcp_wait": (
            "The server failed {count} times in a row; the next start is in {seconds:.0f} seconds. {why}",
            "它连续失败 {count} 次，{seconds:.0f} 秒后再启动。{why}",
        ),
        "mcp_lost": (
            (
                "The connection to the MCP server '{server}' was lost during the call; its effects "
                "are unknown. {why}"
            ),
            "调用期间与 MCP 服务器 '{server}' 的连接中断；不知道它做了什么。{why}",
        ),
        "mcp_failed": (
            "The MCP server '{server}' cannot be used. {why}",
            "无法使用 MCP 服务器 '{server}'。{why}",
        ),
        "mcp_refused": (
            "The MCP server '{server}' rejected the request: {error}",
            "MCP 服务器 '{server}' 拒绝：{error}",
        ),
        "mcp_prompt_takes": ("{error} The prompt's arguments: {names}.", "{error} 其参数：{names}。"),
        "mcp_no_text": ("(the tool gave no result)", "（工具没有给出结果）"),
        "mcp_no_base64": ("[{kind} with invalid base64]", "［{kind}：不是有效的 base64］"),
        "mcp_link": ("[resource {uri}{about}]", "［资源 {uri}{about}］"),
        "mcp_resource": ("[resource {uri}]\n{text}", "［资源 {uri}］\n{text}"),
        "mcp_changed": (
            "The MCP server '{server}' has changed this tool. Call it without arguments to ask a person.",
            "MCP 服务器 '{server}' 更改了此工具的说明。不带参数调用它可请人确认。",
        ),
        "mcp_agree": (
            (
                "the MCP server '{server}' has changed the description of its tool {tool!r}. New "
                "description: {text}"
            ),
            "MCP 服务器 '{server}' 更改了其工具 {tool!r} 的说明。现在的说明：{text}",
        ),
        "mcp_not_agreed": (
            (
                "The MCP server '{server}' has changed this tool. A person must approve it: pal mcp "
                "test {server} --agree"
            ),
            "MCP 服务器 '{server}' 更改了此工具。需有人同意：pal mcp test {server} --agree",
        ),
        "mcp_agreed": (
            (
                "A person approved the change. The tool is available from the next step on, with its "
                "new description."
            ),
            "已有人同意。该工具从下一步起可按其说明调用。",
        ),
        "mcp_wrong_value": (
            "The answer for {field!r} is not of the requested type ({kind}).",
            "{field!r} 的回答不符合所要求的类型（{kind}）。",
        ),
        "mcp_list_resources": (
            "List the resources and URI templates of the MCP server '{server}'.",
            "列出 MCP 服务器 '{server}' 可读取的资源及其地址模板。",
        ),
        "mcp_read_resource": (
            "Read a resource of the MCP server '{server}' by its URI.",
            "按地址（uri）读取 MCP 服务器 '{server}' 的资源。",
        ),
        "mcp_no_resources": ("The server has no resources.", "没有资源。"),
        "mcp_asks": ("The MCP server '{server}' asks: {text}", "MCP 服务器 '{server}' 询问：{text}"),
        "mcp_asks_field": ("{text} [{field}: {kind}]", "{text}［{field}：{kind}］"),
        "mcp_asks_url": ("{text} Open this address: {url}", "{text} 请打开此地址：{url}"),
        "mcp_asks_model": (
            "The MCP server '{server}' asks your model to answer this, at your cost: {text}",
            "MCP 服务器 '{server}' 想让您的模型回答以下内容，费用由您承担：{text}",
        ),
        "mcp_more_logs": (
            "The MCP server '{server}' sent more messages than shown here. See its log.",
            "MCP 服务器 '{server}' 的消息过多，其余见其日志。",
        ),
        "mcp_nobody": ("No person can be asked here.", "此处无人可问。"),
    }
)
