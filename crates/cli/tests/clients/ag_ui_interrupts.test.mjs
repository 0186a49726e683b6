// AG-UI's own client as it comes: it posts each run to one endpoint, which ends with interrupts while a person is needed.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { HttpAgent } from '@ag-ui/client';
import { EventSchema } from '@ag-ui/core/schemas';
import { cancel, headers, newConversation, runOf, textsOf, thread, until, url } from './houston.mjs';
import { cutter } from './cutter.mjs';
import { resumableFetch } from '../../../api/clients/resume.mjs';

// The client drops events and fields it does not know with a warning.
const warnings = [];
console.warn = (...warning) => warnings.push(warning.join(' '));

const agent = (conversation, { through = url, fetch } = {}) =>
  new HttpAgent({ url: `${through}${conversation.path}/ag-ui`, headers, threadId: conversation.id, fetch });

// One AG-UI run: a message, or answers to interrupts. Returns its events, its last one and the interrupts of its outcome.
async function run(client, { content, resume } = {}) {
  if (content) client.addMessage({ id: randomUUID(), role: 'user', content });
  const events = [];
  const onEvent = ({ event }) => {
    const known = EventSchema.safeParse(event);
    assert(known.success, `${JSON.stringify(event)}: ${known.error}`);
    events.push(event);
  };
  await client.runAgent({ runId: randomUUID(), resume }, { onEvent });
  assert.deepEqual(warnings, []);
  assert.equal(events[0].type, 'RUN_STARTED');
  const end = events.at(-1);
  assert.equal(end.type, 'RUN_FINISHED', JSON.stringify(end));
  return { events, end, interrupts: end.outcome.interrupts, results: events.filter(({ type }) => type === 'TOOL_CALL_RESULT') };
}

const order = (...calls) =>
  `/sim ${calls.map(([tool, args]) => `tool=${tool} args=${JSON.stringify(args)}`).join(' ')}`;

// A client of a new conversation with a note, whose id it returns as well.
async function withNote(options) {
  const conversation = await newConversation();
  const client = agent(conversation, options);
  const { results, end } = await run(client, { content: 'Please create a note: buy milk' });
  assert.equal(end.outcome.type, 'success');
  return { conversation, client, note: results[0].content.match(/note_[0-9a-f]{32}/)[0] };
}

// Asks to delete the note; the run ends with one interrupt.
async function held({ client, note }) {
  const asked = await run(client, { content: order(['delete_note', { note_id: note }]) });
  assert.equal(asked.end.outcome.type, 'interrupt');
  assert.equal(asked.interrupts.length, 1);
  assert.deepEqual(asked.results, []);
  return asked;
}

const resolved = (interrupt, payload) => ({ interruptId: interrupt.id, status: 'resolved', payload });

// The status and the problem that the endpoint answers to these entries.
async function refused(conversation, resume) {
  const response = await fetch(`${url}${conversation.path}/ag-ui`, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json' },
    body: JSON.stringify({ threadId: conversation.id, runId: 'x', messages: [], resume }),
  });
  return [response.status, await response.json()];
}

test('ag_ui_interrupts: a held call is asked about, approved and carried out', async () => {
  const setup = await withNote();
  const { end, interrupts: [interrupt], events } = await held(setup);
  const call = events.find(({ toolCallName }) => toolCallName === 'delete_note');
  assert.equal(interrupt.reason, 'tool_call');
  assert.equal(interrupt.toolCallId, call.toolCallId);
  assert.match(interrupt.message, /Allow it\?$/);
  assert(Date.parse(interrupt.expiresAt) > Date.now());
  assert.deepEqual(interrupt.responseSchema.properties.decision.enum, ['approve', 'edit', 'reject', 'respond']);
  assert.deepEqual(interrupt.metadata.houston.approval.input, { note_id: setup.note });
  assert.deepEqual(setup.client.pendingInterrupts.map(({ id }) => id), [interrupt.id]);
  assert.equal(end.result.status, 'waiting');

  const resume = [resolved(interrupt, { decision: 'approve' })];
  const gone = await run(setup.client, { resume });
  assert.equal(gone.end.outcome.type, 'success');
  assert.equal(gone.end.runId, end.runId, "Houston's run went on");
  assert.deepEqual(gone.results.map(({ toolCallId }) => toolCallId), [call.toolCallId]);
  assert(!gone.results[0].metadata?.houston.is_error, gone.results[0].content);
  assert.deepEqual(setup.client.pendingInterrupts, []);

  const texts = setup.client.messages.filter(({ role, content }) => role === 'assistant' && content);
  const own = textsOf(await thread(setup.conversation), 'agent');
  assert.deepEqual(texts.map(({ id, content }) => ({ id, content })), own);
  // A client that has lost the response asks again, and gets the same.
  const again = await run(agent(setup.conversation), { resume });
  assert.deepEqual([again.end, again.results], [gone.end, gone.results]);
});

test('ag_ui_interrupts: a rejected call is not carried out', async () => {
  const setup = await withNote();
  const { interrupts: [interrupt] } = await held(setup);
  const answer = { decision: 'reject', message: 'keep it' };
  const { end, results } = await run(setup.client, { resume: [resolved(interrupt, answer)] });
  assert.equal(end.outcome.type, 'success');
  assert.match(results[0].content, /your user said no: keep it/);
  const other = await held(setup);
  const cancelled = [{ interruptId: other.interrupts[0].id, status: 'cancelled' }];
  const { results: [result] } = await run(setup.client, { resume: cancelled });
  assert.match(result.content, /your user said no/);
});

