"""Compare system prompts with one model over small tasks, in pairs; used by `benchmarks.first_request`."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.small_tasks import TASKS, SmallTask
from pure_agent_loop import Agent, LoopLimits
from pure_agent_loop.evaluation import Case, Dataset, EvaluationReport, Trial
from pure_agent_loop.evaluation.outcomes import CaseOutcome
from pure_agent_loop.llm.base import ChatModel
from pure_agent_loop.llm.tool_modes.client import ToolMode
from pure_agent_loop.toolbox import workspace_tools

MAX_STEPS, MAX_SECONDS = 15, 300.0


@dataclass(frozen=True, slots=True)
class PromptTrials:
    """Trials of prompts, whose outcomes are kept in a folder.

    Args:
        model: The model.
        tool_mode: Format of its calls.
        prompts: System prompts, by name.
        out: Folder of the outcomes, which a later call reads, and of the tasks' folders.
    """

    model: ChatModel
    tool_mode: ToolMode
    prompts: Mapping[str, str]
    out: Path

    def run(
        self, tasks: Sequence[SmallTask] = TASKS, repeats: int = 1, seconds: float | None = None
    ) -> dict[str, EvaluationReport]:
        """Return a report for each prompt. Each task is done with all prompts, one after the other.

        Args:
            tasks: The tasks.
            repeats: Times that each task is done.
            seconds: Time after which no task is begun; None for no limit.
        """
        outcomes: dict[str, list[CaseOutcome]] = {name: [] for name in self.prompts}
        begun = time.monotonic()
        for repeat in range(1, repeats + 1):
            for number, task in enumerate(tasks):
                if seconds is not None and time.monotonic() - begun > seconds:
                    break
                names = list(self.prompts)  # each prompt is the first one of every second pair
                for name in names if (number + repeat) % 2 else reversed(names):
                    outcomes[name].append(self._trial(task, name, repeat))
        return {name: EvaluationReport(name, found) for name, found in outcomes.items()}

    def _trial(self, task: SmallTask, name: str, repeat: int) -> CaseOutcome:
        folder = self.out / "folders" / name / task.name
        shutil.rmtree(folder, ignore_errors=True)
        for path, text in task.files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)

        def done(trial: Trial) -> bool:
            try:
                return task.grade(folder, trial.text)
            except (OSError, ValueError):
                return False

        agent = Agent(
            llm=self.model,
            system_prompt=self.prompts[name],
            tools=workspace_tools(folder),
            tool_mode=self.tool_mode,
            limits=LoopLimits(max_steps=MAX_STEPS, timeout=MAX_SECONDS),
        )
        dataset = Dataset([Case(task.text, name=task.name, evaluators=[done])], name=name)
        file = self.out / f"{name}-{task.name}-{repeat}.jsonl".replace(" ", "-")
        report = dataset.run(agent, seed=repeat, out=file)
        return replace(report.outcomes[0], repeat=repeat)
