"""For these tests: a data folder of their own."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
    folder = tmp_path / "home"
    monkeypatch.setenv("PAL_HOME", str(folder))
    return folder
