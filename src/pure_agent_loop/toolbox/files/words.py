"""Messages of the file tools for the model, in English and Chinese."""

from __future__ import annotations

from pure_agent_loop.support.language import Sentences

message = Sentences(
    {
        # -- paths -----------------------------------------------------------------------------------
        "outside": (
            (
                "{path} is outside the workspace. Use a path relative to it, for example 'docs/guide.md'; "
                "'.' is the workspace itself."
            ),
            "{path} 在工作区之外。请使用相对于工作区的路径，例如 'docs/guide.md'；'.' 是工作区本身。",
        ),
        "no_path": (
            "{path} is not a valid path. Use a plain relative path.",
            "{path} 不是有效的路径。请使用普通的相对路径。",
        ),
        "no_folder": (
            "{path} is a file, not a folder. Use read_file.",
            "{path} 是文件，不是文件夹。请用 read_file。",
        ),
        "leads_outside": (
            "{path} leads outside the workspace. Only paths inside it can be used.",
            "{path} 通向工作区之外。只能使用工作区之内的内容。",
        ),
        "through_link": (
            "{path} goes through a symbolic link that is not followed. Use the real path.",
            "{path} 经过一个不会跟随的符号链接。请使用真实路径。",
        ),
        "no_permission": (
            "{path} cannot be opened: permission denied. Use another one.",
            "{path} 无法打开：没有权限。请换一个。",
        ),
        "no_file": ("{path} is a folder, not a file.", "{path} 是文件夹，不是文件。"),
        "path_too_long": ("{path} is too long for a path.", "{path} 作为路径太长。"),
        "a_socket": (
            "{path} is not a regular file (a socket or pipe). Only files can be read.",
            "{path} 不是普通文件（是套接字或管道）。只能读取文件。",
        ),
        "disk_full": ("{path} cannot be written: the disk is full.", "{path} 无法写入：磁盘已满。"),
        "read_only_disk": (
            "{path} cannot be written: the file system is read-only.",
            "{path} 无法写入：文件系统是只读的。",
        ),
        "system_error": ("{path} cannot be opened: {error}.", "{path} 无法打开（系统错误 {code}）。"),
        "missing": ("There is no {path}. {instead}", "没有 {path}。{instead}"),
        "root_gone": (
            "The workspace {root} is gone: deleted or renamed meanwhile. Tell the person; no path works now.",
            "工作区 {root} 已不存在：期间被删除或改名。请告诉用户；恢复之前任何路径都不能使用。",
        ),
        "see_list": ("Use list_dir to see what there is.", "可用 list_dir 查看现有内容。"),
        "workspace": ("The workspace", "工作区"),
        "is_empty": ("{place} is empty.", "{place} 是空的。"),
        "dead_link": (
            "{path} is a symbolic link whose target does not exist.",
            "{path} 是指向不存在之物的符号链接。",
        ),
        "not_a_folder": ("{path} is not a folder.", "{path} 不是文件夹。"),
        "did_you_mean_path": ("Did you mean {names}?", "是否指 {names}？"),
        "place_has": (
            "{place} has: {names}. Use list_dir to see everything.",
            "{place} 中有：{names}。可用 list_dir 查看全部。",
        ),
        # -- reading ---------------------------------------------------------------------------------
        "use_list_dir": (
            "{path} is a folder. Use list_dir to see what is in it.",
            "{path} 是文件夹。请用 list_dir 查看其中的内容。",
        ),
        "a_pipe": (
            "{path} is not a regular file (a pipe or device). Only files can be read.",
            "{path} 不是普通文件（是管道或设备）。只能读取文件。",
        ),
        "hard_links": (
            (
                "{path} has {count} names (hard links), and the others may lie outside the "
                "workspace, so it is not read. Use another file, or ask the user for a copy of it or for "
                "hard_links='allow'."
            ),
            (
                "{path} 有 {count} 个名称（硬链接），其他名称可能在工作区之外，因此不读取。"
                "请使用别的文件，或请用户提供副本，或设置 hard_links='allow'。"
            ),
        ),
        "empty_folder": ("(the folder is empty)", "（文件夹是空的）"),
        "more_entries": ("[{count} more entries are not shown]", "【另有 {count} 项未显示】"),
        "entry_size": ("{name} ({size:,} bytes)", "{name}（{size:,} 字节）"),
        "entry_link": ("{name} (symbolic link)", "{name}（符号链接）"),
        "entry_other": ("{name} (not a regular file)", "{name}（不是普通文件）"),
        "no_text": (
            "{path!r} is not text: {kind}, {size:,} bytes. It cannot be shown.",
            "{path!r} 不是文本：{kind}，{size:,} 字节，无法显示。",
        ),
        "binary": ("binary data", "二进制数据"),
        "PNG image": ("PNG image", "PNG 图片"),
        "JPEG image": ("JPEG image", "JPEG 图片"),
        "GIF image": ("GIF image", "GIF 图片"),
        "PDF document": ("PDF document", "PDF 文档"),
        "ZIP archive or Office document": ("ZIP archive or Office document", "ZIP 压缩包或 Office 文档"),
        "gzip archive": ("gzip archive", "gzip 压缩包"),
        "program": ("program", "程序"),
        "Windows program": ("Windows program", "Windows 程序"),
        "SQLite database": ("SQLite database", "SQLite 数据库"),
        "GGUF model": ("GGUF model", "GGUF 模型"),
        "empty_file": ("(the file is empty)", "（文件是空的）"),
        "line_too_far": (
            (
                "{path!r} is too large to find line {line}: it is not among the first {total:,} "
                "lines. Use grep or another program."
            ),
            "{path!r} 太大，找不到第 {line} 行：它不在前 {total:,} 行之中。请用 grep 或其他程序。",
        ),
        "offset_past": (
            "{path!r} has {total} lines; offset={line} is past its end.",
            "{path!r} 有 {total} 行；offset={line} 超出了结尾。",
        ),
        "page_lines": ("lines {first}-{last} of {total}", "第 {first}-{last} 行，共 {total} 行"),
        "page_lines_more": (
            "lines {first}-{last} of more than {total}",
            "第 {first}-{last} 行，共超过 {total} 行",
        ),
        "line_cut": ("line {line} is too long and was cut", "第 {line} 行过长，已截断"),
        "changed_elsewhere": (
            "the file was changed since you last read it, so lines outside of this page may differ too",
            "自你上次读取后文件已被更改，本页之外的行也可能不同",
        ),
        "read_on": (
            "call read_file again with offset={offset} for more",
            "用 offset={offset} 再次调用 read_file 可继续",
        ),
        "picture": (
            "{path}: {kind}, {width} x {height} pixels, {size:,} bytes.",
            "{path}：{kind}，{width} x {height} 像素，{size:,} 字节。",
        ),
        # -- writing ---------------------------------------------------------------------------------
        "itself": ("{path} is the workspace itself, not a file.", "{path} 是工作区本身，不是文件。"),
        "protected": (
            (
                "{path} is protected: programs run or obey the content of {name!r} without asking, so no "
                "tool may write there. Tell the user what should be changed."
            ),
            (
                "{path} 受保护：程序会不经询问就执行或遵从 {name!r} 中的内容，"
                "因此工具不得写入。请告诉用户应改什么。"
            ),
        ),
        "not_writable": (
            "{path} is not a regular file (a pipe or device). It cannot be written.",
            "{path} 不是普通文件（是管道或设备），无法写入。",
        ),
        "marked_read_only": (
            "{path} is marked as read-only. Ask the user before changing it.",
            "{path} 被标记为只读。改动前请先询问用户。",
        ),
        "created": ("Created {path} ({lines}, {size:,} bytes).", "已创建 {path}（{lines}，{size:,} 字节）。"),
        "replaced": (
            "Replaced {path} ({lines}, {size:,} bytes).",
            "已替换 {path}（{lines}，{size:,} 字节）。",
        ),
        "changed_since_read": (
            (
                "{path} is not what it was when you last read it, so nothing was written. {what}\n"
                "Read it again, then make your change."
            ),
            "{path} 与你上次读取时已不同，因此没有写入。{what}\n请重新读取，然后再修改。",
        ),
        "changed_since_asked": (
            (
                "{path} has changed since the user was asked about this change, so nothing was written. "
                "{what}\nRead it again, then make your change."
            ),
            "{path} 在就此次修改询问用户之后已改变，因此没有写入。{what}\n请重新读取，然后再修改。",
        ),
        "not_read": (
            (
                "{path} exists already ({size:,} bytes) and you have not read it, so it was not replaced. "
                "Read it first; or change a part of it with edit_file, or write to another name."
            ),
            (
                "{path} 已存在（{size:,} 字节），而你还没有读过它，因此没有替换。"
                "请先读取；也可以用 edit_file 修改其中一部分，或写入另一个名称。"
            ),
        ),
        "what_changed": ("What changed:", "改变的内容："),
        "size_changed": (
            "It had {old:,} bytes and has {new:,} now.",
            "原为 {old:,} 字节，现为 {new:,} 字节。",
        ),
        "is_new": ("It did not exist then.", "当时它还不存在。"),
        "one_line": ("1 line", "1 行"),
        "many_lines": ("{count} lines", "{count} 行"),
        "kept_names": (
            " It had {count} more names (hard links), which keep the old content.",
            "它还有 {count} 个其他名称（硬链接），那些仍保留旧内容。",
        ),
        "too_large": (
            ("{path} would be larger than {limit:,} bytes, the limit of these tools. Use a program for it."),
            "{path} 将超过 {limit:,} 字节，这是这些工具能改动的上限。请用程序处理。",
        ),
        # -- editing ---------------------------------------------------------------------------------
        "old_text_often": (
            "old_text occurs more than {limit:,} times in {path}. Use a program.",
            "old_text 在 {path} 中出现超过 {limit:,} 次。请用程序处理。",
        ),
        "no_change": (
            "Nothing to change in {path}: old_text and new_text are the same.",
            "{path} 无需改动：old_text 与 new_text 相同。",
        ),
        "edited": ("Edited {path}", "已编辑 {path}"),
        "one_place": (".", "。"),
        "many_places": (
            " in {count} places (lines {numbers}); the first:",
            "，共 {count} 处（行号 {numbers}）；第一处：",
        ),
        "more_lines": ("[{count} more lines]", "【另有 {count} 行】"),
        "not_editable": ("{path} is not text, so it cannot be edited.", "{path} 不是文本，无法编辑。"),
        "old_text_empty": (
            "old_text is empty. Give the text to replace; to write a whole file use write_file.",
            "old_text 是空的。请给出要替换的文本；要写整个文件请用 write_file。",
        ),
        "ambiguous": (
            (
                "old_text occurs {count} times in {path}, at lines {numbers}. Add lines around "
                "it until only one place fits, or set replace_all."
            ),
            (
                "old_text 在 {path} 中出现 {count} 次，行号 {numbers}。"
                "请加上前后的行直到只有一处符合，或设置 replace_all。"
            ),
        ),
        "more_than": ("more than {count}", "超过 {count}"),
        "not_in_file": ("old_text is not in {path}.", "{path} 中没有 old_text。"),
        "differs": (
            "{start} What differs is {what}. The file has:\n{lines}",
            "{start}不同之处是{what}。文件中是：\n{lines}",
        ),
        "trailing": ("trailing spaces", "行尾的空格"),
        "indentation": ("indentation (tabs or spaces at the start of lines)", "缩进（行首的制表符或空格）"),
        "inner_spaces": ("spaces within the lines", "行内的空格"),
        "line_breaks": ("line breaks", "换行"),
        "special_spaces": ("special spaces", "特殊空格"),
        "invisible": ("invisible characters", "不可见字符"),
        "case": ("upper and lower case", "大小写"),
        "quotes": ("quotation marks", "引号"),
        "dashes": ("dashes", "连字符或破折号"),
        "alike": ("characters that look alike", "形近字符"),
        "composed": ("accents (one character, or a letter and an accent)", "重音符号（合成或分解形式）"),
        "escapes": (
            'escapes (it has line breaks, tabs or quotes instead of \\n, \\t or \\", and < instead of &lt;)',
            '转义（文件中是真正的换行、制表符或引号，而不是 \\n、\\t 或 \\"；是 < 而不是 &lt;）',
        ),
        "escaped_there": (
            'escapes (it has \\n, \\t, \\" or &lt; instead of the characters themselves)',
            '转义（文件中写的是 \\n、\\t、\\" 或 &lt;，而不是字符本身）',
        ),
        "for": ("{theirs} for your {ours}", "{theirs} 对应你的 {ours}"),
        "a_space": ("space or nothing", "空格或没有"),
        "comma": (", ", "、"),
        "nothing_similar": (
            "{start} Nothing in it is similar. Use read_file or grep to see what it has.",
            "{start}其中没有相似的内容。请用 read_file 或 grep 查看。",
        ),
        "similar": (
            "{start} The most similar lines are:\n{lines}\nUse them as they are.",
            "{start}最相似的行是：\n{lines}\n请照原样使用。",
        ),
        "numbered": ("line {number}: {line}", "第 {number} 行：{line}"),
        # -- searching -------------------------------------------------------------------------------
        "pattern_too_long": (
            "The pattern is longer than {limit} characters.",
            "模式超过 {limit} 个字符。",
        ),
        "too_many_choices": (
            "The pattern {pattern} has more than {limit} alternatives.",
            "模式 {pattern} 的选项超过 {limit} 个。",
        ),
        "pattern_relative": (
            "The pattern {pattern} must be relative, without '..'. Give the folder as path.",
            "模式 {pattern} 必须是相对的，不含 '..'。请用 path 给出文件夹。",
        ),
        "pattern_empty": (
            "The pattern is empty. Give one such as '**/*.py'.",
            "模式是空的。请给出一个，例如 '**/*.py'。",
        ),
        "only_first": (
            "[only the first {count} are shown; use a narrower pattern]",
            "【只显示前 {count} 个；请用更窄的模式】",
        ),
        "stopped": (
            "stopped after {seconds:g} seconds: use a simpler pattern or a narrower path",
            "{seconds:g} 秒后停止：请用更简单的模式或更窄的路径",
        ),
        "not_all_folders": (
            "not every folder was searched: too many, too deep, or not readable",
            "没有搜索全部文件夹：太多、太深或无法读取",
        ),
        "no_match": ("No file matches {pattern!r}.", "没有文件符合 {pattern!r}。"),
        "into_folders": ("'**/{pattern}' also looks into folders", "'**/{pattern}' 也会查找子文件夹"),
        "also_hidden": (
            "hidden=true also finds names that begin with a dot, node_modules and __pycache__",
            "hidden=true 也会查找以点开头的名称、node_modules 和 __pycache__",
        ),
        "ways": (" {ways}.", "{ways}。"),
        "grep_pattern": (
            (
                "The pattern must have 1 to {limit} characters and no line break: grep searches "
                "each line alone."
            ),
            "模式必须有 1 到 {limit} 个字符且写在一行内：grep 逐行查找。",
        ),
        "search_failed": ("the search ended early: its program failed", "搜索提前结束：其程序失败"),
        "unread_files": (
            "some files could not be read; read_file says why",
            "有些文件无法读取；read_file 会说明原因",
        ),
        "large_files": (
            "files larger than {limit:,} bytes were not searched",
            "没有搜索超过 {limit:,} 字节的文件",
        ),
        "no_line": ("No line matches.", "没有符合的行。"),
        "first_files": (
            "only the first {count} files are shown; there are more",
            "只显示前 {count} 个文件；还有更多",
        ),
        "first_matches": (
            "only the first {count} matches are shown; there are more",
            "只显示前 {count} 处；还有更多",
        ),
        "bad_regex": (
            (
                "{pattern!r} is not a valid regular expression: {problem}. Put a backslash before "
                "characters that are meant literally, for example '\\('."
            ),
            "{pattern!r} 不是有效的正则表达式。请在按字面理解的字符前加反斜杠，例如 '\\('。",
        ),
        "slow_regex": ("it takes too long to prepare", "准备时间过长"),
    }
)
