"""The command ``share``: links to sessions, which this machine's server shows without a login."""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict
from pathlib import Path

from pure_agent_loop.cli.arguments import add_json, add_options, describe
from pure_agent_loop.cli.database import store_for
from pure_agent_loop.cli.exits import DONE, FAILED
from pure_agent_loop.cli.options import SessionOptions
from pure_agent_loop.cli.output import CommandOutput
from pure_agent_loop.cli.session_list import MAX_TITLE
from pure_agent_loop.cli.which_session import existing, last_of
from pure_agent_loop.sessions import JsonlStore, LinkFolder, SessionStore, SharedLink
from pure_agent_loop.sessions.export import moment, to_html
from pure_agent_loop.sessions.story import read_story
from pure_agent_loop.support.language import notice, user_text
from pure_agent_loop.support.numbers import positive
from pure_agent_loop.support.terminal import one_line

_DEFAULT_ADDRESS = "http://127.0.0.1:8484"
_EPILOG = """\
The link shows the session as it is now, without later messages, to everyone who has the link; no login is
needed. 'pal serve' with the same --folder serves it. The link is printed once: only its digest is stored.
Deleting the session ends its links.

examples:
  pal share
  pal share trip --days 30
  pal share --list
  pal share --end 4f0c2a91be77
"""


def add_share(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    describe(parser, "Share a session through a read-only link that expires.", _EPILOG)
    parser.add_argument(
        "id", metavar="SESSION", nargs="?", help="session (default: the last one in this folder)"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--days",
        type=positive,
        default=LinkFolder.DAYS,
        metavar="N",
        help=f"days until the link ends (default: {LinkFolder.DAYS})",
    )
    what.add_argument("--list", action="store_true", help="list active links")
    what.add_argument("--end", metavar="LINK", help="end a link, by its id, token or address")
    parser.add_argument(
        "--folder", metavar="DIR", help="folder for the server's data (default: the data folder)"
    )
    add_options(parser, SessionOptions, only=("database",))
    add_json(parser)


def share(options: argparse.Namespace, output: CommandOutput) -> int:
    """Run the action and return the exit code."""
    links = LinkFolder(options.folder)
    if options.list:
        return _list(links.list(options.id or ""), output, as_json=options.json)
    if options.end is not None:
        name = options.end.rstrip("/").rpartition("/")[2]
        is_ended = links.end(name, options.id or "")
        output.info(notice("cli.link_ended") if is_ended else notice("cli.no_link", name=one_line(name)))
        return DONE if is_ended else FAILED
    with store_for(options.database) as store:
        return _share(options, store, links, output)


def _share(options: argparse.Namespace, store: SessionStore, links: LinkFolder, output: CommandOutput) -> int:
    folder = Path.cwd() if isinstance(store, JsonlStore) else None
    session = existing(last_of(store, folder) if options.id is None else options.id, store)
    records = store.read(session).records
    title = read_story(records).title
    token, link = links.add(session, title, to_html(records), options.days)
    known = links.address_file
    address = known.read_text("utf-8").strip() if known.exists() else _DEFAULT_ADDRESS
    url = f"{address}/s/{token}"
    if options.json:
        output.json({"url": url, **asdict(link)})
    else:
        output.result(f"{url}\n")
    output.info(notice("cli.shared", session=session, until=moment(link.until), id=link.id))
    if not known.exists():
        output.info(notice("cli.share_serve", folder=f" --folder {options.folder}" if options.folder else ""))
    return DONE


def _list(links: list[SharedLink], output: CommandOutput, *, as_json: bool) -> int:
    if as_json:
        output.json({"links": [asdict(link) for link in links]})
        return DONE
    for link in links:
        left = max(1, round((link.until - time.time()) / 86_400))
        until = user_text("cli.link_until", until=moment(link.until), days=left)
        output.lines(f"{link.id}  {until}  {one_line(link.title, MAX_TITLE)}  {one_line(link.session)}\n")
    if not links:
        output.info(notice("cli.no_links"))
    return DONE
