// AG-UI's own client as it comes, at an address that names who answers: with its own thread ids, and with tools of its own.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { HttpAgent } from '@ag-ui/client';
import { EventSchema } from '@ag-ui/core/schemas';
import { cancel, headers, runOf, textsOf, thread, until, url } from './houston.mjs';
import { cutter } from './cutter.mjs';
import { resumableFetch } from '../../../api/clients/resume.mjs';

// The client drops events and fields it does not know with a warning.
const warnings = [];
console.warn = (...warning) => warnings.push(warning.join(' '));

const showMap = {
  name: 'show_map',
  description: 'Shows a place on the map.',
  parameters: { type: 'object', properties: { place: { type: 'string' } }, required: ['place'] },
};

// A client of the thread of a new user.
function agent({ through = url, fetch, threadId = randomUUID(), user = `ann-${randomUUID()}`, target = 'goal' } = {}) {
  const of = { 'Houston-User': user };
  return new HttpAgent({ url: `${through}/ag-ui/${target}`, headers: { ...headers, ...of }, threadId, fetch });
}

// One AG-UI run. Returns its events, its last one and the results of calls.
async function run(client, { content, resume, onEvent, ...offered } = {}) {
  if (content) client.addMessage({ id: randomUUID(), role: 'user', content });
  const events = [];
  const subscriber = {
    onEvent({ event }) {
      const known = EventSchema.safeParse(event);
      assert(known.success, `${JSON.stringify(event)}: ${known.error}`);
      events.push(event);
      return onEvent?.(event);
    },
  };
  await client.runAgent({ runId: randomUUID(), resume, ...offered }, subscriber);
  assert.deepEqual(warnings, []);
  assert.equal(events[0].type, 'RUN_STARTED');
  const end = events.at(-1);
  return { events, end, results: events.filter(({ type }) => type === 'TOOL_CALL_RESULT') };
}

// The results of calls that a reader is sent who comes later.
async function recorded({ path }) {
  const stream = await fetch(`${url}${path}/events?after=0`, { headers });
  const lines = (await stream.text()).split('\n').filter((line) => line.startsWith('data: '));
  return lines.map((line) => JSON.parse(line.slice(6))).filter(({ type }) => type === 'TOOL_CALL_RESULT');
}

const conversationOf = ({ end }) => ({ id: end.threadId, path: `/v1/goals/${end.threadId}` });

async function assertSame(client, conversation) {
  const texts = client.messages
    .filter(({ role, content }) => ['user', 'assistant'].includes(role) && content)
    .map(({ content }) => content);
  assert.deepEqual(texts, textsOf(await thread(conversation), 'user', 'agent').map(({ content }) => content));
}

test('ag_ui_threads: text: the same thread id is the same conversation', async () => {
  const options = { threadId: 'my chat', user: `ann-${randomUUID()}` };
  const client = agent(options);
  const first = await run(client, { content: 'hello' });
  const second = await run(client, { content: 'how are you?' });
  assert.equal(first.end.outcome.type, 'success');
  assert.equal(first.end.threadId, second.end.threadId);
  await assertSame(client, conversationOf(first));
  const again = await run(agent(options), { content: 'back again' });
  assert.equal(again.end.threadId, first.end.threadId);
  const other = await run(agent({ ...options, user: `bob-${randomUUID()}` }), { content: 'hello' });
  assert.notEqual(other.end.threadId, first.end.threadId);
});

test('ag_ui_threads: tool calls of the agent, and what the client shows', async () => {
  const client = agent();
  const context = [{ description: 'the page', value: '/hotels/7' }];
  const { end, results } = await run(client, { content: 'Please create a note: buy milk', context });
  assert.equal(end.outcome.type, 'success');
  assert.match(results[0].content, /note_[0-9a-f]{32}/);
});

// Asks for a call of the client's own tool; the run ends, and the call has no result.
async function asked(client, place = 'Rome') {
  const content = `/sim tool=show_map args={"place":"${place}"}`;
  const begun = await run(client, { content, tools: [showMap] });
  assert.equal(begun.end.outcome.type, 'success');
  const call = begun.events.find(({ toolCallName }) => toolCallName === 'show_map');
  const args = begun.events.filter(({ type, toolCallId }) => type === 'TOOL_CALL_ARGS' && toolCallId === call.toolCallId);
  assert.deepEqual(JSON.parse(args.map(({ delta }) => delta).join('')), { place });
  assert.deepEqual(begun.results, []);
  assert.equal((await runOf(begun.end.runId)).status, 'waiting');
  return { ...begun, call };
}

// The result of a call as all clients of AG-UI send it: a message of the role tool, and the next run.
const answered = ({ toolCallId }, rest) => ({ id: randomUUID(), role: 'tool', toolCallId, ...rest });

