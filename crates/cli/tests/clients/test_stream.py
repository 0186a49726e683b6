"""The stream helper for Python, `houston_stream.py`."""

import asyncio
import sys
from pathlib import Path

import pytest

from cutter import cutter
from houston import KEY, URL, Conversation, ask, new_conversation, post
from received import Received

sys.path.append(str(Path(__file__).parents[3] / "api/clients"))
from houston_stream import HoustonProblem, HoustonStream, StreamLost  # noqa: E402


def soon(failures: int) -> float:
    return 0.001


def events(conversation: Conversation, through: str = URL) -> str:
    return f"{through}{conversation.path}/events"


@pytest.mark.parametrize("is_async", [False, True])
def test_20_forced_drops_with_a_client_token(is_async: bool) -> None:
    conversation = new_conversation()
    body = {"user_id": conversation.user, "scopes": ["read"], "minutes": 5}
    token = ask("POST", "/v1/client-tokens", body)["token"]

    async def read_async(stream: HoustonStream, received: Received) -> None:
        async for each in stream:
            received.add(*each)

    with cutter(URL, cuts=20, longest=1_000, seed=31) as proxy:
        while proxy.left > 0:
            post(conversation, "/sim chunks=300 delay_ms=2")
            received = Received()
            stream = HoustonStream(events(conversation, proxy.url), token=lambda refused: token, pause=soon)
            if is_async:
                asyncio.run(read_async(stream, received))
            else:
                for each in stream:
                    received.add(*each)
            received.assert_whole(conversation)


def test_goes_on_from_a_position() -> None:
    conversation = new_conversation()
    post(conversation, "Please create a note: buy milk")
    received, half = Received(), HoustonStream(events(conversation), token=KEY, pause=soon)
    for id, event in half:
        received.add(id, event)
        if event["type"] == "TOOL_CALL_START":
            break
    rest = HoustonStream(events(conversation), token=KEY, after=half.position, pause=soon)
    for each in rest:
        received.add(*each)
    received.assert_whole(conversation)
    assert list(HoustonStream(events(conversation), token=KEY, after=rest.position)) == []


def test_refusals_are_typed_problems_and_a_token_is_replaced_once() -> None:
    conversation = new_conversation()
    with pytest.raises(HoustonProblem) as refused:
        list(HoustonStream(f"{URL}/v1/goals/goal_{'0' * 32}/events", token=KEY))
    assert (refused.value.status, refused.value.code) == (404, "not_found")
    with pytest.raises(HoustonProblem, match="401"):
        list(HoustonStream(events(conversation), token="hou_no"))

    post(conversation, "hello")
    asked: list[bool] = []

    def renewed(refused: bool) -> str:
        asked.append(refused)
        return KEY if refused else "hou_no"

    received = Received()
    for each in HoustonStream(events(conversation), token=renewed, pause=soon):
        received.add(*each)
    received.assert_whole(conversation)
    assert asked == [False, True]


def test_a_houston_that_stays_away_is_an_error() -> None:
    with pytest.raises(StreamLost):
        list(HoustonStream("http://127.0.0.1:9/events", token=KEY, tries=3, pause=soon))
