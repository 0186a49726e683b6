"""Decoders of server-sent events: none of them may see an event that is none, such as a heartbeat."""

import json
from collections.abc import Callable, Iterator

import httpx
import pytest
from anthropic._streaming import SSEDecoder as AnthropicDecoder
from httpx_sse import EventSource
from openai._streaming import SSEDecoder as OpenAIDecoder

from houston import client, new_conversation, post
from received import Received

Event = tuple[str | None, str]


def by_httpx_sse(response: httpx.Response) -> Iterator[Event]:
    return ((event.id, event.data) for event in EventSource(response).iter_sse())


def by_openai(response: httpx.Response) -> Iterator[Event]:
    return ((event.id, event.data) for event in OpenAIDecoder().iter_bytes(response.iter_bytes()))


def by_anthropic(response: httpx.Response) -> Iterator[Event]:
    return ((event.id, event.data) for event in AnthropicDecoder().iter_bytes(response.iter_bytes()))


@pytest.mark.parametrize("decode", [by_httpx_sse, by_openai, by_anthropic])
def test_heartbeats_are_not_events(decode: Callable[[httpx.Response], Iterator[Event]]) -> None:
    conversation = new_conversation()
    # Silent for longer than 20 heartbeats of 50 ms, then slower than them.
    post(conversation, "/sim hold_ms=1200 chunks=8 delay_ms=120")
    received = Received()
    with client.stream("GET", f"{conversation.path}/events") as response:
        for id, data in decode(response):
            assert id and data, "an event without content"
            received.add(id, json.loads(data))
    received.assert_whole(conversation)
