// The Vercel AI SDK's chat as it comes, with its default transport.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import {
  AbstractChat,
  DefaultChatTransport,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
} from 'ai';
import { headers, textsOf, thread, until, url } from './houston.mjs';

// The state of a chat without a user interface.
class State {
  status = 'ready';
  error = undefined;
  messages = [];
  pushMessage = (message) => void (this.messages = [...this.messages, message]);
  popMessage = () => void (this.messages = this.messages.slice(0, -1));
  replaceMessage = (at, message) => void (this.messages = this.messages.with?.(at, message) ?? replaced(this.messages, at, message));
  snapshot = (thing) => structuredClone(thing);
}

const replaced = (list, at, item) => list.map((other, nth) => (nth === at ? item : other));

class Chat extends AbstractChat {
  constructor(options) {
    super({ ...options, state: new State() });
  }
}

const tools = { show_map: { description: 'Shows a place.', parameters: { type: 'object', properties: { place: { type: 'string' } } } } };

function chat({ user = `ann-${randomUUID()}`, id = randomUUID(), target = 'goal', body, fetch, ...options } = {}) {
  const api = `${url}/compat/ai-sdk/${target}`;
  const transport = new DefaultChatTransport({ api, headers: { ...headers, 'Houston-User': user }, body, fetch });
  const failures = [];
  const made = new Chat({ id, transport, onError: (error) => failures.push(error), ...options });
  return Object.assign(made, { failures, user, api });
}

const partsOf = (made, type) => made.messages.at(-1).parts.filter((part) => part.type === type);
const textOf = (message) => message.parts.filter(({ type }) => type === 'text').map(({ text }) => text).join('');

// Houston's conversation of a chat, from its stream's metadata.
const runOf = (made) => made.messages.at(-1).id;

async function say(made, text) {
  await made.sendMessage({ text });
  assert.deepEqual(made.failures, []);
  assert.equal(made.status, 'ready');
}

test('ai_sdk: text: the chat has what the thread has', async () => {
  const finished = [];
  const made = chat({ onFinish: (end) => finished.push(end) });
  await say(made, 'hello');
  await say(made, '/sim chunks=200 delay_ms=1');
  assert.deepEqual(made.messages.map(({ role }) => role), ['user', 'assistant', 'user', 'assistant']);
  assert.match(runOf(made), /^run_/);
  assert.equal(finished.at(-1).finishReason, 'stop');
  assert(!finished.at(-1).isAbort && !finished.at(-1).isDisconnect);
  const run = await (await fetch(`${url}/v1/runs/${runOf(made)}`, { headers })).json();
  const path = `/v1/goals/${run.goal_id}`;
  const own = textsOf(await thread({ path }), 'user', 'agent').map(({ content }) => content);
  assert.deepEqual(made.messages.map(textOf), own);
});

test('ai_sdk: tool calls of the agent', async () => {
  const made = chat();
  await say(made, 'Please create a note: buy milk');
  const [call] = partsOf(made, 'tool-create_note');
  assert.equal(call.state, 'output-available');
  assert.equal(call.providerExecuted, true);
  assert.match(call.output, /note_[0-9a-f]{32}/);
});

// A chat with a note, which it is asked to delete: a person must allow that.
async function held(options) {
  const made = chat({ sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses, ...options });
  await say(made, 'Please create a note: buy milk');
  const note = partsOf(made, 'tool-create_note')[0].output.match(/note_[0-9a-f]{32}/)[0];
  await say(made, `/sim tool=delete_note args=${JSON.stringify({ note_id: note })}`);
  const [call] = partsOf(made, 'tool-delete_note');
  assert.equal(call.state, 'approval-requested');
  return { made, call, run: runOf(made) };
}

const done = (made, part) =>
  until(() => made.status === 'ready' && ['output-available', 'output-error', 'output-denied'].includes(partsOf(made, part)[0]?.state), 'the end');

test('ai_sdk: an approval that is given continues the run', async () => {
  const { made, call, run } = await held();
  await made.addToolApprovalResponse({ id: call.approval.id, approved: true });
  await done(made, 'tool-delete_note');
  assert.equal(partsOf(made, 'tool-delete_note')[0].state, 'output-available');
  assert.equal(runOf(made), run, 'the same message of the assistant');
  assert.deepEqual(made.failures, []);
});

