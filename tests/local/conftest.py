"""The model that tests of this folder run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pure_agent_loop.local.engine import models


@pytest.fixture(scope="session")
def model_file():
    """The default model, pulled once by our own code and kept between runs of the tests."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pure-agent-loop-tests"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PAL_HOME", str(cache))
        return models.pull_model(models.DEFAULT)
