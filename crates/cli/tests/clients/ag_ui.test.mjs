// Houston's streams in AG-UI's own client, which rejects every event that does not fit the previous ones.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HttpAgent } from '@ag-ui/client';
import { EventSchema } from '@ag-ui/core/schemas';
import { cancel, headers, newConversation, post, runOf, textsOf, thread, until, url } from './houston.mjs';
import { cutter } from './cutter.mjs';
import { resumableFetch } from '../../../api/clients/resume.mjs';

// Posting a message starts the run; its stream can be read with GET any number of times.
class Reader extends HttpAgent {
  requestInit() {
    return { method: 'GET', headers: { ...this.headers, accept: 'text/event-stream' }, signal: this.abortController.signal };
  }
}

// The client drops unknown events with a warning.
const warnings = [];
console.warn = (...warning) => warnings.push(warning.join(' '));

// A client of `conversation`; its copy of the thread grows with each run.
function reader(conversation) {
  return new Reader({ url, headers, threadId: conversation.id, fetch: resumableFetch() });
}

// Posts `content` and reads its run to the end. Returns the events and how the run ended for the client.
async function converse(client, conversation, content, { through = url, onEvent } = {}) {
  const posted = await post(conversation, content);
  return read(client, posted, { through, onEvent });
}

async function read(client, posted, { through = url, onEvent } = {}) {
  const received = { posted, events: [] };
  client.url = through + posted.events_url;
  client.addMessage({ id: posted.id, role: 'user', content: posted.content });
  const subscriber = {
    onEvent({ event }) {
      const known = EventSchema.safeParse(event);
      assert(known.success, `${JSON.stringify(event)}: ${known.error}`);
      received.events.push(event);
      onEvent?.(event);
    },
    onRunFinishedEvent: (end) => void (received.end = end),
    onRunErrorEvent: ({ event }) => void (received.error = event),
    onRunFailed: ({ error }) => void (received.failed = error),
  };
  await client.runAgent({ runId: posted.run_id }, subscriber).catch((error) => void (received.thrown = error));
  received.types = received.events.map((event) => event.type);
  return received;
}

const assertWell = ({ thrown, failed, error }) => {
  assert.deepEqual(warnings, []);
  assert.equal(thrown ?? failed ?? error, undefined, String((thrown ?? failed)?.stack ?? error?.message));
};

// The texts, as the client has them.
const clientTexts = (client) =>
  client.messages
    .filter(({ role, content }) => ['user', 'assistant'].includes(role) && content)
    .map(({ id, content }) => ({ id, content }));

// An error message is an activity: its content changes from a countdown to the outcome.
async function assertSame(client, conversation) {
  const messages = await thread(conversation);
  assert.deepEqual(clientTexts(client), textsOf(messages, 'user', 'agent'));
  const activities = client.messages.filter(({ role }) => role === 'activity');
  assert(activities.every(({ activityType }) => activityType === 'houston.error'));
  assert.deepEqual(
    activities.map(({ id, content }) => ({ id, content })),
    messages
      .filter(({ source }) => source === 'error')
      .map(({ id, content, metadata }) => ({ id, content: { ...metadata, text: content } })),
  );
}

test('ag_ui: text: the client has the thread, over several runs', async () => {
  const conversation = await newConversation();
  const client = reader(conversation);
  for (const content of ['hello', 'how are you?', '/sim chunks=200 delay_ms=1']) {
    const received = await converse(client, conversation, content);
    assertWell(received);
    assert.deepEqual(received.end.outcome, 'success');
    assert.equal(received.types[0], 'RUN_STARTED');
    assert.equal(received.types.at(-1), 'RUN_FINISHED');
    assert.equal(received.events[0].runId, received.posted.run_id);
    await assertSame(client, conversation);
  }
  assert.equal(clientTexts(client).at(-1).content.split(' ').length, 200);
});

