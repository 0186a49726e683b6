"""The events of a goal (or any other agentable), complete and in order, however often the connection breaks:

    for received in HoustonStream(f"{api}/v1/goals/{goal}/events", token=token):
        print(received.id, received.event["type"])    # `id` is a position: pass it as `after` to go on later

    async for received in HoustonStream(...): ...

The loop ends after the last event of the run (with `?follow=true`: never). It raises HoustonProblem if Houston refuses, and
StreamLost if it stays away for `tries` connections in a row. A connection that breaks is neither: the events after the last one
are got over a new one. Leaving the loop never cancels the run. Needs httpx.
"""

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, NamedTuple

import httpx


class Received(NamedTuple):
    id: str
    event: dict[str, Any]


class HoustonProblem(Exception):
    """Houston's answer to a request that it refuses: `code` is stable, `problem` has where and why."""

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        self.status, self.code, self.problem = status, problem.get("code", "unknown"), problem
        super().__init__(f"{status} {self.code}: {problem.get('detail') or problem.get('title') or 'refused'}")


class StreamLost(Exception):
    pass


class HoustonStream:
    def __init__(
        self,
        url: str,
        *,
        token: str | Callable[[bool], str],
        after: str | None = None,
        tries: int | None = None,
        silence: float = 25,
        pause: Callable[[int], float] | None = None,
    ) -> None:
        """
        token: a client token, a JWT or an API key, or what gets one; it is called with True when Houston has said 401.
        after: the `id` of the last event that is known.
        tries: how many connections in a row may fail; no limit without.
        silence: seconds without a byte after which a connection is taken for dead: Houston sends one at least every 8 s.
        pause: seconds before connection number `failures` in a row is replaced.
        """
        self.url = httpx.URL(url)
        self.position = after
        """The `id` of the last event."""
        self._token, self._tries, self._usual_pause = token, tries, pause
        self._timeout = httpx.Timeout(10, read=silence)
        self._last: str | None = None
        self._pending = ""
        self._retry_s = 0.0
        self._refused = self._is_over = False
        self._failures = 0

    def __iter__(self) -> Iterator[Received]:
        with httpx.Client(timeout=self._timeout) as client:
            while not self._is_over:
                try:
                    with client.stream("GET", self.url, headers=self._headers()) as response:
                        if response.is_error:
                            response.read()
                        for text in response.iter_text() if self._accepts(response) else ():
                            yield from self._events(text)
                except httpx.TransportError:
                    pass
                if not self._is_over:
                    time.sleep(self._pause())

    async def __aiter__(self) -> AsyncIterator[Received]:
        async with httpx.AsyncClient(timeout=self._timeout) as client:
            while not self._is_over:
                try:
                    async with client.stream("GET", self.url, headers=self._headers()) as response:
                        if response.is_error:
                            await response.aread()
                        if self._accepts(response):
                            async for text in response.aiter_text():
                                for received in self._events(text):
                                    yield received
                except httpx.TransportError:
                    pass
                if not self._is_over:
                    await asyncio.sleep(self._pause())

    def _headers(self) -> dict[str, str]:
        token = self._token if isinstance(self._token, str) else self._token(self._refused)
        headers = {"Accept": "text/event-stream", "Authorization": f"Bearer {token}"}
        return headers if self.position is None else headers | {"Last-Event-ID": self.position}

    def _accepts(self, response: httpx.Response) -> bool:
        """Whether the response has events. 204 ends the stream, a problem that will not pass raises."""
        expired = response.status_code == 401 and callable(self._token) and not self._refused
        self._refused, self._pending = expired, ""
        if response.is_success:
            self._failures, self._is_over = 0, response.status_code == 204
            return not self._is_over
        retry_after = response.headers.get("retry-after", "")
        self._retry_s = float(retry_after) if retry_after.isdigit() else 0
        if expired or response.status_code == 429 or response.status_code >= 500:
            return False
        is_json = response.text.startswith("{")
        raise HoustonProblem(response.status_code, response.json() if is_json else {"detail": response.text})

    def _events(self, text: str) -> Iterator[Received]:
        """The events that a further piece of text completes."""
        *frames, self._pending = (self._pending + text).split("\n\n")
        for frame in frames:
            fields = dict(line.partition(":")[::2] for line in frame.split("\n"))
            if "retry" in fields:
                self._retry_s = int(fields["retry"]) / 1000
            data, position = fields.get("data"), fields.get("id", "").strip()
            # An event that has arrived is not given out twice, whatever stands between here and Houston.
            if data is None or (position == self.position and data == self._last):
                continue
            self.position, self._last = position, data
            event = json.loads(data)
            self._is_over = event["type"] in ("RUN_FINISHED", "RUN_ERROR") and "follow" not in self.url.params
            yield Received(position, event)

    def _pause(self) -> float:
        """Counts a failed connection; how many seconds to wait for the next."""
        self._failures += 1
        if self._tries is not None and self._failures > self._tries:
            raise StreamLost(f"no connection to {self.url.path} in {self._failures} tries")
        if self._usual_pause:
            return self._usual_pause(self._failures)
        return random.uniform(0.5, 1) * max(self._retry_s, min(30.0, 0.25 * 2.0 ** min(self._failures, 8)))
