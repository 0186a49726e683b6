"""The parts of Houston's API that these tests need, at HOUSTON_URL with HOUSTON_API_KEY."""

import os
import time
from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import uuid4

import httpx

URL = os.environ["HOUSTON_URL"].rstrip("/")
KEY = os.environ["HOUSTON_API_KEY"]
HEADERS = {"authorization": f"Bearer {KEY}"}

client = httpx.Client(base_url=URL, headers=HEADERS, timeout=30)


class Conversation(NamedTuple):
    id: str
    path: str
    user: str


def ask(method: str, path: str, body: Any = None) -> Any:
    headers = {"idempotency-key": str(uuid4())}
    response = client.request(method, path, json=body, headers=headers)
    # A server whose database is busy asks to try again.
    end = time.monotonic() + 60
    while response.status_code == 503 and time.monotonic() < end:
        time.sleep(float(response.headers.get("retry-after", "1")))
        response = client.request(method, path, json=body, headers=headers)
    assert response.is_success, f"{method} {path}: {response.status_code} {response.text}"
    return response.json() if response.content else None


def new_conversation() -> Conversation:
    """A new goal of a new user."""
    user = ask("POST", "/v1/users", {"name": "Ann"})["id"]
    goal = ask("POST", "/v1/goals", {"user_id": user, "title": "Try clients"})["id"]
    return Conversation(goal, f"/v1/goals/{goal}", user)


def post(conversation: Conversation, content: str) -> Any:
    return ask("POST", f"{conversation.path}/messages", {"content": content})


def thread(conversation: Conversation) -> list[Any]:
    """All messages of the thread, oldest first."""
    messages: list[Any] = []
    cursor: str | None = ""
    while cursor is not None:
        page = ask("GET", f"{conversation.path}/messages?limit=100" + (f"&cursor={cursor}" if cursor else ""))
        messages += page["data"]
        cursor = page["next_cursor"] if page["has_more"] else None
    return messages[::-1]


def texts(conversation: Conversation, *sources: str) -> list[tuple[str, str]]:
    """The text messages of a thread: id and content."""
    found = (m for m in thread(conversation) if m["message_type"] == "text" and m["source"] in sources)
    return [(message["id"], message["content"]) for message in found]


def until(ready: Callable[[], Any], what: str, patience: float = 120) -> Any:
    """Polls until `ready` returns something."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        if found := ready():
            return found
        time.sleep(0.01)
    raise TimeoutError(f"waited in vain for {what}")
