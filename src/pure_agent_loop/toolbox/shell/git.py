"""What is known of git: how it may be asked, and the words with which it does more than that."""

from __future__ import annotations

import re
from typing import Final

from pure_agent_loop.toolbox.shell.commands import Command

_DIFF = (
    "patch no-patch unified= raw patch-with-raw minimal patience histogram diff-algorithm= stat=? "
    "numstat shortstat "
    "dirstat=? summary patch-with-stat name-only name-status color=? no-color color-moved=? word-diff=? "
    "color-words=? "
    "no-renames check full-index binary abbrev=? find-renames=? find-copies=? diff-filter= pickaxe-all "
    "pickaxe-regex "
    "relative=? text ignore-space-at-eol ignore-space-change ignore-all-space ignore-blank-lines "
    "inter-hunk-context= function-context exit-code quiet no-ext-diff no-textconv ignore-submodules=? "
    "submodule=? "
    "src-prefix= dst-prefix= no-prefix compact-summary cc"
)
_LOG = (
    _DIFF
    + " oneline graph all branches=? tags=? remotes=? decorate=? no-decorate format= pretty=? abbrev-commit "
    "no-abbrev-commit max-count= skip= since= after= until= before= author= committer= grep= all-match "
    "invert-grep "
    "regexp-ignore-case extended-regexp fixed-strings merges no-merges first-parent reverse date= date-order "
    "author-date-order topo-order follow left-right cherry-pick cherry-mark cherry walk-reflogs "
    "no-patch stdin "
    "full-history simplify-merges ancestry-path left-only right-only parents children boundary no-notes root "
    "simplify-by-decoration source"
)
_DIFF_SHORT = "puzBRawbWst"
_LIST = "sort= format= contains=? no-contains=? merged=? no-merged=? points-at= count= color=? ignore-case"

GIT: Final[dict[str, Command]] = {
    "blame": Command(
        "wbcltfnse",
        "L",
        "",
        "MC",
        long="date= porcelain line-porcelain incremental root show-email show-name abbrev=",
    ),
    "branch": Command(
        "avrq",
        "",
        long="list show-current all remotes verbose no-color color=? column=? " + _LIST,
        operands="none",
    ),
    "check-attr": Command("az", long="all cached"),
    "cherry": Command("v", long="verbose abbrev=?"),
    "fsck": Command("v", long="full strict connectivity-only no-dangling unreachable no-progress root tags"),
    "show-branch": Command("ar", long="all remotes list topo-order date-order current sha1-name"),
    "symbolic-ref": Command("q", long="short quiet no-recurse", operands="text", most=1),
    "cat-file": Command("pte", operands="text", most=1, needs="-p -t -s -e", long=""),
    "check-ignore": Command("vnq", long="verbose non-matching quiet no-index"),
    "config": Command(
        "l",
        long="get get-all get-regexp list local global system show-origin show-scope name-only type= "
        "bool int",
        operands="text",
        most=1,
        needs="-l --list --get --get-all --get-regexp",
    ),
    "count-objects": Command("vH", operands="none"),
    "describe": Command(
        long="tags always all long dirty=? abbrev= match= exclude= exact-match contains first-parent"
    ),
    "diff": Command(
        _DIFF_SHORT,
        "SGl",
        "",
        "UMCXDB",
        long=_DIFF + " no-index cached staged merge-base ours theirs base",
        operands="paths",
    ),
    "diff-tree": Command(_DIFF_SHORT + "rtmcv", "SG", "", "UMC", long=_DIFF + " no-commit-id root"),
    "for-each-ref": Command(long=_LIST),
    "grep": Command(
        "aiIwvhHEGFPnlLzocpWqr",
        "eABCm",
        long="cached untracked ignore-case word-regexp invert-match full-name extended-regexp "
        "basic-regexp perl-regexp "
        "fixed-strings line-number column files-with-matches name-only files-without-match null "
        "only-matching count "
        "color=? no-color break heading show-function context= after-context= before-context= "
        "function-context "
        "max-depth= all-match quiet and or not max-count= recursive no-recursive text",
        text=1,
        pattern="-e",
        numbers=True,
    ),
    "log": Command(_DIFF_SHORT + "igEFPc", "nSGL", "", "UMCXB", long=_LOG, numbers=True),
    "ls-files": Command(
        "zcdomiskutvf",
        "x",
        long="cached deleted others modified ignored stage unmerged exclude= exclude-standard "
        "directory no-empty-directory full-name error-unmatch eol deduplicate abbrev=? killed",
    ),
    "ls-tree": Command(
        "drtlz", long="long name-only name-status full-name full-tree abbrev=? format= object-only"
    ),
    "merge-base": Command("a", long="all octopus is-ancestor fork-point independent"),
    "name-rev": Command(long="name-only tags refs= exclude= always"),
    "reflog": Command(_DIFF_SHORT, "nSG", long=_LOG, numbers=True),
    "remote": Command("v", long="verbose", operands="none"),
    "rev-list": Command("", "n", long=_LOG + " count objects all no-walk=?", numbers=True),
    "rev-parse": Command(
        "q",
        long="verify quiet short=? abbrev-ref=? symbolic symbolic-full-name show-toplevel show-prefix "
        "show-cdup "
        "git-dir absolute-git-dir git-common-dir is-inside-work-tree is-inside-git-dir is-bare-repository "
        "is-shallow-repository all branches=? tags=? remotes=? revs-only no-revs flags no-flags "
        "show-superproject-working-tree",
    ),
    "shortlog": Command("nsec", "", "", "w", long="numbered summary email committer group= " + _LOG),
    "show": Command(_DIFF_SHORT + "c", "nSG", "", "UMC", long=_LOG + " no-walk=?", numbers=True),
    "show-ref": Command("dsqh", "", long="head heads tags dereference hash=? verify quiet abbrev=?"),
    "stash list": Command(_DIFF_SHORT, "n", long=_LOG, operands="none", numbers=True),
    "stash show": Command(_DIFF_SHORT, "", "", "U", long=_DIFF + " include-untracked only-untracked", most=1),
    "status": Command(
        "sbvzu",
        "",
        "",
        "u",
        long="short branch verbose porcelain=? long untracked-files=? ignored=? ignore-submodules=? "
        "column=? no-column ahead-behind no-ahead-behind renames no-renames find-renames=? show-stash null",
    ),
    "tag": Command("l", "", "", "n", long="list column=? " + _LIST, operands="none"),
    "version": Command(long="build-options", operands="none"),
    "whatchanged": Command(_DIFF_SHORT, "nSG", "", "UMC", long=_LOG, numbers=True),
    "worktree list": Command("vz", long="verbose porcelain", operands="none"),
}
"""What git may be asked: it only looks. Options that name a file or a program to run are left out."""

