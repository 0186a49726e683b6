// Houston's streams in an EventSource, with the key in a header that `fetch` adds.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EventSource } from 'eventsource';
import { headers, newPlace, post, said, sleep, thread, url } from './houston.mjs';
import { cutter } from './cutter.mjs';

// Reads `address` until the server says 204. The texts are put together as any client would.
async function listen(address) {
  const heard = { ids: [], events: [], connections: 0, texts: new Map() };
  const authorized = (input, init) => {
    heard.connections += 1;
    return fetch(input, { ...init, headers: { ...init.headers, ...headers } });
  };
  const source = new EventSource(address, { fetch: authorized });
  // Its own timer does not keep the process alive while it waits to come back.
  const alive = setInterval(() => {}, 1_000);
  await new Promise((over, failed) => {
    source.onmessage = ({ data, lastEventId }) => {
      const event = JSON.parse(data);
      heard.ids.push(lastEventId);
      heard.events.push(event);
      add(heard.texts, event);
    };
    source.onerror = ({ code, message }) => {
      if (code === 204) over();
      else if (code !== undefined) failed(new Error(`${code}: ${message}`));
    };
  }).finally(() => clearInterval(alive));
  source.close();
  return heard;
}

function add(texts, event) {
  const { type, messageId, delta } = event;
  if (type === 'TEXT_MESSAGE_START') {
    assert(!texts.has(messageId), `${messageId} begins twice`);
    texts.set(messageId, '');
  }
  if (type === 'TEXT_MESSAGE_CONTENT') texts.set(messageId, texts.get(messageId) + delta);
  if (type === 'MESSAGES_SNAPSHOT') {
    const truth = new Map(event.messages.map(({ id, content }) => [id, content]));
    for (const id of texts.keys()) truth.has(id) ? texts.set(id, truth.get(id)) : texts.delete(id);
  }
}

// Every position comes once, and of the events without text none twice.
function assertNothingTwice({ ids, events }) {
  assert.equal(new Set(ids).size, ids.length, `positions repeat: ${ids}`);
  const once = events.filter(({ type }) => !type.endsWith('_CONTENT')).map((event) => JSON.stringify(event));
  assert.equal(new Set(once).size, once.length);
  const count = (type) => events.filter((event) => event.type === type).length;
  for (const [begin, end] of [
    ['RUN_STARTED', 'RUN_FINISHED'],
    ['STEP_STARTED', 'STEP_FINISHED'],
    ['TEXT_MESSAGE_START', 'TEXT_MESSAGE_END'],
    ['TOOL_CALL_START', 'TOOL_CALL_END'],
    ['TOOL_CALL_START', 'TOOL_CALL_RESULT'],
  ]) {
    assert.equal(count(begin), count(end), `${begin} and ${end}`);
  }
}

const texts = ({ texts }) => [...texts].map(([id, content]) => ({ id, content }));

async function assertSame(heard, place, since = 0) {
  const messages = (await thread(place)).filter((message) => message.seq > since);
  assert.deepEqual(texts(heard), said(messages, 'agent'));
}

// The server says how long to wait before coming back; a run must last for 20 such pauses.
async function pauseOf(place) {
  const posted = await post(place, 'hello');
  const text = await (await fetch(url + posted.events_url, { headers })).text();
  return Number(/^retry: (\d+)$/m.exec(text)?.[1]);
}

test('EventSource: a run from beginning to end, and 204 after it', async () => {
  const place = await newPlace();
  const posted = await post(place, 'Please create a note: buy milk');
  const heard = await listen(url + posted.events_url);
  assert.equal(heard.events[0].type, 'RUN_STARTED');
  assert.equal(heard.events.at(-1).type, 'RUN_FINISHED');
  // The server ends the stream; an EventSource comes back once and is told that there is no more.
  assert.equal(heard.connections, 2);
  assertNothingTwice(heard);
  await assertSame(heard, place);

  const nothing = await listen(`${url}${place.path}/events?after=${heard.ids.at(-1)}`);
  assert.deepEqual([nothing.events, nothing.connections], [[], 1]);
});

test('EventSource: heartbeats are not events', async () => {
  const place = await newPlace();
  const seconds = 3;
  const posted = await post(place, `/sim hold_ms=${seconds * 1_000} chunks=5`);
  let heartbeats = 0;
  const raw = async () => {
    const response = await fetch(url + posted.events_url, { headers });
    for (const line of (await response.text()).split('\n')) if (line === ':') heartbeats += 1;
  };
  const [heard] = await Promise.all([listen(url + posted.events_url), raw()]);
  assertNothingTwice(heard);
  await assertSame(heard, place);
  const every = Number(process.env.HOUSTON_SERVER__HEARTBEAT_S ?? 8);
  assert(heartbeats >= Math.floor((seconds - 0.5) / every), `${heartbeats} heartbeats`);
});

test('EventSource: a wrong key ends it for good', async () => {
  const place = await newPlace();
  const source = new EventSource(`${url}${place.path}/events`, {
    fetch: (input, init) => fetch(input, { ...init, headers: { ...init.headers, authorization: 'Bearer hou_no' } }),
  });
  const { code } = await new Promise((failed) => (source.onerror = failed));
  await sleep(50);
  assert.deepEqual([code, source.readyState], [401, EventSource.CLOSED]);
});

for (const seed of [11, 12, 13]) {
  test(`EventSource: 20 forced drops (${seed}): no gap, no duplicate`, async (t) => {
    const place = await newPlace();
    const pause = await pauseOf(place);
    const since = (await thread(place)).at(-1).seq;
    const proxy = await cutter(url, { cuts: 20, longest: 1_000, seed });
    t.after(() => proxy.close());
    const chunks = 300;
    const delay = Math.ceil((20 * (pause + 80)) / chunks);
    const posted = await post(place, `/sim chunks=${chunks} delay_ms=${delay}`);
    const heard = await listen(proxy.url + posted.events_url);
    // Whatever is left of the 20 falls on a replay of the same run.
    while (proxy.cuts < 20) {
      const again = await listen(proxy.url + posted.events_url);
      assertNothingTwice(again);
      await assertSame(again, place, since);
    }
    assert.equal(proxy.cuts, 20);
    assertNothingTwice(heard);
    await assertSame(heard, place, since);
    assert.equal(texts(heard)[0].content.split(' ').length, chunks);
  });
}