test('ag_ui_interrupts: an edited call is carried out with other arguments', async () => {
  const setup = await withNote();
  const wrong = `note_${'0'.repeat(32)}`;
  const { interrupts: [interrupt] } = await held({ client: setup.client, note: wrong });
  const answer = { decision: 'edit', input: { note_id: setup.note } };
  const { results } = await run(setup.client, { resume: [resolved(interrupt, answer)] });
  assert(!results[0].metadata?.houston.is_error, results[0].content);
  assert.match(results[0].content, new RegExp(`changed the arguments.*${setup.note}`));
});

test('ag_ui_interrupts: of two held calls each is decided, and the others of the turn run', async () => {
  const setup = await withNote();
  const wrong = `note_${'0'.repeat(32)}`;
  const content = order(['delete_note', { note_id: setup.note }], ['list_notes', {}], ['delete_note', { note_id: wrong }]);
  const asked = await run(setup.client, { content });
  assert.equal(asked.interrupts.length, 2);
  assert.equal(asked.results.length, 1);
  const of = (note) => asked.interrupts.find(({ metadata }) => metadata.houston.approval.input.note_id === note);
  const resume = [resolved(of(setup.note), { decision: 'approve' }), resolved(of(wrong), { decision: 'reject' })];
  const { end, results } = await run(setup.client, { resume });
  assert.equal(end.outcome.type, 'success');
  assert.deepEqual(
    results.map(({ toolCallId, metadata }) => [toolCallId, metadata?.houston.is_error ?? false]).sort(),
    [[of(setup.note).toolCallId, false], [of(wrong).toolCallId, true]].sort(),
  );
});

test('ag_ui_interrupts: a message instead of an answer takes its place', async () => {
  const setup = await withNote();
  const { interrupts: [interrupt] } = await held(setup);
  // The client insists on an entry for each interrupt; this one is new to the thread, and has none.
  const { end, results } = await run(agent(setup.conversation), { content: 'never mind' });
  assert.equal(end.outcome.type, 'success');
  assert.match(results[0].content, /your user wrote a message/);
  const [status, problem] = await refused(setup.conversation, [resolved(interrupt, { decision: 'approve' })]);
  assert.deepEqual([status, problem.code], [409, 'question_closed']);
});

test('ag_ui_interrupts: wrong answers are refused, and none of the request counts', async () => {
  const setup = await withNote();
  const { end, interrupts: [interrupt] } = await held(setup);
  const approve = resolved(interrupt, { decision: 'approve' });
  const unknown = { interruptId: `question_${'0'.repeat(32)}`, status: 'cancelled' };
  const cases = [
    [[approve, unknown], '/resume/1/interruptId'],
    [[approve, approve], '/resume/1/interruptId'],
    [[resolved(interrupt, { decision: 'perhaps' })], '/resume/0/payload/decision'],
    [[resolved(interrupt, { decision: 'edit', input: {} })], '/resume/0/payload/input/note_id'],
  ];
  for (const [resume, pointer] of cases) {
    const [status, problem] = await refused(setup.conversation, resume);
    assert.deepEqual([status, problem.errors?.[0].pointer], [422, pointer], JSON.stringify(problem));
  }
  const [status, problem] = await refused(await newConversation(), [approve]);
  assert.deepEqual([status, problem.errors[0].pointer], [422, '/resume/0/interruptId'], 'of another thread');
  assert.equal((await runOf(end.runId)).status, 'waiting');
  await run(setup.client, { resume: [approve] });
  const [again, closed] = await refused(setup.conversation, [resolved(interrupt, { decision: 'reject' })]);
  assert.deepEqual([again, closed.code], [409, 'question_closed']);
});

test('ag_ui_interrupts: cut off before, at and after an interrupt, nothing is lost or repeated', async (t) => {
  const proxy = await cutter(url, { cuts: 12, longest: 2_500, seed: 7 });
  t.after(() => proxy.close());
  const setup = await withNote({ through: proxy.url, fetch: resumableFetch() });
  const decisions = ['reject', 'reject', 'approve'];
  for (const decision of decisions) {
    const { interrupts: [interrupt] } = await held(setup);
    const { end, results } = await run(setup.client, { resume: [resolved(interrupt, { decision })] });
    assert.equal(end.outcome.type, 'success');
    assert.equal(results.length, 1);
  }
  await until(() => proxy.cuts > 0, 'a cut');
  const messages = await thread(setup.conversation);
  assert.equal(messages.filter(({ source }) => source === 'user').length, 1 + decisions.length);
});

test('ag_ui_interrupts: a request that is refused has its status and its problem', async () => {
  const client = agent({ id: `goal_${'0'.repeat(32)}`, path: `/v1/goals/goal_${'0'.repeat(32)}` });
  const problem = (error) => (typeof error.payload === 'string' ? JSON.parse(error.payload) : error.payload);
  const codeOf = (client) => run(client, { content: 'hello' }).then(
    () => 'accepted',
    (error) => [error.status, problem(error).code],
  );
  assert.deepEqual(await codeOf(client), [404, 'not_found']);
  const wrong = agent(await newConversation());
  wrong.headers = { authorization: 'Bearer hou_no' };
  assert.deepEqual(await codeOf(wrong), [401, 'unauthorized']);
});

test('ag_ui_interrupts: a cancelled run ends with the outcome `cancelled`', async () => {
  const client = agent(await newConversation());
  client.addMessage({ id: randomUUID(), role: 'user', content: '/sim chunks=5000 delay_ms=5' });
  const events = [];
  let asked;
  await client.runAgent({ runId: randomUUID() }, {
    onEvent({ event }) {
      events.push(event);
      if (event.type === 'TEXT_MESSAGE_CONTENT') asked ??= cancel(events[0].runId);
    },
  });
  await asked;
  assert.deepEqual(events.at(-1).outcome, { type: 'cancelled' });
});