test('ai_sdk: an approval that is refused', async () => {
  const { made, call } = await held();
  await made.addToolApprovalResponse({ id: call.approval.id, approved: false, reason: 'keep it' });
  await done(made, 'tool-delete_note');
  const [refused] = partsOf(made, 'tool-delete_note');
  assert.equal(refused.state, 'output-denied');
  assert.deepEqual([refused.approval.approved, refused.approval.reason], [false, 'keep it']);
  assert.deepEqual(made.failures, []);
});

test('ai_sdk: a tool of the client continues the run with its result', async () => {
  const calls = [];
  const made = chat({
    body: { tools },
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls,
    onToolCall({ toolCall }) {
      calls.push([toolCall.toolName, toolCall.input]);
      // No await: it would wait for the stream.
      void made.addToolOutput({ tool: 'show_map', toolCallId: toolCall.toolCallId, output: { seen: toolCall.input.place } });
    },
  });
  await made.sendMessage({ text: '/sim tool=show_map args={"place":"Rome"}' });
  await until(() => made.status === 'ready' && textOf(made.messages.at(-1)), 'the end');
  assert.deepEqual(calls, [['show_map', { place: 'Rome' }]]);
  assert.deepEqual(made.failures, []);
  assert.equal(made.messages.length, 2);
  assert.deepEqual(partsOf(made, 'tool-show_map')[0].output, { seen: 'Rome' });
  const run = await (await fetch(`${url}/v1/runs/${runOf(made)}`, { headers })).json();
  assert.equal(run.status, 'message_sent');
});

test('ai_sdk: a run that is cancelled is aborted, and stop() cancels nothing', async () => {
  const made = chat();
  const sent = made.sendMessage({ text: '/sim chunks=5000 delay_ms=10' });
  await until(() => made.messages.length === 2 && textOf(made.messages[1]), 'text');
  await made.stop();
  await sent;
  const path = `${made.api}/${encodeURIComponent(made.id)}`;
  const of = { headers: { ...headers, 'Houston-User': made.user } };
  const finished = [];
  const again = chat({ user: made.user, id: made.id, onFinish: (end) => finished.push(end) });
  const resumed = again.resumeStream();
  await until(() => again.messages.length === 1 && textOf(again.messages[0]), 'the run goes on');
  const cancelled = await fetch(`${path}/cancel`, { method: 'POST', ...of });
  assert.equal(cancelled.status, 202);
  assert.equal((await cancelled.json()).data.length, 1);
  await resumed;
  assert.deepEqual(again.failures, []);
  // Its own `isAbort` is about what the client itself has broken off.
  assert.notEqual(finished.at(-1).finishReason, 'stop');
  const { status, cancelled_by } = again.messages[0].metadata.houston;
  assert.deepEqual([status, cancelled_by], ['cancelled', 'user']);
  const run = await (await fetch(`${url}/v1/runs/${runOf(again)}`, { headers })).json();
  assert.equal(run.status, 'cancelled');
});

test('ai_sdk: a chat that has lost its stream resumes it from the start of the run', async () => {
  const made = chat();
  const sent = made.sendMessage({ text: '/sim chunks=300 delay_ms=20' });
  await until(() => made.messages.length === 2 && textOf(made.messages[1]), 'text');
  await made.stop();
  await sent;
  await made.resumeStream();
  assert.deepEqual(made.failures, []);
  const run = await (await fetch(`${url}/v1/runs/${runOf(made)}`, { headers })).json();
  const [own] = textsOf(await thread({ path: `/v1/goals/${run.goal_id}` }), 'agent');
  assert.equal(textOf(made.messages.at(-1)), own.content);
  assert.equal(made.messages.length, 2);
  const none = await made.transport.reconnectToStream({ chatId: made.id });
  assert.equal(none, null, 'nothing runs');
});

test('ai_sdk: a message that is answered again, and requests that are refused', async () => {
  const made = chat();
  await say(made, 'hello');
  const first = runOf(made);
  await made.regenerate();
  assert.deepEqual(made.failures, []);
  assert.notEqual(runOf(made), first);
  const empty = chat();
  empty.messages = [{ id: 'a', role: 'assistant', parts: [] }];
  await empty.sendMessage();
  assert.match(empty.failures[0].message, /has no answer in its last step/);
});