GIT_EXACT: Final = frozenset(
    {"git submodule status", "git submodule", "git var GIT_EDITOR", "git archive --list"}
)
"""What git may be asked in exactly these words."""

GIT_ELSEWHERE: Final = re.compile(
    r"git (?:branch --show-current|remote(?: -v)?|rev-parse (?:--show-toplevel|--show-prefix|--show-cdup"
    r"|--git-dir|--is-inside-work-tree|--abbrev-ref HEAD|HEAD))"
)
"""What git may be asked after ``cd``. There its configuration may come with the data and be hostile:
whatever shows a commit can run ``gpg.program`` (by ``log.showSignature`` or a ``%G?`` in ``format.pretty``),
whatever reads an object can fetch it with ``remote.*.uploadpack`` first, whatever compares files can run
filters, ``textconv`` and ``core.fsmonitor``. These only read names of branches, remotes and folders."""

GIT_GLOBAL: Final = frozenset(
    {
        "--no-pager",
        "-P",
        "--no-optional-locks",
        "--literal-pathspecs",
        "--glob-pathspecs",
        "--no-replace-objects",
    }
)

GIT_ESCAPES: Final = re.compile(
    r"-c.*|-C.*|--config-env.*|--exec.*|--git-dir.*|--work-tree.*|--out.*|-O.*|--open.*|--upload.*"
    r"|--receive.*|--ext.*"
    r"|--textconv|-x.*|--template.*|--conf.*|--separate.*|-u.*pack.*|--to-cmd.*|--cc-cmd.*|--smtp.*"
    r"|--trailer.*"
    r"|--separate-git-dir.*|--tool.*|--edit.*|ext::.*|.*filter.*|config|run|foreach|difftool|mergetool"
    r"|apply|am|archive"
    r"|bundle|submodule|hook|daemon|send-email|instaweb|credential.*|bisect|maintenance|remote-.*"
    r"|http-.*|p4|svn"
    r"|cvs.*|citool|gui|fast-.*|replace|update-index|update-ref|symbolic-ref|upload-.*|receive-pack"
    r"|shell|var|web--browse"
    r"|help|rebase|interpret-trailers|format-patch|checkout-index|merge-file|diagnose|bugreport|clone"
    r"|init|worktree"
)
"""Words with which git runs another program or writes where it is told: a rule's star does not stand
for them."""
