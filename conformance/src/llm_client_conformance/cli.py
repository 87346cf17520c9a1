"""The command ``llm-client-conformance``: list scenes, serve a protocol, check a client program."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Sequence
from typing import Any

from llm_client_conformance.judging import WORDS, Terms, Verdict, judge_all
from llm_client_conformance.protocols import DIALECTS, ChatServer
from llm_client_conformance.scenes import KEY, PROTOCOLS, Scene, all_scenes
from llm_client_conformance.scripted.request import ServerRequest
from llm_client_conformance.scripted.script import call
from llm_client_conformance.scripted.server import ScriptedServer
from llm_client_conformance.values import ERROR_KINDS, ConfigError

RIGHT, NOT_RIGHT, USAGE, INTERRUPTED = 0, 1, 2, 130
_TICK = 0.1  # seconds between checks for new requests in `serve`
DESCRIPTION = "Strict and misbehaving model servers on loopback, and what a right client makes of each."
CONTRACT = f"""\
The program is run once for each scene. It gets these variables:
  CONFORMANCE_PROTOCOL  {", ".join(PROTOCOLS)}
  CONFORMANCE_BASE_URL  the server, as the maker's own client takes it
  CONFORMANCE_API_KEY   the key; for bedrock and vertex a bearer token
  CONFORMANCE_MODEL     the model's name
  CONFORMANCE_TASK      the user's message
  CONFORMANCE_TOOLS     JSON list of tools: name, description, parameters (a JSON Schema)
  CONFORMANCE_RESULTS   JSON object, the result of each tool by name; empty outside of conversations
  CONFORMANCE_TIMEOUT   seconds of silence after which to give up

It sends the task with the tools, and asks for a stream. If CONFORMANCE_RESULTS is set, it answers calls with
the results until the model makes no more calls. It prints the last answer as one line of JSON:
  text           the answer
  calls          list of objects: id, name, arguments (null if they cannot be used)
  error          null, or one of: {", ".join(ERROR_KINDS[:6])},
                 {", ".join(ERROR_KINDS[6:])}
  reasoning, finish_reason, usage (an object: input, output)   optional; not judged if they are missing
finish_reason is stop, tool_calls, length or content_filter. Other lines of the output are ignored.

