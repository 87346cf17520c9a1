"""Reasons for allowing, asking about or denying a shell line, in English and Chinese."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pure_agent_loop.support.language import Sentences

message = Sentences(
    {
        "shell_stops_machine": ("stops the machine", "会停止机器"),
        "shell_makes_file_system": ("overwrites data with a new file system", "会在已有内容上建立文件系统"),
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
            "the command name must be a plain word, without assignments",
            "命令必须直接写出名称，且不得设置变量",
        ),
        "shell_git_elsewhere": (
            "git in another folder may read a different configuration",
            "在其他文件夹中 git 可能读取另一份配置",
        ),
        "shell_git_starts": (
            "the configuration, hooks or submodules of the repository here may start programs",
            "这里的仓库的配置、钩子或子模块可能会启动程序",
        ),
        "shell_program_of_folder": (
            "{name} is a program in the workspace itself",
            "{name} 是该文件夹自带的程序",
        ),
        "shell_option_unknown": (
            "unknown option {word}",
            "未知选项 {word}",
        ),
        "shell_link_out": (
            "{word} leads, or may lead, out of the workspace through a link",
            "{word} 通过链接通向或可能通向工作区之外",
        ),
        "shell_not_approved": ("{name} is not approved", "{name} 未获批准"),
        "shell_sets_variable": ("it sets a variable", "它设置变量"),
        "shell_not_known_before": ("{word} is known only at run time", "{word} 在运行之前无法确定"),
        "shell_outside": ("{word} is outside the workspace", "{word} 在工作区之外"),
        "shell_feeds_unknown": ("its input is unknown", "输入内容未知"),
        "shell_redirection_unknown": ("unknown redirection", "未知的重定向"),
        "shell_reads_unknown": (
            "its input may lie outside the workspace",
            "不能确定它读取的内容在工作区之内",
        ),
        "shell_writes_file": ("it writes a file", "它写入文件"),
        "shell_deny_rule": ("the deny rule {rule!r}", "禁止规则 {rule!r}"),
        "shell_ask_rule": ("the ask rule {rule!r}", "询问规则 {rule!r}"),
        "shell_allow_rule": ("the allow rule {rule!r}", "允许规则 {rule!r}"),
        "shell_changes_nothing": ("known to be read-only", "已知不会改动任何东西"),
        "shell_too_many_levels_line": (
            "the line cannot be parsed: too many levels",
            "无法解析这一行：层次过多",
        ),
        "shell_not_judged": (
            "the line could not be checked ({error}): shorten it, or split it into several",
            "无法判断这一行（{error}）：请写得更短，或分成几行",
        ),
        "shell_unsure": ("the line cannot be parsed reliably: {trouble}", "无法确切解析这一行：{trouble}"),
        "shell_no_command": ("it contains no command", "其中没有命令"),
        "shell_too_many_levels": ("too many levels", "层次过多"),
        "shell_syntax_error": ("a syntax error", "语法错误"),
        "shell_construct": ("an unsupported construct ({what})", "未加分析的结构（{what}）"),
        "shell_word": ("an unsupported word ({what})", "未加分析的词（{what}）"),
        "shell_assignment": ("an unsupported assignment", "未加分析的赋值"),
        "shell_redirection": ("an unsupported redirection", "未加分析的重定向"),
        "shell_here_document": ("a here-document", "here 文档"),
        "shell_loop": ("an unsupported loop", "未加分析的循环"),
        "shell_test": ("an unsupported test", "未加分析的条件测试"),
        "shell_brace_options": (
            "a brace expansion into options, or into many words",
            "生成选项或许多词的花括号展开",
        ),
        "shell_brace": ("a brace expansion", "花括号展开"),
        "shell_hash_word": ("a word that begins with #", "以 # 开头的词"),
        "shell_open_quote": ("an unclosed quote", "未闭合的引号"),
        "shell_expansion": ("the expansion {what}", "展开 {what}"),
        "shell_text_between": ("text between the words", "词与词之间的文本"),
        "shell_words_touch": ("words without a space between them", "相连的词"),
        "shell_text_after": ("text after the last word", "最后一个词之后的文本"),
        "shell_command_unseen": ("a command where bash would see none", "bash 在那里看不到命令的命令"),
        "shell_word_for_command": ("a word where bash would see a command", "bash 会当作命令的词"),
        "shell_operator": ("the operator {kind!r}", "运算符 {kind!r}"),
        "shell_too_long": ("more than {count} characters", "超过 {count} 个字符"),
        "shell_no_parser": ("no parser is installed", "没有安装解析器"),
        "shell_invisible": ("the invisible character U+{code:04X}", "不可见字符 U+{code:04X}"),
        "shell_model_says": (
            "the model declared that it changes something; {reason}",
            "模型说它会改动东西；{reason}",
        ),
        "shell_tried": (
            "it was tried read-only and failed: {said}",
            "已在只读方式下试过，它需要更多：{said}",
        ),
        "shell_unheld": (
            "no sandbox: the command runs with all your rights; {reason}",
            "这里没有沙箱：命令拥有你的全部权限；{reason}",
        ),
    }
)


# -- verify a syntax tree: its words and operators must cover the line as bash would read it -------------

Tile = tuple[int, int, str]

_BEGINS = frozenset(
    {";", "\n", "&&", "||", "|", "|&", "(", "{", "!", "if", "then", "else", "elif", "while", "until", "do"}
)
_ENDS = frozenset({")", "}", "fi", "done"})


def check_tiles(
    source: str, tiles: Sequence[Tile], start: int, end: int, trouble: Callable[[str], None]
) -> None:
    """Check that bash, reading from left to right, begins its commands where the tree does."""
    beginning, before, ended = True, "", start
    for at, until, kind in tiles:
        gap = source[ended:at]
        if at < ended or gap.strip(" \t\n"):
            return trouble(message("shell_text_between"))
        if "\n" in gap:
            beginning, before = True, "\n"
        elif _need_blank(kind, before, source[at:until]) and not gap:
            return trouble(message("shell_words_touch"))
        beginning = _next(kind, beginning, trouble)
        before, ended = kind, until
    if source[ended:end].strip(" \t\n"):
        trouble(message("shell_text_after"))
    return None


def _next(kind: str, beginning: bool, trouble: Callable[[str], None]) -> bool:
    if kind in _BEGINS:
        return True
    if kind == "name" or kind in ("for", "assignment"):
        if not beginning:
            trouble(message("shell_command_unseen"))
        return kind == "assignment"
    if kind == "word" or kind == "in":
        if beginning:
            trouble(message("shell_word_for_command"))
        return False
    if kind in _ENDS:
        return False
    if kind not in ("redirect", "comment"):
        trouble(message("shell_operator", kind=kind))
    return beginning


def _need_blank(kind: str, before: str, text: str) -> bool:
    """Return True if bash needs a blank between two neighbours."""
    if kind == "comment":
        return before not in _BEGINS and before != ""
    if before in ("{", "!"):
        return True
    wordlike = kind.isalpha() and (kind != "redirect" or text[:1].isdigit())
    return wordlike and before.isalpha()
