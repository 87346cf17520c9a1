"""Serialize values for DBOS as JSON, never as pickle: database write access must not allow running code."""

from __future__ import annotations

import json
import logging
from typing import Any

from pure_agent_loop.support.language import notice
from pure_agent_loop.support.lazy import module_of_extra
from pure_agent_loop.support.parsing import read_json
from pure_agent_loop.support.text import safe_str, to_jsonable


def import_dbos() -> Any:
    """Import DBOS. DBOS is imported lazily, because the import takes a second.

    Raises:
        MissingExtraError: DBOS is not installed.
    """
    dbos = module_of_extra("dbos", notice("library.feature_durable"), "durable")
    logger = logging.getLogger("dbos")
    if logger.level == logging.NOTSET:  # silence DBOS, because this package logs what users need
        logger.setLevel(logging.CRITICAL)
    return dbos


class _Failure(Exception):  # noqa: N818 - the text of an error that was raised in another process
    pass


def json_serializer() -> Any:
    """Return a serializer for DBOS. Values that JSON cannot hold become text, so that no result is rejected.

    Raises:
        MissingExtraError: DBOS is not installed.
    """
    base: Any = import_dbos().Serializer

    class JsonSerializer(base):  # type: ignore[misc]  # a class of an optional package
        """Serializes values as JSON, and errors as type and text."""

        def serialize(self, data: Any) -> str:
            if isinstance(data, BaseException):
                return json.dumps({"error": [type(data).__name__, safe_str(data)]})
            return json.dumps({"value": to_jsonable(data)}, allow_nan=False)

        def deserialize(self, serialized_data: str) -> Any:
            value = read_json(serialized_data)
            return _Failure(": ".join(map(str, value["error"]))) if "error" in value else value["value"]

        def name(self) -> str:
            return "pal_json"

    return JsonSerializer()
