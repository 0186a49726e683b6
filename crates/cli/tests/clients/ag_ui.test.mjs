// Houston's streams in AG-UI's own client, which refuses every event that does not fit the ones before it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HttpAgent } from '@ag-ui/client';
import { EventSchema } from '@ag-ui/core/schemas';
import { cancel, headers, newPlace, post, runOf, said, thread, until, url } from './houston.mjs';
import { cutter } from './cutter.mjs';
import { resumableFetch } from './resumable_fetch.mjs';

// Posting a message starts the run; its stream is read with GET, as often as one likes.
class Reader extends HttpAgent {
  requestInit() {
    return { method: 'GET', headers: { ...this.headers, accept: 'text/event-stream' }, signal: this.abortController.signal };
  }
}

// The client drops what the protocol does not know, with a warning.
const warnings = [];
console.warn = (...warning) => warnings.push(warning.join(' '));

// A client of `place`: what it has of the thread grows from run to run.
function reader(place) {
  return new Reader({ url, headers, threadId: place.id, fetch: resumableFetch() });
}

// Posts `content` and reads its run to the end. Returns the events, and what the client was told of its end.
async function converse(client, place, content, { through = url, onEvent } = {}) {
  const posted = await post(place, content);
  return read(client, posted, { through, onEvent });
}

async function read(client, posted, { through = url, onEvent } = {}) {
  const heard = { posted, events: [] };
  client.url = through + posted.events_url;
  client.addMessage({ id: posted.id, role: 'user', content: posted.content });
  const subscriber = {
    onEvent({ event }) {
      const known = EventSchema.safeParse(event);
      assert(known.success, `${JSON.stringify(event)}: ${known.error}`);
      heard.events.push(event);
      onEvent?.(event);
    },
    onRunFinishedEvent: (end) => void (heard.end = end),
    onRunErrorEvent: ({ event }) => void (heard.error = event),
    onRunFailed: ({ error }) => void (heard.failed = error),
  };
  await client.runAgent({ runId: posted.run_id }, subscriber).catch((error) => void (heard.thrown = error));
  heard.types = heard.events.map((event) => event.type);
  return heard;
}

const assertWell = ({ thrown, failed, error }) => {
  assert.deepEqual(warnings, []);
  assert.equal(thrown ?? failed ?? error, undefined, String((thrown ?? failed)?.stack ?? error?.message));
};

// What was said, as the client has it.
const shown = (client) =>
  client.messages
    .filter(({ role, content }) => ['user', 'assistant'].includes(role) && content)
    .map(({ id, content }) => ({ id, content }));

// An error message is an activity: it changes in place, from a countdown to what became of it.
async function assertSame(client, place) {
  const messages = await thread(place);
  assert.deepEqual(shown(client), said(messages, 'user', 'agent'));
  const activities = client.messages.filter(({ role }) => role === 'activity');
  assert(activities.every(({ activityType }) => activityType === 'houston.error'));
  assert.deepEqual(
    activities.map(({ id, content }) => ({ id, content })),
    messages
      .filter(({ source }) => source === 'error')
      .map(({ id, content, metadata }) => ({ id, content: { ...metadata, text: content } })),
  );
}

test('AG-UI: text: the client has the thread, over several runs', async () => {
  const place = await newPlace();
  const client = reader(place);
  for (const content of ['hello', 'how are you?', '/sim chunks=200 delay_ms=1']) {
    const heard = await converse(client, place, content);
    assertWell(heard);
    assert.deepEqual(heard.end.outcome, 'success');
    assert.equal(heard.types[0], 'RUN_STARTED');
    assert.equal(heard.types.at(-1), 'RUN_FINISHED');
    assert.equal(heard.events[0].runId, heard.posted.run_id);
    await assertSame(client, place);
  }
  assert.equal(shown(client).at(-1).content.split(' ').length, 200);
});