test('ag_ui: tools: calls and results under the ids of the thread', async () => {
  const conversation = await newConversation();
  const client = reader(conversation);
  const received = await converse(client, conversation, 'Please create a note: buy milk');
  assertWell(received);
  await assertSame(client, conversation);
  const cells = (await thread(conversation)).filter((message) => message.message_type === 'tool');
  const calls = client.messages.flatMap((message) => message.toolCalls ?? []);
  assert.deepEqual(calls.map((call) => call.id), cells.map((cell) => cell.id));
  assert.equal(calls[0].function.name, 'create_note');
  assert.deepEqual(JSON.parse(calls[0].function.arguments), { title: 'buy milk', content: 'buy milk' });
  const result = client.messages.find((message) => message.role === 'tool');
  assert.equal(result.toolCallId, calls[0].id);
  assert.match(result.content, /note_[0-9a-f]{32}/);
});

test('ag_ui: tools: parallel calls, of which one fails and one is unknown', async () => {
  const conversation = await newConversation();
  const client = reader(conversation);
  const orders = 'tool=list_notes tool=get_current_time args={"time_zone":"No/Where"} tool=fly args={"to":"moon"}';
  const received = await converse(client, conversation, `/sim ${orders}`);
  assertWell(received);
  await assertSame(client, conversation);
  const results = received.events.filter((event) => event.type === 'TOOL_CALL_RESULT');
  const calls = client.messages.flatMap((message) => message.toolCalls ?? []);
  assert.deepEqual(calls.map((call) => call.function.name), ['list_notes', 'get_current_time', 'fly']);
  assert.deepEqual(results.map((event) => event.toolCallId), calls.map((call) => call.id));
  assert.deepEqual(results.map((event) => event.metadata?.houston.is_error ?? false), [false, true, true]);
});

test('ag_ui: a message posted during a run is read by it', async () => {
  const conversation = await newConversation();
  const client = reader(conversation);
  let second;
  const received = await converse(client, conversation, '/sim chunks=300 delay_ms=20', {
    onEvent(event) {
      if (event.type === 'TEXT_MESSAGE_CONTENT') second ??= post(conversation, 'what time is it?');
    },
  });
  assertWell(received);
  assert.equal((await second).run_id, received.posted.run_id);
  const messages = await thread(conversation);
  const [first, last] = textsOf(messages, 'agent');
  assert.deepEqual(clientTexts(client).slice(1), [first, last]);
  const added = received.events.filter((event) => event.name === 'houston.message.posted').map((event) => event.value.message);
  assert.deepEqual(added.map(({ id, content }) => ({ id, content })), textsOf(messages, 'user'));
});

test('ag_ui: reasoning', async () => {
  const conversation = await newConversation();
  const client = reader(conversation);
  const received = await converse(client, conversation, '/sim think=5');
  assertWell(received);
  await assertSame(client, conversation);
  const thoughts = client.messages.filter((message) => message.role === 'reasoning');
  assert(thoughts.length > 0 && thoughts.every((thought) => thought.content), JSON.stringify(client.messages));
});

test('ag_ui: cancelled: the outcome says so, and partial text is taken back', async () => {
  const conversation = await newConversation();
  const client = reader(conversation);
  const posted = await post(conversation, '/sim chunks=5000 delay_ms=5');
  let asked;
  const received = await read(client, posted, {
    onEvent(event) {
      if (event.type === 'TEXT_MESSAGE_CONTENT') asked ??= cancel(posted.run_id);
    },
  });
  await asked;
  assertWell(received);
  assert.deepEqual(received.events.at(-1).outcome, { type: 'cancelled' });
  assert(received.types.includes('MESSAGES_SNAPSHOT'));
  await assertSame(client, conversation);
});

