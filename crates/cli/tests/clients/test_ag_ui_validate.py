"""The stream and the endpoint for AG-UI clients against the rules of ag-ui-validate."""

import subprocess
import sys
from pathlib import Path

import pytest

from houston import HEADERS, URL, ask, client, new_conversation, post

PROGRAM = Path(sys.executable).with_name("ag-ui-validate")


def validate(source: str, *arguments: str, stream: str = "") -> None:
    strict = ["--no-color", "--max-warnings", "0", "--timeout", "30"]
    ended = subprocess.run(
        [PROGRAM, source, *strict, *arguments], input=stream, capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize(
    "content",
    [
        "hello",
        "Please create a note: buy milk",
        "/sim think=5",
        "/sim chunks=200 delay_ms=1",
        '/sim tool=list_notes tool=get_current_time args={"time_zone":"No/Where"} tool=fly args={"to":"moon"}',
        "/sim fail=network_error fail_after=12",
        "/sim fail=authentication_error",
        '/sim tool=delete_note args={"note_id":"note_00000000000000000000000000000000"}',
    ],
)
def test_streams_keep_all_rules(content: str) -> None:
    conversation = new_conversation()
    post(conversation, content)
    stream = client.get(f"{conversation.path}/events?interrupts=true").text
    validate("-", stream=stream)


def test_cancelled_run_keeps_all_rules() -> None:
    conversation = new_conversation()
    posted = post(conversation, "/sim chunks=5000 delay_ms=5")
    stream = ""
    with client.stream("GET", f"{conversation.path}/events") as response:
        for text in response.iter_text():
            if "TEXT_MESSAGE_CONTENT" in text and "TEXT_MESSAGE_CONTENT" not in stream:
                ask("POST", f"/v1/runs/{posted['run_id']}/cancel", {})
            stream += text
    validate("-", stream=stream)


def test_endpoint_for_ag_ui_clients_keeps_all_rules() -> None:
    conversation = new_conversation()
    validate(f"{URL}{conversation.path}/ag-ui", "--header", f"authorization: {HEADERS['authorization']}")
