"""What the engine keeps is JSON, never pickled: who can write the database must not be able to run code."""

from __future__ import annotations

import json
import logging
from typing import Any

from pure_agent_loop.errors import MissingExtraError
from pure_agent_loop.support.text import safe_str, to_jsonable


def import_dbos() -> Any:
    """The engine underneath. Importing it takes a second, so it is done when it is needed.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        import dbos
    except ImportError as error:
        raise MissingExtraError("A durable run", "durable") from error
    logger = logging.getLogger("dbos")
    if logger.level == logging.NOTSET:  # what concerns a user is said in our words
        logger.setLevel(logging.CRITICAL)
    return dbos


class _Failure(Exception):  # noqa: N818 - the text of an error that was raised in another process
    pass


def json_serializer() -> Any:
    """A serializer for DBOS. What has no JSON form becomes text, so no result is ever refused.

    Raises:
        MissingExtraError: DBOS is not installed.
    """
    base: Any = import_dbos().Serializer

    class JsonSerializer(base):  # type: ignore[misc]  # a class of an optional package
        """Values as JSON; errors as their type and text."""

        def serialize(self, data: Any) -> str:
            if isinstance(data, BaseException):
                return json.dumps({"error": [type(data).__name__, safe_str(data)]})
            return json.dumps({"value": to_jsonable(data)}, allow_nan=False)

        def deserialize(self, serialized_data: str) -> Any:
            found = json.loads(serialized_data)
            if "error" in found:
                return _Failure(": ".join(map(str, found["error"])))
            return found["value"]

        def name(self) -> str:
            return "pal_json"

    return JsonSerializer()