test('ag_ui: failed: RUN_ERROR and the thread have a message for the user', async () => {
  const conversation = await newConversation();
  const client = reader(conversation);
  const received = await converse(client, conversation, '/sim fail=authentication_error');
  assert.equal(received.error.code, 'AUTHENTICATION_ERROR');
  assert.equal(received.error.message, 'This assistant cannot answer as it is set up now.');
  assert.equal(received.error.metadata.houston.cause, 'ordered by /sim fail');
  const messages = await thread(conversation);
  assert.deepEqual(
    textsOf(messages, 'error').map(({ content }) => content),
    ['Failed permanently: This assistant cannot answer as it is set up now.'],
  );
  await assertSame(client, conversation);
});

test('ag_ui: retried: the partial text of each attempt is taken back', async () => {
  const conversation = await newConversation();
  const client = reader(conversation);
  const received = await converse(client, conversation, '/sim fail=network_error fail_after=12');
  assert.equal(received.error.code, 'NETWORK_ERROR');
  assert(received.events.some((event) => event.name === 'houston.retry.scheduled'));
  const begun = received.events.filter((event) => event.type === 'TEXT_MESSAGE_START').length;
  const snapshots = received.types.filter((type) => type === 'MESSAGES_SNAPSHOT').length;
  assert(begun > 0 && begun === snapshots, `${begun} messages begun, ${snapshots} snapshots`);
  assert.deepEqual(textsOf(await thread(conversation), 'agent'), []);
  await assertSame(client, conversation);
});

test('ag_ui: a late reader gets the same messages', async () => {
  const conversation = await newConversation();
  const first = reader(conversation);
  const { posted, types } = await converse(first, conversation, 'Please create a note: buy milk');
  await until(async () => (await runOf(posted.run_id)).ended_at, 'the end of the run');
  const late = reader(conversation);
  const received = await read(late, posted);
  // The run is over, but a client that reads after its start gets all events.
  assertWell(received);
  assert(types.length >= received.types.length);
  assert.deepEqual(clientTexts(late), clientTexts(first));
});

test('ag_ui: cancelled after tools: their calls and results stay', async () => {
  const conversation = await newConversation();
  const client = reader(conversation);
  await converse(client, conversation, 'Please create a note: buy milk');
  const calls = () => client.messages.filter((message) => message.toolCalls || message.role === 'tool');
  const before = calls();
  const posted = await post(conversation, '/sim chunks=5000 delay_ms=5');
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
  test(`ag_ui: cut off 20 times (${seed}): no event is lost or repeated`, async (t) => {
    const conversation = await newConversation();
    const client = reader(conversation);
    const proxy = await cutter(url, { cuts: 20, longest: 1_000, seed });
    t.after(() => proxy.close());
    // A run may end before the last cut: then another run follows.
    for (let runs = 0; proxy.cuts < 20 && runs < 20; runs += 1) {
      const received = await converse(client, conversation, '/sim chunks=300 delay_ms=5', { through: proxy.url });
      assertWell(received);
      await assertSame(client, conversation);
    }
    assert.equal(proxy.cuts, 20);
    const received = await converse(client, conversation, 'Please create a note: grüße 🚀', { through: proxy.url });
    assertWell(received);
    await assertSame(client, conversation);
  });
}

test('ag_ui: cut off in tools, retries, failures and cancellations: no event is lost or repeated', async (t) => {
  const conversation = await newConversation();
  const client = reader(conversation);
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
    const posted = await post(conversation, content);
    let asked;
    const received = await read(client, posted, {
      through: proxy.url,
      onEvent(event) {
        if (content.includes('5000') && event.type === 'TEXT_MESSAGE_CONTENT') asked ??= cancel(posted.run_id);
      },
    });
    await asked;
    if (!content.includes('fail=')) assertWell(received);
    assert.equal(received.error?.code, content.includes('fail=') ? 'NETWORK_ERROR' : undefined);
    await assertSame(client, conversation);
  }
  assert(proxy.cuts > 20, `${proxy.cuts} cuts`);
});