test('ag_ui_threads: tools of the client in one agent: calls, errors and messages', async () => {
  const client = agent();
  for (const place of ['Rome', 'Paris']) {
    const { call, end } = await asked(client, place);
    client.addMessage(answered(call, { content: JSON.stringify({ seen: place }) }));
    const gone = await run(client, { tools: [showMap] });
    assert.equal(gone.end.outcome.type, 'success');
    assert.equal(gone.end.runId, end.runId, "Houston's run went on");
    assert.deepEqual(gone.results, [], 'the client has it');
    const result = (await recorded(conversationOf(gone))).at(-1);
    assert.equal(result.toolCallId, call.toolCallId);
    const read = `<untrusted source="the client's tool show_map">\n{"seen":"${place}"}\n</untrusted>`;
    assert(result.content.includes(read), result.content);
  }
  const failing = await asked(client, 'Atlantis');
  client.addMessage(answered(failing.call, { content: '', error: 'no such place' }));
  const failed = (await recorded(conversationOf(await run(client, { tools: [showMap] })))).at(-1);
  assert.match(failed.content, /no such place/);
  assert(failed.metadata.houston.is_error);
  const again = await run(client, { content: 'thanks' });
  assert.equal(again.end.outcome.type, 'success');
  assert.deepEqual(again.results, []);
});

test('ag_ui_threads: a call of the client beside one that a person must allow, in one agent', async () => {
  const client = agent();
  const { results: [made] } = await run(client, { content: 'Please create a note: buy milk' });
  const note = made.content.match(/note_[0-9a-f]{32}/)[0];
  const order = `/sim tool=delete_note args={"note_id":"${note}"} tool=show_map args={"place":"Rome"}`;
  const begun = await run(client, { content: order, tools: [showMap] });
  assert.equal(begun.end.outcome.type, 'interrupt');
  const [approval, ...others] = begun.end.outcome.interrupts;
  assert.deepEqual([approval.metadata.houston.approval.tool, others], ['delete_note', []]);
  const call = begun.events.find(({ toolCallName }) => toolCallName === 'show_map');
  client.addMessage(answered(call, { content: 'the map shows Rome' }));
  const resume = [{ interruptId: approval.id, status: 'resolved', payload: { decision: 'approve' } }];
  const gone = await run(client, { resume, tools: [showMap] });
  assert.equal(gone.end.outcome.type, 'success');
  assert.equal(gone.end.runId, begun.end.runId);
  assert.equal(gone.results.length, 1, 'that of the call that was allowed');
});

test('ag_ui_threads: a result that is sent again, and one that an answer elsewhere has made old', async () => {
  const options = { threadId: randomUUID(), user: `ann-${randomUUID()}` };
  const { call, end } = await asked(agent(options));
  const message = answered(call, { content: 'the map shows Rome' });
  const answering = () => {
    const client = agent(options);
    client.addMessage(message);
    return run(client, { tools: [showMap] });
  };
  const gone = await answering();
  assert.equal(gone.end.runId, end.runId, "Houston's run went on");
  assert.deepEqual(gone.results, []);
  assert.deepEqual((await answering()).end, gone.end, 'a repeated request gets the same');
  assert.match((await recorded(conversationOf(gone)))[0].content, /the map shows Rome/);
  await asked(agent(options));
  const { end: after, results: [superseded] } = await run(agent(options), { content: 'never mind' });
  assert.equal(after.outcome.type, 'success');
  assert.match(superseded.content, /your user wrote a message/);
});

test('ag_ui_threads: a cancelled run ends', async () => {
  const client = agent();
  let asked;
  const onEvent = (event) => {
    if (event.type === 'TEXT_MESSAGE_CONTENT') asked ??= cancel(runId);
    if (event.type === 'RUN_STARTED') runId = event.runId;
  };
  let runId;
  const { end } = await run(client, { content: '/sim chunks=5000 delay_ms=10', onEvent });
  await asked;
  assert.equal(end.outcome.type, 'cancelled');
});

test('ag_ui_threads: cut off while a tool of the client waits and goes on, nothing is lost or repeated', async (t) => {
  const proxy = await cutter(url, { cuts: 8, longest: 2_500, seed: 11 });
  t.after(() => proxy.close());
  const client = agent({ through: proxy.url, fetch: resumableFetch() });
  let conversation;
  for (const place of ['Rome', 'Paris', 'Oslo']) {
    const begun = await asked(client, place);
    conversation = conversationOf(begun);
    client.addMessage(answered(begun.call, { content: `it shows ${place}` }));
    const { results } = await run(client, {});
    assert(results.length <= 1, 'once, if the stream was resumed before it');
    assert.match((await recorded(conversation)).at(-1).content, new RegExp(`it shows ${place}`));
  }
  await until(() => proxy.cuts > 0, 'a cut');
  assert.equal((await thread(conversation)).filter(({ source }) => source === 'user').length, 3);
});

test('ag_ui_threads: a request without a user is refused', async () => {
  const response = await fetch(`${url}/ag-ui/goal`, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json' },
    body: JSON.stringify({ threadId: 'x', runId: 'y', messages: [] }),
  });
  const problem = await response.json();
  assert.deepEqual([response.status, problem.errors[0].parameter], [422, 'houston-user']);
});
