"""Reads an answer, in the midst of which Houston is killed and started again: says `text` when that may happen."""

import sys
from pathlib import Path

from houston import KEY, URL, new_conversation, post
from received import Received

sys.path.append(str(Path(__file__).parents[3] / "api/clients"))
from houston_stream import HoustonStream  # noqa: E402

conversation, received = new_conversation(), Received()
post(conversation, "/sim chunks=300 delay_ms=20")
for id, event in HoustonStream(f"{URL}{conversation.path}/events", token=KEY, pause=lambda failures: 0.03):
    if event["type"] == "TEXT_MESSAGE_CONTENT" and not any(received.texts.values()):
        print("text", flush=True)
    received.add(id, event)
received.assert_whole(conversation)
[answer] = received.texts.values()
assert len(answer.split(" ")) == 300
types = [event["type"] for event in received.events]
assert types.count("TEXT_MESSAGE_START") == 2 and types.count("MESSAGES_SNAPSHOT") == 1, types
