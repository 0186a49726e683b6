"""What a client has received of a stream."""

from typing import Any

from houston import Conversation, texts


class Received:
    def __init__(self) -> None:
        self.ids: list[str] = []
        self.events: list[dict[str, Any]] = []
        self.texts: dict[str, str] = {}

    def add(self, id: str, event: dict[str, Any]) -> None:
        self.ids.append(id)
        self.events.append(event)
        if event["type"] == "TEXT_MESSAGE_START":
            assert event["messageId"] not in self.texts, "a message begins twice"
            self.texts[event["messageId"]] = ""
        elif event["type"] == "TEXT_MESSAGE_CONTENT":
            self.texts[event["messageId"]] += event["delta"]
        elif event["type"] == "MESSAGES_SNAPSHOT":
            truth = {message["id"]: message.get("content") for message in event["messages"]}
            self.texts = {id: truth[id] for id in self.texts if id in truth}

    def assert_whole(self, conversation: Conversation) -> None:
        """Checks that every position comes once, and the texts against the thread."""
        assert len(set(self.ids)) == len(self.ids), "positions repeat"
        assert self.events[-1]["type"] == "RUN_FINISHED"
        assert list(self.texts.items()) == texts(conversation, "agent")[-len(self.texts) :]
