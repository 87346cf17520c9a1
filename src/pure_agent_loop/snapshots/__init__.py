"""Snapshots of a workspace: what each step changed, and how to undo it."""

from __future__ import annotations

from pure_agent_loop.snapshots.values import Conflict, SnapshotError, StepInfo, UndoReport
from pure_agent_loop.snapshots.workspace import WorkspaceSnapshots

__all__ = ["Conflict", "SnapshotError", "StepInfo", "UndoReport", "WorkspaceSnapshots"]
