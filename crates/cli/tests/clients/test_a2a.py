"""The official A2A client for Python, over JSON-RPC and over HTTP+JSON."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import httpx
import pytest
from a2a.client import ClientConfig, ClientFactory
from a2a.client.client import Client
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskState,
)
from a2a.utils.errors import TaskNotFoundError

from houston import HEADERS, URL

pytestmark = pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])


async def connect(binding: str) -> Client:
    headers = {**HEADERS, "houston-user": f"a2a-{uuid4()}"}
    http = httpx.AsyncClient(headers=headers, timeout=60)
    config = ClientConfig(httpx_client=http, supported_protocol_bindings=[binding])
    return await ClientFactory(config).create_from_url(URL)


def message(text: str, **more: Any) -> SendMessageRequest:
    said = Message(role=Role.ROLE_USER, message_id=str(uuid4()), parts=[Part(text=text)], **more)
    return SendMessageRequest(message=said)


class Seen:
    """What a stream has: its task, the texts of its artifacts, and its states."""

    def __init__(self) -> None:
        self.task: Task | None = None
        self.texts: dict[str, str] = {}
        self.states: list[int] = []

    def add(self, event: StreamResponse) -> None:
        if event.HasField("task"):
            self.task = event.task
            self.states.append(event.task.status.state)
        elif event.HasField("status_update"):
            self.states.append(event.status_update.status.state)
        elif event.HasField("artifact_update"):
            update = event.artifact_update
            text = "".join(part.text for part in update.artifact.parts)
            before = self.texts.get(update.artifact.artifact_id, "") if update.append else ""
            self.texts[update.artifact.artifact_id] = before + text


async def read(stream: AsyncIterator[StreamResponse], enough: Any = lambda seen: False) -> Seen:
    seen = Seen()
    async for event in stream:
        seen.add(event)
        if enough(seen):
            break
    return seen


def test_message_streams_and_task_is_found(binding: str) -> None:
    async def run() -> None:
        client = await connect(binding)
        seen = await read(client.send_message(message("/sim chunks=100 delay_ms=1")))
        assert seen.task and seen.states[-1] == TaskState.TASK_STATE_COMPLETED
        task = await client.get_task(GetTaskRequest(id=seen.task.id))
        assert [part.text for part in task.artifacts[0].parts] == list(seen.texts.values())
        assert len(task.artifacts[0].parts[0].text.split(" ")) == 100
        listed = await client.list_tasks(ListTasksRequest(context_id=seen.task.context_id))
        assert [one.id for one in listed.tasks] == [task.id]
        with pytest.raises(TaskNotFoundError):
            await client.get_task(GetTaskRequest(id="run_" + "0" * 32))

    asyncio.run(run())


def test_task_is_left_subscribed_to_and_cancelled(binding: str) -> None:
    async def run() -> None:
        client = await connect(binding)
        begun = await read(
            client.send_message(message("/sim chunks=5000 delay_ms=5")), lambda seen: len(seen.texts) > 0
        )
        assert begun.task
        again = await read(
            client.subscribe(SubscribeToTaskRequest(id=begun.task.id)), lambda seen: len(seen.texts) > 0
        )
        assert again.task and again.states[0] == TaskState.TASK_STATE_WORKING
        cancelled = await client.cancel_task(CancelTaskRequest(id=begun.task.id))
        assert cancelled.status.state == TaskState.TASK_STATE_CANCELED

    asyncio.run(run())
