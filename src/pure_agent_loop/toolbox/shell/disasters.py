"""The short list of commands denied even without a rule, because running one by mistake is a disaster."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pure_agent_loop.support.language import model_text
from pure_agent_loop.toolbox.shell.line import ShellLine
from pure_agent_loop.toolbox.shell.words import Word
from pure_agent_loop.toolbox.shell.wrappers import base_name

_WHOLE = re.compile(
    r"(/+\.?\*?|/+(bin|boot|dev|etc|home|lib|lib64|opt|proc|root|sbin|srv|sys|usr|var|Users|System)/*\*?"
    r"|~/*\*?|\$HOME/*\*?)"
)
_DEVICE = re.compile(r"(of=)?/dev/(sd|hd|vd|xvd|nvme|mmcblk|disk|rdisk|mapper/|md|mem|kmem|port).*")
_SHUTDOWN = frozenset({"shutdown", "reboot", "halt", "poweroff"})
_BOMB = re.compile(r"([\w:.]+)\s*\(\)\s*\{[^}]*?(?<![\w:.])\1\s*\|\s*\1(?![\w:.])[^}]*\}")


def disaster(words: Sequence[Word]) -> str | None:
    """Return why a command is denied whatever the rules are, or None."""
    name, texts = base_name(words[0]), [word.text for word in words[1:]]
    if name in _SHUTDOWN or (name in ("init", "telinit") and texts[:1] in (["0"], ["6"])):
        return model_text("shell_stops_machine")
    if name == "systemctl" and set(texts) & (_SHUTDOWN | {"kexec"}):
        return model_text("shell_stops_machine")
    if re.fullmatch(r"mkfs(\..*)?|mke2fs|wipefs|blkdiscard|mkswap", name):
        return model_text("shell_makes_file_system")
    if name in ("dd", "shred", "tee", "cp", "fdisk", "parted", "sgdisk") and any(
        map(_DEVICE.fullmatch, texts)
    ):
        return model_text("shell_over_device")
    if name == "kill" and "-1" in texts[1:]:
        return model_text("shell_ends_all")
    return _whole_tree(name, texts)


def _whole_tree(name: str, texts: Sequence[str]) -> str | None:
    recursive = any(re.match(r"-[A-Za-z]*[rR]|--recursive|--no-preserve-root", text) for text in texts)
    whole = any(map(_WHOLE.fullmatch, texts))
    if name == "rm" and whole and recursive:
        return model_text("shell_removes_whole")
    if name in ("chmod", "chown", "chgrp") and whole and recursive:
        return model_text("shell_rights_of_whole")
    if name == "find" and texts and _WHOLE.fullmatch(texts[0]) and "-delete" in texts:
        return model_text("shell_removes_whole")
    if name == "mv" and whole and len(texts) > 1 and any(map(_WHOLE.fullmatch, texts[:-1])):
        return model_text("shell_moves_whole")
    return None


def disaster_of_line(text: str, line: ShellLine) -> str | None:
    """Return why a whole line is denied, as a fork bomb or for overwriting a device, or None."""
    if len(text) < 1000 and _BOMB.search(text):
        return model_text("shell_fork_bomb")
    if any(
        ">" in redirect.operator and _DEVICE.fullmatch(redirect.target.text) for redirect in line.redirects
    ):
        return model_text("shell_over_device")
    return None
