// Houston's streams in an EventSource; `fetch` adds a header with the key.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EventSource } from 'eventsource';
import { headers, newConversation, post, textsOf, sleep, thread, url } from './houston.mjs';
import { cutter } from './cutter.mjs';

// Reads `address` until the server answers 204, and assembles the texts.
async function listen(address) {
  const received = { ids: [], events: [], connections: 0, texts: new Map() };
  const authorized = (input, init) => {
    received.connections += 1;
    return fetch(input, { ...init, headers: { ...init.headers, ...headers } });
  };
  const source = new EventSource(address, { fetch: authorized });
  // The timer of EventSource does not keep the process alive while it waits to reconnect.
  const alive = setInterval(() => {}, 1_000);
  await new Promise((over, failed) => {
    source.onmessage = ({ data, lastEventId }) => {
      const event = JSON.parse(data);
      received.ids.push(lastEventId);
      received.events.push(event);
      add(received.texts, event);
    };
    source.onerror = ({ code, message }) => {
      if (code === 204) over();
      else if (code !== undefined) failed(new Error(`${code}: ${message}`));
    };
  }).finally(() => clearInterval(alive));
  source.close();
  return received;
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

// Checks that every position comes once, and that no event without text is repeated.
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

async function assertSame(received, conversation, since = 0) {
  const messages = (await thread(conversation)).filter((message) => message.seq > since);
  assert.deepEqual(texts(received), textsOf(messages, 'agent'));
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
  assertNothingTwice(received);
  await assertSame(received, conversation);

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
  assertNothingTwice(received);
  await assertSame(received, conversation);
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
      assertNothingTwice(again);
      await assertSame(again, conversation, since);
    }
    assert.equal(proxy.cuts, 20);
    assertNothingTwice(received);
    await assertSame(received, conversation, since);
    assert.equal(texts(received)[0].content.split(' ').length, chunks);
  });
}
