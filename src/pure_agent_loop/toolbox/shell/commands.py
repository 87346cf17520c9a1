"""What is known of harmless commands: for each the options and operands with which it only looks.

An option that is not here is asked about, so a forgotten one costs a question and never a file.
In `long`, ``name`` takes no value, ``name=`` one (text), ``name=@`` the path of a file to read,
``name=?`` one or none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

Operands = Literal["paths", "text", "none"]


@dataclass(frozen=True)
class Command:
    """How a command may be called without a question.

    Args:
        short: Letters that take no value.
        takes: Letters that take a value which is text or a number.
        files: Letters that take the path of a file to read.
        optional: Letters whose value can only be attached.
        long: Long options, apart by blanks; see the head of this module.
        operands: What the operands are: paths inside the workspace, any text, or none at all.
        text: So many of the first operands are text (a pattern), the rest paths.
        pattern: Options that stand for the pattern, so that no operand is text.
        most: At most so many operands.
        numbers: ``-5`` is an option.
        any_option: None of its options, known or not, can do more than look, so names that begin with
        a dash do no harm.
        needs: One of these options must be there.
    """

    short: str = ""
    takes: str = ""
    files: str = ""
    optional: str = ""
    long: str = ""
    operands: Operands = "paths"
    text: int = 0
    pattern: str = ""
    most: int | None = None
    numbers: bool = False
    any_option: bool = False
    needs: str = ""


_SUMS = Command(
    "bctwz", long="binary check tag text zero ignore-missing quiet status strict warn", any_option=True
)
_GREP = Command(
    "EFGPivwxyclLqosbHhnTZzaIrRU",
    takes="emABCdD",
    files="f",
    long="extended-regexp fixed-strings basic-regexp perl-regexp regexp= file=@ ignore-case no-ignore-case "
    "invert-match word-regexp line-regexp count color=? colour=? files-without-match files-with-matches "
    "max-count= only-matching quiet silent no-messages byte-offset with-filename no-filename label= "
    "line-number "
    "initial-tab null after-context= before-context= context= text binary-files= devices= directories= "
    "exclude= "
    "exclude-from=@ exclude-dir= include= recursive dereference-recursive line-buffered null-data",
    text=1,
    pattern="-e --regexp -f --file",
    numbers=True,
    any_option=True,
)

COMMANDS: Final[dict[str, Command]] = {
    ":": Command(operands="text"),
    "[": Command(operands="text"),  # looked into by itself
    "arch": Command(operands="none"),
    "b2sum": _SUMS,
    "bc": Command("lqs", operands="none"),
    "fd": Command(
        "HIusigFaLp0",
        "edtESj",
        long="hidden no-ignore extension= type= max-depth= exclude= glob absolute-path full-path ignore-case "
        "case-sensitive follow print0",
        text=1,
    ),
    "gzip": Command("lv", needs="-l"),
    "help": Command("dms", operands="text"),
    "history": Command(operands="none"),
    "lsof": Command("Pnt", "iup"),
    "netstat": Command("tulnpaesri", operands="none"),
    "shuf": Command("erz", "n", long="echo repeat zero-terminated head-count="),
    "ss": Command("tuxlnpaemsoi46H", operands="none"),
    "tokei": Command(),
    "whereis": Command("bmsu", operands="text"),
    "zcat": Command("f"),
    "base32": Command("di", "w", long="decode ignore-garbage wrap="),
    "base64": Command("di", "w", long="decode ignore-garbage wrap="),
    "basename": Command("az", "s", long="multiple suffix= zero", operands="text", any_option=True),
    "cal": Command("13my", operands="text"),
    "cat": Command(
        "AbeEnstTuv",
        long="show-all number-nonblank show-ends number squeeze-blank show-tabs show-nonprinting",
        any_option=True,
    ),
    "cd": Command("LP", most=1),
    "cksum": Command(),
    "cmp": Command(
        "bls", "in", long="print-bytes verbose quiet silent bytes= ignore-initial=", any_option=True
    ),
    "column": Command(
        "texnL", "scoNRTHWE", long="table separator= output-separator= columns=", any_option=True
    ),
    "comm": Command(
        "123z", long="check-order nocheck-order output-delimiter= total zero-terminated", any_option=True
    ),
    "cut": Command(
        "snz",
        "bcdf",
        long="bytes= characters= delimiter= fields= complement only-delimited output-delimiter= "
        "zero-terminated",
        any_option=True,
    ),
    "date": Command(
        "uR", "d", "r", "I", long="date= reference=@ iso-8601=? utc universal rfc-3339= rfc-email"
    ),
    "df": Command(
        "ahHiklPT",
        "txB",
        long="all human-readable si inodes local portability type= exclude-type= print-type total",
    ),
    "diff": Command(
        "qsceunypNrwbBiEZatT",
        "UCWIxF",
        long="normal brief report-identical-files context=? unified=? ed rcs side-by-side width= left-column "
        "suppress-common-lines show-c-function show-function-line= label= expand-tabs initial-tab recursive "
        "no-dereference new-file unidirectional-new-file ignore-case ignore-tab-expansion "
        "ignore-trailing-space "
        "ignore-space-change ignore-all-space ignore-blank-lines ignore-matching-lines= "
        "strip-trailing-cr text "
        "exclude= minimal speed-large-files color=?",
        numbers=True,
        any_option=True,
    ),
    "dirname": Command("z", long="zero", operands="text", any_option=True),
    "du": Command(
        "0abcDhHklLmPsSx",
        "dtB",
        long="all apparent-size bytes total human-readable si summarize max-depth= threshold= exclude= "
        "one-file-system "
        "separate-dirs dereference time=?",
        any_option=True,
    ),
    "echo": Command(operands="text"),
    "expand": Command("i", "t", long="initial tabs=", any_option=True),
    "expr": Command(operands="text"),
    "factor": Command(operands="text"),
    "false": Command(operands="text"),
    "file": Command(
        "bikLhNnprs0", "F", long="brief mime mime-type mime-encoding dereference keep-going extension"
    ),
    "fmt": Command("cstu", "wg", long="width= goal=", any_option=True),
    "fold": Command("bs", "w", long="bytes spaces width=", any_option=True),
    "free": Command("bkmghtwl", long="human mega giga total wide", operands="none"),
    "getconf": Command(operands="text", most=1),
    "grep": _GREP,
    "egrep": _GREP,
    "fgrep": _GREP,
    "groups": Command(operands="none"),
    "head": Command(
        "qvz", "cn", long="bytes= lines= quiet silent verbose zero-terminated", numbers=True, any_option=True
    ),
    "hexdump": Command("bcCdovx", "ens", any_option=True),
    "hostname": Command("fsiId", operands="none"),
    "id": Command("agGnruz", long="group groups name real user zero", operands="text"),
    "join": Command("iz", "aejotv12", long="ignore-case header check-order nocheck-order", any_option=True),
    "locale": Command("a", operands="none"),
    "ls": Command(
        "aAbBcCdfFgGhHiklLmnNopqQrRsStuUvxXZ1",
        "ITw",
        long="all almost-all author escape block-size= ignore-backups color=? directory dired "
        "classify=? file-type "
        "format= full-time group-directories-first no-group human-readable si dereference-command-line hide= "
        "hyperlink=? indicator-style= inode ignore= kibibytes dereference numeric-uid-gid literal "
        "hide-control-chars "
        "show-control-chars quote-name quoting-style= reverse recursive size sort= time= time-style= "
        "tabsize= width= "
        "context zero",
        any_option=True,
    ),
    "lscpu": Command("e", operands="none"),
    "md5sum": _SUMS,
    "nl": Command("p", "bdfhilnsvw", long="body-numbering= number-width= number-separator=", any_option=True),
    "nproc": Command(long="all ignore=", operands="none"),
    "od": Command("abcdfilosxv", "AjNtSw", any_option=True),
    "paste": Command("sz", "d", long="delimiters= serial zero-terminated", any_option=True),
    "pgrep": Command("afilnovx", "u", operands="text", most=1),
    "printf": Command(operands="text"),  # looked into by itself
    "pwd": Command("LP", operands="none"),
    "readlink": Command("efmnqsvz", long="canonicalize canonicalize-existing no-newline", any_option=True),
    "realpath": Command(
        "eLmPqsz",
        long="relative-to=@ relative-base=@ canonicalize-missing strip no-symlinks",
        any_option=True,
    ),
    "rev": Command(any_option=True),
    "rg": Command(
        "acFhHiIlLnNopPqsSuUvVwx0.b",
        "ABCeEgjmMrtTd",
        "f",
        long="after-context= auto-hybrid-regex before-context= binary byte-offset case-sensitive color= "
        "column context= "
        "context-separator= count count-matches crlf debug encoding= engine= file=@ files files-with-matches "
        "files-without-match fixed-strings follow glob= glob-case-insensitive heading help hidden "
        "iglob= ignore-case "
        "invert-match json line-buffered line-number line-regexp max-columns= max-columns-preview "
        "max-count= max-depth= "
        "max-filesize= multiline multiline-dotall no-config no-filename no-heading no-ignore no-ignore-dot "
        "no-ignore-parent no-ignore-vcs no-line-number no-messages null null-data one-file-system "
        "only-matching "
        "passthru pcre2 pretty quiet regexp= replace= smart-case sort= sortr= stats text threads= trim type= "
        "type-not= type-list unrestricted version vimgrep with-filename word-regexp",
        text=1,
        pattern="-e --regexp -f --file --files --type-list --version -V",
    ),
    "seq": Command("w", "fs", long="equal-width format= separator=", operands="text", numbers=True),
    "sha1sum": _SUMS,
    "sha224sum": _SUMS,
    "sha256sum": _SUMS,
    "sha384sum": _SUMS,
    "sha512sum": _SUMS,
    "sleep": Command(operands="text"),
    "sort": Command(
        "bcCdfghiMmnRrsuVz",
        "kt",
        long="ignore-leading-blanks dictionary-order ignore-case general-numeric-sort "
        "human-numeric-sort month-sort "
        "numeric-sort random-sort reverse sort= version-sort check=? debug key= merge stable "
        "field-separator= unique "
        "zero-terminated",
    ),
    "stat": Command("Lft", "c", long="dereference file-system format= printf= terse", any_option=True),
    "strings": Command("af", "tn", long="all bytes= radix=", numbers=True),
    "sum": Command("rs", any_option=True),
    "tac": Command("br", "s", long="before regex separator=", any_option=True),
    "tail": Command(
        "fFqvz",
        "cns",
        long="bytes= follow=? lines= pid= quiet retry silent sleep-interval= verbose zero-terminated",
        numbers=True,
        any_option=True,
    ),
    "test": Command(operands="text"),  # looked into by itself
    "tr": Command("cCdst", long="complement delete squeeze-repeats truncate-set1", operands="text"),
    "tree": Command(
        "adfhiInpsugDFrtvcUJXCAS",
        "LIP",
        long="noreport dirsfirst gitignore filelimit= prune du si inodes device matchdirs ignore-case "
        "sort= timefmt=",
    ),
    "true": Command(operands="text"),
    "tty": Command("s", operands="none"),
    "type": Command("afptP", operands="text"),
    "uname": Command("asnrvmpio", long="all kernel-name nodename kernel-release machine", operands="none"),
    "unexpand": Command("a", "t", any_option=True),
    "uniq": Command(
        "cdDiuz",
        "fsw",
        long="count repeated unique ignore-case skip-fields= skip-chars= check-chars=",
        most=1,
    ),
    "unzip": Command("lvZ1", most=1, needs="-l -v -Z"),
    "uptime": Command("ps", operands="none"),
    "wc": Command("cmlLw", long="bytes chars lines max-line-length words", any_option=True),
    "which": Command("as", operands="text"),
    "whoami": Command(operands="none"),
    "xxd": Command("abceEipu", "cglos", most=1),
}
"""Plain commands. Those with a language of their own (find, sed, git, jq ...) have readers elsewhere."""

VERSIONS: Final[dict[str, frozenset[str]]] = {
    **dict.fromkeys(
        ("gcc", "g++", "clang", "make", "cmake", "bash", "sh", "curl", "docker"), frozenset({"--version"})
    ),
    **dict.fromkeys(("git", "rg", "jq", "ruff", "sed", "awk", "tar", "uv"), frozenset({"--version"})),
    **dict.fromkeys(("python", "python3"), frozenset({"--version", "-V", "-VV"})),
    **dict.fromkeys(("node", "npm"), frozenset({"--version", "-v"})),
    **dict.fromkeys(("ruby", "perl", "php"), frozenset({"--version", "-v"})),
    **dict.fromkeys(("pip", "pip3"), frozenset({"--version", "-V"})),
    **dict.fromkeys(
        [
            *("mypy", "black", "tsc", "eslint", "prettier", "deno", "bun", "psql", "sqlite3", "gh", "isort"),
            *("clang++", "ninja", "zsh", "dash", "tmux", "wget", "ghc", "cc"),
        ],
        frozenset({"--version"}),
    ),
    **dict.fromkeys(("ffmpeg", "ffprobe"), frozenset({"-version"})),
    "tput": frozenset({"cols", "lines", "colors"}),
    "java": frozenset({"-version", "--version"}),
}
"""Programs whose version may be asked. Not those that read from the folder which program they are
(yarn, cargo, go)."""

ENVIRONMENT: Final = re.compile(
    r"(?:LC_[A-Z]+|LANG|LANGUAGE)=(?:C|POSIX|C\.UTF-8|C\.utf8|en_US\.UTF-8)|TZ=(?:UTC|UTC0)|NO_COLOR=1"
    r"|COLUMNS=\d+|(?:PAGER|GIT_PAGER)=cat|GIT_OPTIONAL_LOCKS=0"
)
"""What may be set in front of a harmless command."""

VARIABLES: Final = frozenset(
    {"?", "#", "PWD", "OLDPWD", "HOME", "USER", "SHELL", "PATH", "LANG", "TERM", "HOSTNAME"}
)
"""Variables that may be shown. Any other could hold a secret."""

WRAPPERS: Final[dict[str, tuple[Command, int]]] = {
    "command": (Command("p"), 0),
    "env": (Command(), 0),
    "ionice": (Command("t", "cn"), 0),
    "nice": (Command("", "n", long="adjustment=", numbers=True), 0),
    "stdbuf": (Command("", "ioe", long="input= output= error="), 0),
    "time": (Command("p"), 0),
    "timeout": (Command("v", "ks", long="foreground preserve-status kill-after= signal= verbose"), 1),
}
"""Commands that run the command behind them and change nothing else: their options, and how many words
come first."""

RUNNERS: Final = frozenset(
    [
        "builtin",
        "busybox",
        "chroot",
        "chrt",
        "coproc",
        "doas",
        "eval",
        "exec",
        "fakeroot",
        "find",
        "firejail",
        "flock",
        "nohup",
        "nsenter",
        "parallel",
        "pkexec",
        "proot",
        "runuser",
        "script",
        "setarch",
        "setpriv",
        "setsid",
        "strace",
        "ltrace",
        "su",
        "sudo",
        "systemd-run",
        "taskset",
        "toybox",
        "trap",
        "unbuffer",
        "unshare",
        "watch",
        "xargs",
        "xvfb-run",
        "linux32",
        "linux64",
        "prlimit",
        "cgexec",
        "time",
        "timeout",
        "env",
        "nice",
    ]
)
"""Commands that may run the command behind them; what a deny or ask rule names is looked for in them too."""

SHELLS: Final = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "rbash"})
