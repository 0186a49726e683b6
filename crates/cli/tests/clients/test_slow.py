"""Clients that do not read, as a phone that has left its network: Houston keeps little for them, and gives them up."""

import os
import re
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from houston import KEY, URL, Conversation, ask, new_conversation, post, until

PID = os.environ.get("HOUSTON_PID")


def memory_mb() -> float:
    found = re.search(r"^VmRSS:\s+(\d+) kB$", Path(f"/proc/{PID}/status").read_text(), re.MULTILINE)
    assert found
    return int(found[1]) / 1024


def open_stream(conversation: Conversation) -> socket.socket:
    """Asks for a stream from the beginning on, and reads nothing of it."""
    address = urlsplit(URL)
    reader = socket.create_connection((address.hostname, address.port), timeout=30)
    # What the kernel keeps for it is not what is measured here.
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    request = f"GET {conversation.path}/events?after=0&follow=true HTTP/1.1\r\nHost: houston\r\nAuthorization: Bearer {KEY}\r\n\r\n"
    reader.sendall(request.encode())
    return reader


def is_given_up(reader: socket.socket) -> bool:
    """Whether Houston has closed its end. A client that has no room for more may learn of it only when it reads."""
    port = f":{reader.getsockname()[1]:04X}"
    lines = Path("/proc/net/tcp").read_text().splitlines()
    return not any(line.split()[2].endswith(port) for line in lines)


def received(reader: socket.socket) -> bytes:
    """What there is to read; the end must be a reset, so that nobody takes it for the end of the stream."""
    whole = b""
    with pytest.raises(ConnectionResetError):
        while piece := reader.recv(65536):
            whole += piece
    return whole


def run_to_its_end(conversation: Conversation, content: str) -> None:
    run = post(conversation, content)["run_id"]
    until(lambda: ask("GET", f"/v1/runs/{run}")["ended_at"], "the end of the run", 120)


@pytest.fixture(scope="module")
def replay() -> socket.socket:
    """A client that does not read a long replay. A write may wait for 30 s, in which the other test runs."""
    conversation = new_conversation()
    for _ in range(22):
        run_to_its_end(conversation, "/sim chunks=40000 delay_ms=0")
    return open_stream(conversation)


@pytest.mark.skipif(PID is None, reason="HOUSTON_PID is not set")
def test_40_clients_that_do_not_read_cost_little_memory_and_are_cut_off(replay: socket.socket) -> None:
    conversation, before = new_conversation(), memory_mb()
    post(conversation, "/sim chunks=1 delay_ms=1")
    readers = [open_stream(conversation) for _ in range(40)]
    # Their streams have begun before there is more than they take: `peek` leaves in the kernel what it shows.
    until(lambda: all(b"RUN_STARTED" in reader.recv(65536, socket.MSG_PEEK) for reader in readers), "the begin of the streams", 30)
    # Far more text than a connection holds back.
    run_to_its_end(conversation, "/sim chunks=100000 delay_ms=0")
    grown = memory_mb() - before
    until(lambda: all(map(is_given_up, readers)), "the end of the connections", 60)
    assert grown < 200, f"{grown:.0f} MB for 40 clients that do not read"
    assert all(b"RUN_STARTED" in received(reader) for reader in readers)


def test_client_that_does_not_read_a_long_replay_is_cut_off(replay: socket.socket) -> None:
    until(lambda: is_given_up(replay), "the end of the connection", 90)
    assert received(replay).count(b"RUN_FINISHED") < 22
