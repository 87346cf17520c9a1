"""Why a shell line is allowed, asked about or refused, in English and Chinese."""

from __future__ import annotations

from pure_agent_loop.support.language import Sentences

say = Sentences(
    {
        "shell_stops_machine": ("stops the machine", "会停止机器"),
        "shell_makes_file_system": ("makes a file system over what is there", "会在已有内容上建立文件系统"),
        "shell_over_device": ("writes over a device", "会覆盖设备"),
        "shell_ends_all": ("ends every process", "会结束所有进程"),
        "shell_removes_whole": ("removes a whole system or home", "会删除整个系统或主目录"),
        "shell_rights_of_whole": (
            "changes the rights of a whole system or home",
            "会更改整个系统或主目录的权限",
        ),
        "shell_moves_whole": ("moves a whole system or home", "会移动整个系统或主目录"),
        "shell_fork_bomb": ("a fork bomb", "是 fork 炸弹"),
        "shell_not_plain": (
            "a command must be named plainly, and set nothing",
            "命令必须直接写出名称，且不得设置变量",
        ),
        "shell_git_elsewhere": (
            "git in another folder may read another configuration",
            "在其他文件夹中 git 可能读取另一份配置",
        ),
        "shell_not_approved": ("nobody has approved {name}", "没有人批准 {name}"),
        "shell_sets_variable": ("it sets a variable", "它设置变量"),
        "shell_not_known_before": ("{word} is not known before it runs", "{word} 在运行之前无法确定"),
        "shell_outside": ("{word} is outside the workspace", "{word} 在工作区之外"),
        "shell_feeds_unknown": ("what it feeds is not known", "不知道它送入什么"),
        "shell_redirection_unknown": ("the redirection is not known", "不认识这个重定向"),
        "shell_reads_unknown": (
            "what it reads is not known to be inside",
            "不能确定它读取的内容在工作区之内",
        ),
        "shell_writes_file": ("it writes a file", "它写入文件"),
        "shell_deny_rule": ("the deny rule {rule!r}", "禁止规则 {rule!r}"),
        "shell_ask_rule": ("the ask rule {rule!r}", "询问规则 {rule!r}"),
        "shell_allow_rule": ("the allow rule {rule!r}", "允许规则 {rule!r}"),
        "shell_changes_nothing": ("known to change nothing", "已知不会改动任何东西"),
        "shell_too_many_levels_line": (
            "the line cannot be parsed: too many levels",
            "无法解析这一行：层次过多",
        ),
        "shell_unsure": ("the line cannot be parsed for sure: {trouble}", "无法确切解析这一行：{trouble}"),
        "shell_no_command": ("there is no command in it", "其中没有命令"),
        "shell_too_many_levels": ("too many levels", "层次过多"),
        "shell_syntax_error": ("an error of syntax", "语法错误"),
        "shell_construct": ("a construct that is not looked into ({what})", "未加分析的结构（{what}）"),
        "shell_word": ("a word that is not looked into ({what})", "未加分析的词（{what}）"),
        "shell_assignment": ("an assignment that is not looked into", "未加分析的赋值"),
        "shell_redirection": ("a redirection that is not looked into", "未加分析的重定向"),
        "shell_here_document": ("a here-document", "here 文档"),
        "shell_loop": ("a loop that is not looked into", "未加分析的循环"),
        "shell_test": ("a test that is not looked into", "未加分析的条件测试"),
        "shell_brace_options": (
            "a brace expansion that makes options, or many words",
            "生成选项或许多词的花括号展开",
        ),
        "shell_brace": ("a brace expansion", "花括号展开"),
        "shell_hash_word": ("a word that begins with #", "以 # 开头的词"),
        "shell_open_quote": ("an open quote", "未闭合的引号"),
        "shell_expansion": ("the expansion {what}", "展开 {what}"),
        "shell_text_between": ("text between the words", "词与词之间的文本"),
        "shell_words_touch": ("words that touch", "相连的词"),
        "shell_text_after": ("text after the last word", "最后一个词之后的文本"),
        "shell_command_unseen": ("a command where bash would see none", "bash 在那里看不到命令的命令"),
        "shell_word_for_command": ("a word where bash would see a command", "bash 会当作命令的词"),
        "shell_operator": ("the operator {kind!r}", "运算符 {kind!r}"),
        "shell_too_long": ("more than {count} characters", "超过 {count} 个字符"),
        "shell_no_parser": ("no parser is installed", "没有安装解析器"),
        "shell_invisible": ("the invisible character U+{code:04X}", "不可见字符 U+{code:04X}"),
        "shell_model_says": (
            "the model says that it changes something; {reason}",
            "模型说它会改动东西；{reason}",
        ),
        "shell_tried": (
            "tried read-only, and it needs more than that: {said}",
            "已在只读方式下试过，它需要更多：{said}",
        ),
        "shell_unheld": (
            "there is no sandbox here: the command can do all that you can; {reason}",
            "这里没有沙箱：命令能做你能做的一切；{reason}",
        ),
    }
)