test('AG-UI: tools: calls and results under the ids of the thread', async () => {
  const place = await newPlace();
  const client = reader(place);
  const heard = await converse(client, place, 'Please create a note: buy milk');
  assertWell(heard);
  await assertSame(client, place);
  const cells = (await thread(place)).filter((message) => message.message_type === 'tool');
  const calls = client.messages.flatMap((message) => message.toolCalls ?? []);
  assert.deepEqual(calls.map((call) => call.id), cells.map((cell) => cell.id));
  assert.equal(calls[0].function.name, 'create_note');
  assert.deepEqual(JSON.parse(calls[0].function.arguments), { title: 'buy milk', content: 'buy milk' });
  const result = client.messages.find((message) => message.role === 'tool');
  assert.equal(result.toolCallId, calls[0].id);
  assert.match(result.content, /note_[0-9a-f]{32}/);
});

test('AG-UI: tools: parallel calls, one of which fails, and one there is not', async () => {
  const place = await newPlace();
  const client = reader(place);
  const orders = 'tool=list_notes tool=get_current_time args={"time_zone":"No/Where"} tool=fly args={"to":"moon"}';
  const heard = await converse(client, place, `/sim ${orders}`);
  assertWell(heard);
  await assertSame(client, place);
  const results = heard.events.filter((event) => event.type === 'TOOL_CALL_RESULT');
  const calls = client.messages.flatMap((message) => message.toolCalls ?? []);
  assert.deepEqual(calls.map((call) => call.function.name), ['list_notes', 'get_current_time', 'fly']);
  assert.deepEqual(results.map((event) => event.toolCallId), calls.map((call) => call.id));
  assert.deepEqual(results.map((event) => event.metadata?.houston.is_error ?? false), [false, true, true]);
});

test('AG-UI: a message that is posted while the run is at work enters it', async () => {
  const place = await newPlace();
  const client = reader(place);
  let second;
  const heard = await converse(client, place, '/sim chunks=50 delay_ms=20', {
    onEvent(event) {
      if (event.type === 'TEXT_MESSAGE_CONTENT') second ??= post(place, 'what time is it?');
    },
  });
  assertWell(heard);
  assert.equal((await second).run_id, heard.posted.run_id);
  const messages = await thread(place);
  const [first, last] = said(messages, 'agent');
  assert.deepEqual(shown(client).slice(1), [first, last]);
  const added = heard.events.filter((event) => event.name === 'houston.message.posted').map((event) => event.value.message);
  assert.deepEqual(added.map(({ id, content }) => ({ id, content })), said(messages, 'user'));
});

test('AG-UI: reasoning', async () => {
  const place = await newPlace();
  const client = reader(place);
  const heard = await converse(client, place, '/sim think=5');
  assertWell(heard);
  await assertSame(client, place);
  const thoughts = client.messages.filter((message) => message.role === 'reasoning');
  assert(thoughts.length > 0 && thoughts.every((thought) => thought.content), JSON.stringify(client.messages));
});

test('AG-UI: cancelled: the outcome says so, and what was begun is taken back', async () => {
  const place = await newPlace();
  const client = reader(place);
  const posted = await post(place, '/sim chunks=5000 delay_ms=5');
  let asked;
  const heard = await read(client, posted, {
    onEvent(event) {
      if (event.type === 'TEXT_MESSAGE_CONTENT') asked ??= cancel(posted.run_id);
    },
  });
  await asked;
  assertWell(heard);
  assert.deepEqual(heard.events.at(-1).outcome, { type: 'cancelled' });
  assert(heard.types.includes('MESSAGES_SNAPSHOT'));
  await assertSame(client, place);
});

test('AG-UI: failed: RUN_ERROR says why, the thread what its reader can use', async () => {
  const place = await newPlace();
  const client = reader(place);
  const heard = await converse(client, place, '/sim fail=authentication_error');
  assert.equal(heard.error.code, 'AUTHENTICATION_ERROR');
  assert.equal(heard.error.message, 'ordered by /sim fail');
  const messages = await thread(place);
  assert.deepEqual(
    said(messages, 'error').map(({ content }) => content),
    ['Failed permanently: This assistant cannot answer as it is set up now.'],
  );
  await assertSame(client, place);
});

