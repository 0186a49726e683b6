"""The official A2A client for Python, over JSON-RPC and over HTTP+JSON."""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from uuid import uuid4

import httpx
import pytest
from a2a.client import ClientConfig, ClientFactory
from a2a.client.client import Client
from a2a.types import (
    AuthenticationInfo,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
    TaskState,
)
from a2a.utils.errors import TaskNotFoundError
from google.protobuf.json_format import ParseDict

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


PORT = int(os.environ["HOUSTON_HOOKS_PORT"])
HOOK = f"http://127.0.0.1:{PORT}/a2a"


@contextmanager
def receiver() -> Iterator[list[tuple[dict[str, str], StreamResponse]]]:
    """What arrives at the address where the server may send: headers and updates."""
    received: list[tuple[dict[str, str], StreamResponse]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            received.append((dict(self.headers), ParseDict(json.loads(body), StreamResponse())))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", PORT), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield received
    finally:
        server.shutdown()
        server.server_close()


def test_updates_are_pushed_to_a_client_that_is_away(binding: str) -> None:
    async def run() -> Task:
        client = await connect(binding)
        request = message("/sim chunks=20 delay_ms=1")
        push = TaskPushNotificationConfig(
            url=HOOK, token="t0ken", authentication=AuthenticationInfo(scheme="Bearer", credentials="abc")
        )
        request.configuration.CopyFrom(SendMessageConfiguration(task_push_notification_config=push))
        seen = await read(client.send_message(request), lambda seen: seen.task is not None)
        assert seen.task
        return seen.task

    with receiver() as received:
        task = asyncio.run(run())
        until = time.monotonic() + 30
        while not received or received[-1][1].status_update.status.state != TaskState.TASK_STATE_COMPLETED:
            assert time.monotonic() < until, received
            time.sleep(0.05)
    for headers, _ in received:
        headers = {name.lower(): value for name, value in headers.items()}
        assert headers["x-a2a-notification-token"] == "t0ken" and headers["authorization"] == "Bearer abc"
    updates = [update for _, update in received]
    assert updates[0].status_update.status.state == TaskState.TASK_STATE_WORKING
    texts = ["".join(part.text for part in one.artifact_update.artifact.parts) for one in updates]
    assert len(" ".join(filter(None, texts)).split(" ")) == 20
    assert {one.status_update.task_id or one.artifact_update.task_id for one in updates} == {task.id}


def test_push_configs_are_listed_and_deleted(binding: str) -> None:
    async def run() -> None:
        client = await connect(binding)
        sent = client.send_message(message("/sim chunks=5000 delay_ms=5"))
        task = (await read(sent, lambda seen: seen.task is not None)).task
        assert task
        config = TaskPushNotificationConfig(task_id=task.id, id="mine", url=HOOK)
        assert (await client.create_task_push_notification_config(config)).id == "mine"
        listed = await client.list_task_push_notification_configs(
            ListTaskPushNotificationConfigsRequest(task_id=task.id)
        )
        assert [one.id for one in listed.configs] == ["mine"]
        got = await client.get_task_push_notification_config(
            GetTaskPushNotificationConfigRequest(task_id=task.id, id="mine")
        )
        assert (got.url, got.task_id) == (HOOK, task.id)
        await client.delete_task_push_notification_config(
            DeleteTaskPushNotificationConfigRequest(task_id=task.id, id="mine")
        )
        listed = await client.list_task_push_notification_configs(
            ListTaskPushNotificationConfigsRequest(task_id=task.id)
        )
        assert not listed.configs
        await client.cancel_task(CancelTaskRequest(id=task.id))

    asyncio.run(run())
