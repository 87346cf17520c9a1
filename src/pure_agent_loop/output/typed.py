"""The output of a run: its form, the checks of the user, and how often the model may correct itself."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from pure_agent_loop.errors import Retry
from pure_agent_loop.llm.profiles import AnswerFormat
from pure_agent_loop.output.form import Checked, OutputForm
from pure_agent_loop.output.reading import PartialReader
from pure_agent_loop.prompts.words import say
from pure_agent_loop.schema.build import ToolArgumentError
from pure_agent_loop.schema.context import contextual
from pure_agent_loop.support.text import to_jsonable
from pure_agent_loop.support.threads import Raised, run_in_thread

Check = Callable[..., Any | Awaitable[Any]]


class TypedOutput:
    """What the kernel asks about an answer; see `kit.Output`.

    Args:
        form: What it must be; None for text.
        retries: How often the model is told what is wrong.
        checks: Functions of the user. What one returns takes the place of the output, unless it is None.
    """

    def __init__(self, form: OutputForm | None, retries: int, checks: Sequence[Check] = ()) -> None:
        self._form = form
        self._checks = checks
        self.retries = retries

    @property
    def response_format(self) -> AnswerFormat | None:
        """What a request asks for; None for text."""
        return None if self._form is None else self._form.response_format

    def partial(self) -> PartialReader | None:
        """Reads an answer while it is written; None for text."""
        return None if self._form is None else PartialReader(wrapped=self._form.wraps)

    async def judge(self, text: str) -> tuple[dict[str, Any], Any]:
        """The plain form of the output, or why there is none; and the output itself.

        Raises:
            Exception: What a function of the user raised, other than `Retry`.
        """
        try:
            found = Checked(text) if self._form is None else self._form.read(text)
            value = found.value if found.function is None else await called(found.function, **found.value)
            for check in self._checks:
                changed = await called(check, value)
                value = value if changed is None else changed
        except (ToolArgumentError, Retry) as error:
            return {"why": str(error)}, None
        plain = to_jsonable(value) if self._form is None else self._form.dump(value, found.name)
        return {"value": plain}, value

    def load(self, plain: Any) -> Any:
        """The output from its plain form."""
        return plain if self._form is None else self._form.load(plain)

    def complaint(self, why: str) -> str:
        """What the model is told."""
        return say("correct_answer", why=why)


async def called(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function of the user. One that is not async runs in a thread, because it may block."""
    bound = partial(contextual(function), *args, **kwargs)
    if inspect.iscoroutinefunction(function):
        return await bound()
    found = await run_in_thread(bound)
    if isinstance(found, Raised):
        raise found.error
    return await found if inspect.isawaitable(found) else found
