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

// Asks for a call of the client's own tool; the run ends with one interrupt.
async function asked(client, place = 'Rome') {
  const content = `/sim tool=show_map args={"place":"${place}"}`;
  const begun = await run(client, { content, tools: [showMap] });
  assert.equal(begun.end.outcome.type, 'interrupt');
  const [interrupt] = begun.end.outcome.interrupts;
  const call = begun.events.find(({ toolCallName }) => toolCallName === 'show_map');
  assert.equal(interrupt.reason, 'tool_call');
  assert.equal(interrupt.toolCallId, call.toolCallId);
  assert.equal(typeof interrupt.responseSchema, 'object');
  const args = begun.events.filter(({ type, toolCallId }) => type === 'TOOL_CALL_ARGS' && toolCallId === call.toolCallId);
  assert.deepEqual(JSON.parse(args.map(({ delta }) => delta).join('')), { place });
  assert.equal((await runOf(begun.end.runId)).status, 'waiting');
  return { ...begun, interrupt, call };
}

test('ag_ui_threads: a tool of the client, answered with resume', async () => {
  const client = agent();
  const { interrupt, call, end } = await asked(client);
  const resume = [{ interruptId: interrupt.id, status: 'resolved', payload: { seen: 'Rome' } }];
  const gone = await run(client, { resume, tools: [showMap] });
  assert.equal(gone.end.outcome.type, 'success');
  assert.equal(gone.end.runId, end.runId, "Houston's run went on");
  assert.deepEqual(gone.results.map(({ toolCallId }) => toolCallId), [call.toolCallId]);
  assert.match(gone.results[0].content, /<untrusted source="the client's tool show_map">\n\{"seen":"Rome"\}\n<\/untrusted>/);
  const again = await run(client, { content: 'thanks' });
  assert.equal(again.end.outcome.type, 'success');
});

test('ag_ui_threads: a tool of the client, answered with a message of the role tool', async () => {
  const options = { threadId: randomUUID(), user: `ann-${randomUUID()}` };
  const { call, end } = await asked(agent(options));
  // As clients do that know nothing of interrupts: the whole thread, and the result at its end.
  const message = { id: randomUUID(), role: 'tool', toolCallId: call.toolCallId, content: 'the map shows Rome' };
  const answering = () => {
    const client = agent(options);
    client.addMessage(message);
    return run(client, { tools: [showMap] });
  };
  const gone = await answering();
  assert.equal(gone.end.runId, end.runId, "Houston's run went on");
  assert.match(gone.results[0].content, /the map shows Rome/);
  assert.deepEqual((await answering()).results, gone.results, 'a repeated request gets the same');
  const failing = await asked(agent(options), 'Atlantis');
  const other = agent(options);
  const error = { id: randomUUID(), role: 'tool', toolCallId: failing.call.toolCallId, content: '', error: 'no such place' };
  other.addMessage(error);
  const { results: [result] } = await run(other, { tools: [showMap] });
  assert.match(result.content, /no such place/);
  assert(result.metadata.houston.is_error);
});

test('ag_ui_threads: a tool of the client that it cancels, or of which nothing comes', async () => {
  const client = agent();
  const { interrupt } = await asked(client);
  const { results: [result] } = await run(client, { resume: [{ interruptId: interrupt.id, status: 'cancelled' }] });
  assert.match(result.content, /the client did not carry it out/);
  const options = { threadId: randomUUID(), user: `ann-${randomUUID()}` };
  await asked(agent(options));
  const { end, results: [superseded] } = await run(agent(options), { content: 'never mind' });
  assert.equal(end.outcome.type, 'success');
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
    const resume = [{ interruptId: begun.interrupt.id, status: 'resolved', payload: `it shows ${place}` }];
    const { results } = await run(client, { resume });
    assert.equal(results.length, 1);
    assert.match(results[0].content, new RegExp(`it shows ${place}`));
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