Exit codes: 0 every scene is right, 1 some are wrong or hung, 2 the command is wrong, 130 interrupted.
"""


def parser() -> argparse.ArgumentParser:
    """Return the argument parser of the command."""
    made = argparse.ArgumentParser("llm-client-conformance", description=DESCRIPTION)
    commands = made.add_subparsers(dest="command", required=True, metavar="COMMAND")
    raw = argparse.RawDescriptionHelpFormatter
    listing = commands.add_parser("list", help="list scenes", description="List scenes with their reasons.")
    _add_choice(listing)
    serving = commands.add_parser(
        "serve", help="serve a protocol", description="Serve a protocol on loopback until Ctrl-C."
    )
    known = [*PROTOCOLS, *(f"chat:{vendor}" for vendor in DIALECTS)]
    serving.add_argument("protocol", metavar="PROTOCOL", choices=known, help=", ".join(known))
    serving.add_argument("--port", type=_port, default=0, metavar="N", help="port (default: a free one)")
    serving.add_argument("--scene", metavar="NAME", help="play this scene (default: a small conversation)")
    serving.add_argument("--rechunk", type=_positive, metavar="N", help="bytes of the pieces of streams")
    checking = commands.add_parser(
        "check",
        help="run a client program on every scene",
        description="Run a client program on every scene, and print what is right, wrong and hung.",
        epilog=CONTRACT,
        formatter_class=raw,
        usage="%(prog)s [options] -- PROGRAM [ARGUMENT ...]",
    )
    _add_choice(checking)
    checking.add_argument("--scene", action="append", metavar="NAME", help="only this scene; repeatable")
    checking.add_argument(
        "--deadline", type=_seconds, default=30.0, metavar="S", help="seconds before it hung (default: 30)"
    )
    checking.add_argument(
        "--timeout", type=_seconds, default=2.0, metavar="S", help="seconds of silence to bear (default: 2)"
    )
    checking.add_argument(
        "--jobs", type=_positive, default=4, metavar="N", help="programs at a time (default: 4)"
    )
    checking.add_argument("--rechunk", type=_positive, metavar="N", help="bytes of the pieces of streams")
    checking.add_argument("--any-error", action="store_true", help="accept an error of any kind")
    checking.add_argument("--quiet", action="store_true", help="print the table only")
    checking.add_argument("program", nargs="*", metavar="PROGRAM", help=argparse.SUPPRESS)
    return made


def _add_choice(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--protocol",
        action="append",
        choices=list(PROTOCOLS),
        metavar="P",
        help=f"only this protocol; repeatable: {', '.join(PROTOCOLS)}",
    )


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be a number from 1 on")
    return int(text)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} must be a port, from 0 to 65535")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value <= 86_400:
        raise argparse.ArgumentTypeError(f"{text!r} must be a number of seconds, above 0")
    return value


def chosen(protocols: Sequence[str] | None, names: Sequence[str] | None = None) -> list[Scene]:
    """Return the scenes of some protocols, or the scenes with given names.

    Args:
        protocols: Keys of `PROTOCOLS`; None for all.
        names: Names of scenes; None for all.

    Raises:
        ConfigError: A name is unknown.
    """
    scenes = [scene for scene in all_scenes() if protocols is None or scene.protocol in protocols]
    unknown = sorted(set(names or ()) - {scene.name for scene in scenes})
    if unknown:
        raise ConfigError(f"--scene {unknown[0]!r} is unknown. `llm-client-conformance list` lists all.")
    return [scene for scene in scenes if names is None or scene.name in names]


def list_scenes(options: argparse.Namespace) -> int:
    """Print the scenes."""
    scenes = chosen(options.protocol)
    width = max(len(scene.name) for scene in scenes)
    for scene in scenes:
        print(f"{scene.protocol:9}  {scene.kind:12}  {scene.name:{width}}  {scene.why}")
    return RIGHT


# -- serve -----------------------------------------------------------------------------------------------


def serve_protocol(options: argparse.Namespace) -> int:
    """Serve until Ctrl-C, and print each request with its violations."""
    name, _, vendor = options.protocol.partition(":")
    server = _server(name, vendor, options)
    try:
        server.start(options.port)
    except OSError as error:
        raise ConfigError(f"--port {options.port} cannot be used: {error}") from error
    print(f"{options.protocol}: {PROTOCOLS[name].base_url(server)}  key: {KEY}  (Ctrl-C ends it)", flush=True)
    seen = [0, 0]
    try:
        while True:
            seen = _tell(server, *seen)
            time.sleep(_TICK)
    except KeyboardInterrupt:
        return RIGHT
    finally:
        server.close()


def _server(name: str, vendor: str, options: argparse.Namespace) -> ScriptedServer:
    if options.scene:
        (scene,) = chosen([name], [options.scene])
        return scene.make(options.rechunk)
    if vendor:
        return ChatServer(handler=_converse, dialect=vendor, rechunk=options.rechunk)
    return PROTOCOLS[name].server(handler=_converse, rechunk=options.rechunk)


def _converse(request: ServerRequest) -> Any:
    """Call ``add`` if the request offers that tool, then answer with the result."""
    has_result = any(
        word in request.raw for word in (b'"tool"', b"tool_result", b"_output", b"functionResponse")
    )
    if b'"add"' in request.raw and not has_result:
        return call("add", a=2, b=3)
    return "It is 5."


def _tell(server: ScriptedServer, requests: int, violations: int) -> list[int]:
    """Print the requests that arrived since the last check."""
    for request in server.requests[requests:]:
        print(f"{request.method} {request.path}", flush=True)
    for violation in server.violations[violations:]:
        print(f"  {violation}", flush=True)
    return [len(server.requests), len(server.violations)]


# -- check -----------------------------------------------------------------------------------------------


def check_program(options: argparse.Namespace) -> int:
    """Judge a client program, and print the table."""
    if not options.program:
        raise ConfigError(
            "PROGRAM is missing: llm-client-conformance check [options] -- PROGRAM [ARGUMENT ...]"
        )
    if shutil.which(options.program[0]) is None:
        raise ConfigError(f"PROGRAM {options.program[0]!r} was not found, or is not executable.")
    scenes = chosen(options.protocol, options.scene)
    terms = Terms(options.deadline, options.timeout, options.rechunk, options.any_error)
    is_live = sys.stderr.isatty() and not options.quiet
    done = 0

    def tell(_: Verdict) -> None:
        nonlocal done
        done += 1
        if is_live:
            print(f"\r{done} of {len(scenes)}", end="", file=sys.stderr, flush=True)

    verdicts = judge_all(scenes, options.program, terms, options.jobs, tell)
    if is_live:
        print("\r", end="", file=sys.stderr)
    for verdict in verdicts:
        if verdict.word != "right" and not options.quiet:
            print(f"{verdict.word:5}  {verdict.scene.protocol}  {verdict.scene.name}: {verdict.reason}")
    print(table(verdicts))
    return RIGHT if all(verdict.word == "right" for verdict in verdicts) else NOT_RIGHT


def table(verdicts: Sequence[Verdict]) -> str:
    """Return the counts per protocol and kind of scene, as lines."""
    rows = list(dict.fromkeys((verdict.scene.protocol, verdict.scene.kind) for verdict in verdicts))
    lines = [f"{'protocol':10} {'scenes':13}" + "".join(f"{word:>7}" for word in WORDS)]
    for protocol, kind in rows:
        words = [v.word for v in verdicts if (v.scene.protocol, v.scene.kind) == (protocol, kind)]
        lines.append(f"{protocol:10} {kind:13}" + "".join(f"{words.count(word):7}" for word in WORDS))
    words = [verdict.word for verdict in verdicts]
    lines.append(f"{'all':10} {'':13}" + "".join(f"{words.count(word):7}" for word in WORDS))
    return "\n".join(lines)


_COMMANDS = {"list": list_scenes, "serve": serve_protocol, "check": check_program}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: Words after the command's name; None for the arguments of this process.
    """
    options = parser().parse_args(arguments)
    try:
        return _COMMANDS[options.command](options)
    except (ConfigError, OSError) as error:
        print(f"llm-client-conformance: error: {error}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        return INTERRUPTED
