"""Messages of the ``fetch`` tool for the model, in English and Chinese."""

from __future__ import annotations

from pure_agent_loop.support.language import Sentences

message = Sentences(
    {
        "sentence": ("{text}.", "{text}。"),
        "past_text": (
            "the text has {total} characters; offset={offset} is past its end",
            "文本有 {total} 个字符；offset={offset} 超出了结尾",
        ),
        # -- addresses -------------------------------------------------------------------------------
        "url_too_long": ("the address is longer than {limit} characters", "网址超过 {limit} 个字符"),
        "url_characters": (
            "the address contains white space, a backslash or invisible characters",
            "网址含有空白、反斜杠或不可见字符",
        ),
        "url_unreadable": ("the address is not valid", "网址无效"),
        "url_scheme": (
            "only http:// and https:// addresses can be opened",
            "只能打开 http:// 和 https:// 网址",
        ),
        "url_user": (
            "addresses with a user name or password are not opened",
            "不打开含有用户名或密码的网址",
        ),
        "port_zero": ("port 0 cannot be opened", "无法打开端口 0"),
        "host_percent": ("the host name contains a % sign", "主机名含有 % 号"),
        "no_ipv6": ("the host is not an IPv6 address", "主机不是 IPv6 地址"),
        "odd_ip": (
            "the host is an IP address in an unusual spelling; write a.b.c.d or a name",
            "主机是写法特殊的 IP 地址；请写成 a.b.c.d 或名称",
        ),
        "host_unreadable": ("the host name is not valid", "主机名无效"),
        "host_denied": ("the host {host} is not allowed", "不允许访问主机 {host}"),
        "host_not_listed": (
            "the host {host} is not allowed; only: {hosts}",
            "不允许访问主机 {host}；只允许：{hosts}",
        ),
        "odd_address": (
            "the name {host} has an address that cannot be used",
            "名称 {host} 的地址无法使用",
        ),
        "no_address": ("the name {host} has no address", "名称 {host} 没有地址"),
        "port_closed": (
            "port {port} is not allowed; use a port of web servers",
            "不允许端口 {port}；请使用网页服务器的端口",
        ),
        "not_public": (
            "{host} is not a public address but {kind}; it is not opened",
            "{host} 不是公网地址，而是{kind}；不予打开",
        ),
        "link-local": ("a link-local one", "链路本地地址"),
        "a cloud provider's own": ("a cloud provider's own", "云服务商自用地址"),
        "multicast": ("a multicast one", "多播地址"),
        "unspecified": ("an unspecified one", "未指定地址"),
        "reserved": ("a reserved one", "保留地址"),
        "loopback": ("a loopback one", "本机回环地址"),
        "private": ("a private one", "私有地址"),
        # -- requests --------------------------------------------------------------------------------
        "leads_on": ("the address redirects more than {count} times", "网址跳转超过 {count} 次"),
        "no_host": (
            "the host {host} was not found",
            "没有找到主机 {host}",
        ),
        "leads_nowhere": (
            "the page redirects to an address that is not valid",
            "网页跳转到一个无效的网址",
        ),
        "leads_elsewhere": ("the page redirects, and {error}", "网页发生跳转，而{error}"),
        "leads_to_http": (
            "the page redirects from https to http, which is not secure",
            "网页从 https 跳转到不安全的 http",
        ),
        "status": ("the server answered with status {status}", "服务器返回状态 {status}"),
        "page_no_text": (
            "it is not text but {kind}, which cannot be shown",
            "它不是文本，而是 {kind}，无法显示",
        ),
        "page_kind": ("{kind}, {size:,} bytes", "{kind}，{size:,} 字节"),
        "page_kind_unsized": ("{kind}, of unknown size", "{kind}，大小未知"),
        "binary_page": ("binary data", "二进制数据"),
        "too_slow": ("the server took too long", "服务器耗时过长"),
        "certificate": ("the certificate of {host} is not valid: {error}", "{host} 的证书无效"),
        "no_tls": ("no secure connection to {host}: {error}", "无法与 {host} 建立安全连接"),
        "no_answer": ("{host} sent no valid response: {error}", "{host} 没有给出有效的响应（{kind}）"),
        "too_much": ("the server sent more than the read limit", "服务器发送的内容超出了读取上限"),
        "odd_compression": (
            "the page has an unsupported compression",
            "不支持网页的压缩方式",
        ),
    }
)
