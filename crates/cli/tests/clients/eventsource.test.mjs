// Houston's streams in an EventSource; `fetch` adds a header with the key.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EventSource } from 'eventsource';
import { headers, newConversation, post, sleep, thread, url } from './houston.mjs';
import { cutter } from './cutter.mjs';
import { Received } from './received.mjs';

// Reads `address` until the server answers 204, and assembles the texts.
async function listen(address) {
  const received = new Received();
  received.connections = 0;
  const authorized = (input, init) => {
    received.connections += 1;
    return fetch(input, { ...init, headers: { ...init.headers, ...headers } });
  };
  const source = new EventSource(address, { fetch: authorized });
  // The timer of EventSource does not keep the process alive while it waits to reconnect.
  const alive = setInterval(() => {}, 1_000);
  await new Promise((over, failed) => {
    source.onmessage = ({ data, lastEventId }) => received.add(lastEventId, JSON.parse(data));
    source.onerror = ({ code, message }) => {
      if (code === 204) over();
      else if (code !== undefined) failed(new Error(`${code}: ${message}`));
    };
  }).finally(() => clearInterval(alive));
  source.close();
  return received;
}

// The server sends the delay before a reconnection; a run must last for 20 such delays.
async function pauseOf(conversation) {
  const posted = await post(conversation, 'hello');
  const text = await (await fetch(url + posted.events_url, { headers })).text();
  return Number(/^retry: (\d+)$/m.exec(text)?.[1]);
}

test('eventsource: a run from beginning to end, and 204 after it', async () => {
  const conversation = await newConversation();
  const posted = await post(conversation, 'Please create a note: buy milk');
  const received = await listen(url + posted.events_url);
  assert.equal(received.events[0].type, 'RUN_STARTED');
  assert.equal(received.events.at(-1).type, 'RUN_FINISHED');
  // The server ends the stream; an EventSource reconnects once and gets 204.
  assert.equal(received.connections, 2);
  await received.assertWhole(conversation);

  const nothing = await listen(`${url}${conversation.path}/events?after=${received.ids.at(-1)}`);
  assert.deepEqual([nothing.events, nothing.connections], [[], 1]);
});

test('eventsource: heartbeats are not events', async () => {
  const conversation = await newConversation();
  const seconds = 3;
  const posted = await post(conversation, `/sim hold_ms=${seconds * 1_000} chunks=5`);
  let heartbeats = 0;
  const raw = async () => {
    const response = await fetch(url + posted.events_url, { headers });
    for (const line of (await response.text()).split('\n')) if (line === ':') heartbeats += 1;
  };
  const [received] = await Promise.all([listen(url + posted.events_url), raw()]);
  await received.assertWhole(conversation);
  // Without the tests' own setting there is one each 8 s.
  if (process.env.CLIENTS) assert(heartbeats > 10, `${heartbeats} heartbeats`);
});

test('eventsource: a wrong key ends it for good', async () => {
  const conversation = await newConversation();
  const source = new EventSource(`${url}${conversation.path}/events`, {
    fetch: (input, init) => fetch(input, { ...init, headers: { ...init.headers, authorization: 'Bearer hou_no' } }),
  });
  const { code } = await new Promise((failed) => (source.onerror = failed));
  await sleep(50);
  assert.deepEqual([code, source.readyState], [401, EventSource.CLOSED]);
});

for (const seed of [11, 12, 13]) {
  test(`eventsource: 20 forced drops (${seed}): no gap, no duplicate`, async (t) => {
    const conversation = await newConversation();
    const pause = await pauseOf(conversation);
    const since = (await thread(conversation)).at(-1).seq;
    const proxy = await cutter(url, { cuts: 20, longest: 1_000, seed });
    t.after(() => proxy.close());
    const chunks = 300;
    const delay = Math.ceil((20 * (pause + 80)) / chunks);
    const posted = await post(conversation, `/sim chunks=${chunks} delay_ms=${delay}`);
    const received = await listen(proxy.url + posted.events_url);
    // The remaining cuts happen in a replay of the same run.
    while (proxy.cuts < 20) {
      const again = await listen(proxy.url + posted.events_url);
      await again.assertWhole(conversation, since);
    }
    assert.equal(proxy.cuts, 20);
    await received.assertWhole(conversation, since);
    assert.equal(received.assembled()[0].content.split(' ').length, chunks);
  });
}
