"""Texts for a model about calls, permissions, hooks and images, in English and Chinese."""

from __future__ import annotations

from pure_agent_loop.support.language import Sentences

message = Sentences(
    {
        # -- permissions -----------------------------------------------------------------------------
        "rule_forbids": ("The rule {rule!r} forbids it.", "规则 {rule!r} 禁止这样做。"),
        "plan_mode": (
            "Only read-only tools are allowed in plan mode.",
            "在计划模式下只能使用不做任何改动的工具。",
        ),
        "rule_asks": ("the rule {rule!r}", "规则 {rule!r}"),
        "mode_asks": ("the mode 'ask'", "'ask' 模式"),
        "no_calls_left": (
            "The tool call limit is reached; this call was not made.",
            "已达到工具调用次数上限；这次调用没有执行。",
        ),
        "question_failed": ("The question failed: {error}", "询问失败：{error}"),
        "audit_lost": (
            "Records of the audit log {path} are missing: the file was moved or replaced.",
            "审计日志 {path} 中的记录不见了：日志被移走或替换。",
        ),
        "audit_damaged": (
            "Another program changed the audit log {path}; 'pal audit verify' shows where.",
            "审计日志 {path} 被其他程序改动过；用 'pal audit verify' 查看位置。",
        ),
        "nobody_to_ask": ("No user can be asked in this run.", "这次运行中没有人可以询问。"),
        "hook_failed": ("A hook failed: {error}", "钩子失败：{error}"),
        "no_before_tool": (
            "it must return a BeforeTool or None; it returned {value}.",
            "它必须返回 BeforeTool 或 None；返回的是 {value}。",
        ),
        "no_arguments": (
            "Arguments must be a dict; they are {value}.",
            "参数必须是 dict；得到的是 {value}。",
        ),
        # -- how an application describes itself -----------------------------------------------------
        "context_item": ("{about}: {value}", "{about}：{value}"),
        # -- missing tools ----------------------------------------------------------------------------
        "called_before": (
            "Used earlier in this conversation; it cannot be called now.",
            "此前的对话中使用过；现在不能调用。",
        ),
        # -- summaries -------------------------------------------------------------------------------
        "call_of": ("call of {tool}", "{tool} 的调用"),
        "result_of": ("result of {tool}", "{tool} 的结果"),
        "result_of_unknown": ("result of a call", "一次调用的结果"),
        # -- unreadable arguments --------------------------------------------------------------------
        "too_deep": ("are nested too deeply", "嵌套过深"),
        "no_json": ("are not valid JSON ({error})", "不是有效的 JSON（{error}）"),
        "no_object": ("must be a JSON object, not {kind}", "必须是 JSON 对象，而不是 {kind}"),
        "arguments": ("the arguments {problem}. You wrote: {preview}", "参数{problem}。你写的是：{preview}"),
        "cut_off": (
            "the arguments were cut off ({reason}). You wrote: {written}",
            "参数被截断（{reason}）。你写的是：{written}",
        ),
        "json_error": ("{error}", "第 {line} 行第 {column} 列有语法错误"),
        "not_allowed": ("{value} is not allowed", "不允许使用 {value}"),
        "out_of_range": ("{value} is out of range", "{value} 超出范围"),
        "key_twice": ("the key {key!r} occurs twice", "键 {key!r} 出现了两次"),
        # -- images ----------------------------------------------------------------------------------
        "image_too_large": (
            "{name}: the image has {size:,} bytes; at most {limit:,}. Make it smaller.",
            "{name}：图片有 {size:,} 字节；最多 {limit:,}。请缩小它。",
        ),
        "image_extra": (
            "pure-agent-loop[images] shrinks images automatically.",
            "安装 pure-agent-loop[images] 后会自动缩小。",
        ),
        "image_shrunk": (
            "[made smaller for the server: it was {width} x {height}, {size:,} bytes]",
            "[已为服务器缩小：原为 {width} x {height}，{size:,} 字节]",
        ),
        "no_image": (
            "{name} is not a PNG, JPEG, GIF or WebP image. Convert it to one of these.",
            "{name} 不是 PNG、JPEG、GIF 或 WebP 图片。请转换成其中之一。",
        ),
        "file_too_large": (
            "{name}: the file has {size:,} bytes; at most {limit:,}. Make it smaller.",
            "{name}：文件有 {size:,} 字节；最多 {limit:,}。请缩小它。",
        ),
        "media_is": ("[{name}{kind}, {size}{bytes:,} bytes]", "[{name}{kind}，{size}{bytes:,} 字节]"),
        "media_at": ("[{kind} at {url}]", "[{kind}，地址 {url}]"),
        "media_of": ("Media returned by {tool}:", "{tool} 的调用给出的内容："),
        "media_not_sent": ("[not shown: {why}]", "[未显示：{why}]"),
        "media_too_many": (
            "a result may hold at most {count} media of {size:,} bytes in total",
            "一个结果最多可以有 {count} 个媒体，共 {size:,} 字节",
        ),
        "media_secret": ("it holds a secret", "其中含有机密"),
        "media_refused": (
            "{what} (left out: this model does not accept it)",
            "{what}（已省略：此模型不接受）",
        ),
        "result_alone": (
            "Result of a tool call from before this history begins:\n{text}",
            "此历史记录开始之前调用的一个工具的结果：\n{text}",
        ),
        "media_gone": ("{what} (it was left out here)", "{what}（此处已省略）"),
        # -- tables and iterators --------------------------------------------------------------------
        "table_cut": (
            "({rows:,} of {all_rows:,} rows, {columns:,} of {all_columns:,} columns are shown)",
            "（显示 {all_rows:,} 行中的 {rows:,} 行、{all_columns:,} 列中的 {columns:,} 列）",
        ),
        "array_cut": (
            "(the first {count:,} of {size:,} values; shape {shape}, {dtype})",
            "（{size:,} 个值中的前 {count:,} 个；形状 {shape}，{dtype}）",
        ),
        "pieces_cut": (
            "[stopped after {count:,} characters: the tool kept producing output]",
            "[在 {count:,} 个字符后停止：工具一直在输出]",
        ),
        "image_damaged": (
            "{name}: the image is damaged or cut off. Get a complete copy.",
            "{name}：图片已损坏或不完整。请获取完整的副本。",
        ),
        "image_sides": (
            "{name}: the image is {width} x {height}; each side may be 1 to {limit} pixels. Resize it.",
            "{name}：图片为 {width} x {height}；每边须为 1 到 {limit} 像素。请调整大小。",
        ),
        # -- destructive calls, corrections, foreign results ---------------------------------------------
        "destructive": (
            "its effect cannot be undone",
            "其结果无法撤销",
        ),
        "arguments_changed": (
            "(The arguments of this call were changed before it ran. It ran with: {args})",
            "（本次调用的参数在运行前被修改。实际使用的参数：{args}）",
        ),
        "retries_left": ("Corrections left: {left}.", "剩余更正次数：{left}。"),
        "retries_used_up": (
            "It failed too often and is refused from now on. Find another way, or explain why there is none.",
            "更正次数已用完，此后会被拒绝。请换一种方法，或说明为什么无法继续。",
        ),
        "made_elsewhere": (
            "{tool!r} runs outside this process and cannot be called here",
            "{tool!r} 的结果在别处产生，不能在这里调用",
        ),
        "result_awaited": (
            "The result is made elsewhere and has not come yet.",
            "结果在别处产生，尚未送达。",
        ),
        "tool_left_out": ("The tool {tool} is left out: {why}", "已略去工具 {tool}：{why}"),
        "tool_same_name": (
            "another tool has this name. toolsets.prefixed(tools, 'x_') gives a toolset other names.",
            "已有同名工具。toolsets.prefixed(tools, 'x_') 可为工具集改名。",
        ),
        "tool_no_tool": ("{owner} must return a list of Tools", "{owner} 必须返回由 Tool 组成的列表"),
        "toolset_failed": ("the toolset {name} failed: {error}", "工具集 {name} 失败：{error}"),
        # -- typed answers ---------------------------------------------------------------------------
        "typed_answer": (
            "Your final answer must be one JSON value of this JSON Schema, nothing around it:\n{schema}",
            "你的最终回答必须是一个符合以下 JSON Schema 的 JSON 值，前后不要有任何内容：\n{schema}",
        ),
        "final_result": (
            "Submit the final answer and end the task. Call it once, when you know the answer.",
            "给出最终回答并结束任务。知道答案后调用一次。",
        ),
        "correct_answer": (
            "Your answer cannot be used: {why}\nGive the whole answer again, corrected.",
            "你的回答无法使用：{why}\n请更正后重新给出完整的回答。",
        ),
        "answer_no_json": (
            "it is not JSON of the required form. The JSON Schema is {schema}",
            "它不是所要求形式的 JSON 值。JSON Schema 为 {schema}",
        ),
        # -- tools with an unusual end ---------------------------------------------------------------
        "cancelled_itself": ("the tool cancelled itself", "工具自行取消"),
        "raised_cancelled": ("the tool raised CancelledError", "工具抛出了 CancelledError"),
        "interrupted": ("interrupted", "被中断"),
    }
)