test('AG-UI: retried: what an attempt began is taken back, attempt by attempt', async () => {
  const place = await newPlace();
  const client = reader(place);
  const heard = await converse(client, place, '/sim fail=network_error fail_after=12');
  assert.equal(heard.error.code, 'NETWORK_ERROR');
  assert(heard.events.some((event) => event.name === 'houston.retry.scheduled'));
  const begun = heard.events.filter((event) => event.type === 'TEXT_MESSAGE_START').length;
  const snapshots = heard.types.filter((type) => type === 'MESSAGES_SNAPSHOT').length;
  assert(begun > 0 && begun === snapshots, `${begun} messages begun, ${snapshots} snapshots`);
  assert.deepEqual(said(await thread(place), 'agent'), []);
  await assertSame(client, place);
});

test('AG-UI: a late reader has the same', async () => {
  const place = await newPlace();
  const first = reader(place);
  const { posted, types } = await converse(first, place, 'Please create a note: buy milk');
  await until(async () => (await runOf(posted.run_id)).ended_at, 'the end of the run');
  const late = reader(place);
  const heard = await read(late, posted);
  // The stream is over, but whoever asks for what came after its beginning gets all of it.
  assertWell(heard);
  assert(types.length >= heard.types.length);
  assert.deepEqual(shown(late), shown(first));
});

test('AG-UI: cancelled after tools: their calls and results stay', async () => {
  const place = await newPlace();
  const client = reader(place);
  await converse(client, place, 'Please create a note: buy milk');
  const calls = () => client.messages.filter((message) => message.toolCalls || message.role === 'tool');
  const before = calls();
  const posted = await post(place, '/sim chunks=5000 delay_ms=5');
  let asked;
  await read(client, posted, {
    onEvent(event) {
      if (event.type === 'TEXT_MESSAGE_CONTENT') asked ??= cancel(posted.run_id);
    },
  });
  await asked;
  assert.deepEqual(calls(), before);
});

for (const seed of [1, 2, 3]) {
  test(`AG-UI: cut off 20 times (${seed}): nothing is missing, nothing comes twice`, async (t) => {
    const place = await newPlace();
    const client = reader(place);
    const proxy = await cutter(url, { cuts: 20, longest: 1_000, seed });
    t.after(() => proxy.close());
    // A run may be over before the last cut: then there is another one.
    for (let runs = 0; proxy.cuts < 20 && runs < 20; runs += 1) {
      const heard = await converse(client, place, '/sim chunks=300 delay_ms=5', { through: proxy.url });
      assertWell(heard);
      await assertSame(client, place);
    }
    assert.equal(proxy.cuts, 20);
    const heard = await converse(client, place, 'Please create a note: grüße 🚀', { through: proxy.url });
    assertWell(heard);
    await assertSame(client, place);
  });
}

test('AG-UI: cut off in tools, retries, failures and cancellations: the same', async (t) => {
  const place = await newPlace();
  const client = reader(place);
  const proxy = await cutter(url, { cuts: 80, longest: 900, seed: 4 });
  t.after(() => proxy.close());
  const contents = [
    'Please create a note: buy milk',
    '/sim chunks=40 delay_ms=10 fail=network_error fail_after=30',
    '/sim tool=list_notes tool=get_current_time tool=create_note args={"title":"a","content":"b"}',
    '/sim chunks=5000 delay_ms=5',
    '/sim chunks=60 delay_ms=10',
  ];
  for (const content of contents) {
    const posted = await post(place, content);
    let asked;
    const heard = await read(client, posted, {
      through: proxy.url,
      onEvent(event) {
        if (content.includes('5000') && event.type === 'TEXT_MESSAGE_CONTENT') asked ??= cancel(posted.run_id);
      },
    });
    await asked;
    if (!content.includes('fail=')) assertWell(heard);
    assert.equal(heard.error?.code, content.includes('fail=') ? 'NETWORK_ERROR' : undefined);
    await assertSame(client, place);
  }
  assert(proxy.cuts > 20, `${proxy.cuts} cuts`);
});
