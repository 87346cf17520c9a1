"""Which addresses are opened: every spelling of a closed one is refused, and no connection is made."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.toolbox.web import WebServer, page

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.toolbox.web.addresses import AddressError, AddressRules, kind_of, read_address, read_url
from pure_agent_loop.toolbox.web.fetch import Fetch, FetchError

LOOPBACK = [
    "127.0.0.1",
    "127.1",
    "127.0.1",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "0x7f.0.0.1",
    "0177.0.0.1",
    "017700000001",
    "127.0.0.01",
    "127.000.000.001",
    "0",
    "0.0.0.0",
    "0x0",
    "localhost",
    "LOCALHOST",
    "localhost.",
    "LocalHost.",
    "a.localhost",
    "127.0.0.1.",
    "127.255.255.254",
    "[::1]",
    "[0:0:0:0:0:0:0:1]",
    "[::]",
    "[0000::0001]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "[64:ff9b::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
    "[2002:7f00:0001::1]",
    "[2001:0:4136:e378:8000:63bf:80ff:fffe]",
    "[64:ff9b:1::7f00:1]",
    "[2a00::200:5efe:7f00:1]",
    "[::1%25lo]",
    "[::1%lo]",
    "[fe80::1]",
    "[fe80::1%25eth0]",
    "１２７.0.0.1",
    "127。0。0。1",
    "127．0．0．1",
    "127｡0｡0｡1",
    "①②⑦.0.0.1",
    "ⓛocalhost",
    "user@127.0.0.1",
    "good.example@127.0.0.1",
    "user:pass@[::1]",
    "127.0.0.1%2f",
    "127.0.0.1%00",
    "127.0.0.1\\@example.org",
    "example.org\\@127.0.0.1",
    "1.1.1.1&@127.0.0.1#",
    "4294967296",
    "256.0.0.1",
    "127.0.0.1.1",
    "0x7g.1",
    "[127.0.0.1]",
    "[]",
]
OTHERS = [
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "169.254.169.254",
    "169.254.1.1",
    "100.64.0.1",
    "100.100.100.200",
    "192.0.0.192",
    "168.63.129.16",
    "198.18.0.1",
    "192.0.2.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "0.1.2.3",
    "192.88.99.1",
    "[fc00::1]",
    "[fd00:ec2::254]",
    "[fe80::a9fe:a9fe]",
    "[ff02::1]",
    "[2001:db8::1]",
    "[2001::1]",
    "[2002:a9fe:a9fe::]",
    "[2002:c0a8:101::1]",
    "[64:ff9b::a9fe:a9fe]",
    "[64:ff9b::10.0.0.1]",
    "[::ffff:169.254.169.254]",
    "[::ffff:10.0.0.1]",
    "[100::1]",
    "[4000::1]",
    "[fec0::1]",
    "[::2]",
    "[3fff::1]",
]


@pytest.fixture(scope="module")
def servers():
    with WebServer(page("secret")) as four, WebServer(page("secret"), "::1") as six:
        yield four, six


class TestSpellings:
    @pytest.mark.parametrize("host", [*LOOPBACK, *OTHERS])
    def test_no_spelling_is_opened(self, servers, host):
        four, six = servers
        fetch = Fetch(allow_ports=[four.port, six.port])
        for server in servers:
            for scheme in ("http", "https"):
                with pytest.raises(FetchError):
                    fetch.fetch(f"{scheme}://{host}:{server.port}/")
        with pytest.raises(FetchError):
            fetch.fetch(f"http://{host}/")
        assert four.connections == six.connections == 0

    def test_the_servers_can_be_reached(self, servers):
        for server in servers:
            before = server.connections
            assert "secret" in Fetch(allow_addresses=[server.address]).fetch(server.url())
            server.connections = before  # for the tests beside this one

    @pytest.mark.parametrize(
        "url",
        [
            "file:///etc/passwd",
            "ftp://example.org/",
            "gopher://127.0.0.1/",
            "data:text/html,x",
            "javascript:1",
            "//example.org/",
            "example.org",
            "http:/example.org",
            "http://",
            "https:///x",
            "http://?x",
            "http://#x",
            "http://:80/",
            "http://example.org:0/",
            "http://example.org:99999/",
            "http://example.org:x/",
            "jar:http://x/",
            "HTTP:127.0.0.1",
        ],
    )
    def test_no_other_scheme_and_no_half_address(self, url):
        with pytest.raises(FetchError):
            Fetch(resolver=lambda *_: ["127.0.0.1"]).fetch(url)

    @pytest.mark.parametrize(
        "bad", ["\r\nX: y", "\n", " ", "\t", "\0", "\u2028", "\xa0", "\u200b", "\u202e", "\x85"]
    )
    @pytest.mark.parametrize(
        "form", ["http://example.org/a{}b", "http://exa{}mple.org/", "{}http://example.org/"]
    )
    def test_white_space_and_invisible_characters(self, bad, form):
        with pytest.raises(AddressError, match="white space"):
            read_url(form.format(bad))

    @pytest.mark.parametrize("port", [22, 25, 53, 6379, 5432, 2375, 11211, 3306, 9200])
    def test_ports_that_are_not_of_the_web(self, port):
        with pytest.raises(FetchError, match=f"port {port}"):
            Fetch(resolver=lambda *_: ["93.184.216.34"]).fetch(f"http://example.org:{port}/")


class TestKinds:
    @pytest.mark.parametrize(
        "address",
        [
            "8.8.8.8",
            "93.184.216.34",
            "172.32.0.1",
            "100.128.0.1",
            "2606:4700::1111",
            "2a00:1450:4001:82f::200e",
            "64:ff9b::808:808",
            "2002:808:808::1",
        ],
    )
    def test_public(self, address):
        assert kind_of(ipaddress.ip_address(address)) == ("", True)

    @given(st.ip_addresses(v=4) | st.ip_addresses(v=6, network="2000::/3"))
    def test_never_more_open_than_the_standard_library_says(self, address):
        if address.is_private or not address.is_global or address.is_multicast:
            assert kind_of(address)[0]

    @given(st.ip_addresses(v=4))
    def test_an_embedded_address_is_judged_as_itself(self, address):
        number = int(address)
        for outer in (0xFFFF << 32 | number, 0x64FF9B << 96 | number, 0x2002 << 112 | number << 80):
            assert kind_of(ipaddress.IPv6Address(outer)) == kind_of(address)


class TestRules:
    def test_private_may_be_opened_and_metadata_may_not(self):
        rules = AddressRules(allow_private=True)
        target = read_url("http://intern.example/")
        assert rules.checked(target, ["10.0.0.1", "127.0.0.1", "fd00::1"])
        for never in (
            "169.254.169.254",
            "fd00:ec2::254",
            "100.100.100.200",
            "0.0.0.0",
            "224.0.0.1",
            "fe80::1",
        ):
            with pytest.raises(AddressError):
                rules.checked(target, [never])

    def test_one_bad_address_among_good_ones_refuses_all(self):
        with pytest.raises(AddressError, match="loopback"):
            AddressRules().checked(read_url("http://mixed.example/"), ["8.8.8.8", "127.0.0.1"])

    @pytest.mark.parametrize("found", [[], ["nonsense"], ["fe80::1%eth0"]])
    def test_unusable_answer_of_a_resolver_is_rejected(self, found):
        with pytest.raises(AddressError):
            AddressRules().checked(read_url("http://x.example/"), found)

    @pytest.mark.parametrize(
        "url", ["http://evil.example/", "http://EVIL.example./", "http://a.evil.example/"]
    )
    def test_denied_names(self, url):
        with pytest.raises(FetchError, match="not allowed"):
            Fetch(deny_hosts=["*.Evil.example"], resolver=lambda *_: ["8.8.8.8"]).fetch(url)

    @pytest.mark.parametrize(
        "host", ["other.example", "good.example.evil.example", "notgood.example", "8.8.8.8"]
    )
    def test_only_allowed_names(self, host):
        with pytest.raises(FetchError, match=r"only: good\.example"):
            Fetch(allow_hosts=["good.example"], resolver=lambda *_: ["127.0.0.1"]).fetch(f"http://{host}/")

    @pytest.mark.parametrize(
        "arguments",
        [
            {"allow_hosts": "a.example"},
            {"allow_addresses": ["localhost:1"]},
            {"max_bytes": 0},
            {"timeout": -1},
            {"deny_hosts": [1]},
        ],
    )
    def test_arguments_that_cannot_work(self, arguments):
        with pytest.raises(ConfigError, match=next(iter(arguments))):
            Fetch(**arguments)

    def test_addresses_with_ports(self):
        assert read_address("[::1]:8") == (ipaddress.ip_address("::1"), 8)
        assert read_address("::1") == (ipaddress.ip_address("::1"), None)
        assert read_address("127.0.0.1:9") == (ipaddress.ip_address("127.0.0.1"), 9)


class TestUrls:
    def test_names_and_paths_of_all_languages(self):
        target = read_url("https://Bücher.example/größe?q=ä b".replace(" ", "%20"))
        assert target.host == "xn--bcher-kva.example"
        assert target.path == "/gr%C3%B6%C3%9Fe?q=%C3%A4%20b"
        assert read_url("http://a.example:80/x").netloc == "a.example"
        assert read_url("http://[2606:4700::1]:8080").url == "http://[2606:4700::1]:8080/"

    @given(st.text(max_size=60))
    def test_reading_never_raises_anything_else(self, text):
        for url in (text, f"http://{text}", f"http://{text}/", f"http://a.example/{text}"):
            try:
                target = read_url(url)
            except AddressError:
                continue
            assert target.url.isascii()
            assert target.url.isprintable()
            assert " " not in target.url
            assert read_url(target.url).host == target.host
