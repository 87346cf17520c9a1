"""Run the tasks of one of these programs; fail at the first task that fails."""

import asyncio
import inspect
from importlib.metadata import version


def run_tasks(tasks, *packages):
    """Run the functions named ``task_...``, and wait for those that are async."""
    print(*(f"{package} {version(package)}" for package in packages))
    for name, task in sorted(tasks.items()):
        if name.startswith("task_"):
            found = task()
            if inspect.iscoroutine(found):
                asyncio.run(found)
            print(name, "holds")
