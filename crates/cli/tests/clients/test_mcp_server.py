"""Houston as an MCP server, as the official client for Python uses it, in both generations of the protocol."""

import asyncio
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from houston import HEADERS, URL, ask

pytestmark = pytest.mark.parametrize("mode", ["auto", "legacy"])


def connect(mode: str) -> Client:
    http = httpx2.AsyncClient(headers=HEADERS, timeout=60)
    return Client(streamable_http_client(f"{URL}/mcp", http_client=http), mode=mode)


async def call(client: Client, name: str, arguments: dict[str, Any]) -> Any:
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result.content
    return result.structured_content


def test_thread_is_started_waited_for_and_read(mode: str) -> None:
    async def run() -> None:
        user = ask("POST", "/v1/users", {"name": "Ann"})["id"]
        async with connect(mode) as client:
            tools = (await client.list_tools()).tools
            assert [tool.name for tool in tools][:3] == ["list_threads", "start_thread", "post_message"]
            started = await call(client, "start_thread", {"message": "/sim chunks=20", "user_id": user})
            steps: list[float] = []

            async def report(progress: float, total: float | None, message: str | None) -> None:
                steps.append(progress)

            arguments = {"run_id": started["run_id"], "seconds": 50}
            waited = await client.call_tool("wait_for_run", arguments, progress_callback=report)
            run = waited.structured_content
            assert steps == sorted(steps) and len(steps) > 0
            assert run["is_over"] and len(run["answers"][0]["content"].split(" ")) == 20
            page = await call(client, "read_thread", {"thread_id": started["thread_id"]})
            assert page["messages"][-1]["content"] == "/sim chunks=20"
            missing = await client.call_tool("read_thread", {"thread_id": "goal_" + "0" * 32})
            assert missing.is_error

    asyncio.run(run())
