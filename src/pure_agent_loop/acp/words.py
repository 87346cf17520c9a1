"""Texts for models about editor content, and texts that people read in the editor."""

from __future__ import annotations

from pure_agent_loop.support.language import Sentences

message = Sentences(
    {
        "link": ("{name}: {place}", "{name}：{place}"),
        "resource": (
            '<file path="{place}">\n{text}\n</file>',
            '<文件 路径="{place}">\n{text}\n</文件>',
        ),
        "left_out": (
            "({count} characters more; read the file to see them)",
            "（其后还有 {count} 个字符；需要时请读取该文件）",
        ),
        "attached": ("(attached: {place})", "（附件：{place}）"),
        "not_readable": (
            "({place} was attached; its type {kind} cannot be read)",
            "（附有 {place}；其类型为 {kind}，此处无法读取）",
        ),
        "editor_failed": (
            "The editor could not write {path}: {why}",
            "编辑器没有写入 {path}：{why}",
        ),
        "editor_changed": (
            "{path} was moved or replaced during the access. Read it again.",
            "编辑器写入期间 {path} 的位置变了。请重新查看。",
        ),
        "task": (
            "{agent}: {state}, {calls} calls, {tokens} tokens",
            "{agent}：{state}，{calls} 次调用，{tokens} 个 token",
        ),
        "again": ("(the answer starts again)", "（回答重新开始）"),
        "allow_once": ("Allow", "允许"),
        "allow_session": ("Allow in this session: {rules}", "本会话中允许：{rules}"),
        "allow_folder": ("Always allow in this folder: {rules}", "在此文件夹中总是允许：{rules}"),
        "reject_once": ("Reject", "拒绝"),
        "reject_session": ("Reject in this session: {rules}", "本会话中拒绝：{rules}"),
        "answer": ("Your answer", "你的回答"),
        "yes": ("Yes", "是"),
        "no": ("No", "否"),
        "trust": ("Trust this folder?", "信任此文件夹吗？"),
        "goes_on": ("continue the interrupted task", "继续先前未完成的工作"),
        "mode": ("Permission mode", "权限模式"),
        "thought_level": ("Thinking", "思考"),
        "mode_ask": ("Ask before changes", "可能改动内容的操作都先询问"),
        "mode_auto": ("Allow everything that no rule denies", "允许规则未禁止的一切"),
        "mode_plan": ("Read only, and plan", "只读取和规划"),
        "mode_bypass": ("Never ask", "从不询问"),
    }
)
