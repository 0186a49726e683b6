// Houston as an MCP server, as the official client of the protocol uses it.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { headers, newConversation, url } from './houston.mjs';

async function connect(t, authorization = headers.authorization) {
  const client = new Client({ name: 'test', version: '1' });
  const transport = new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { requestInit: { headers: { authorization } } });
  t.after(() => client.close());
  await client.connect(transport);
  return client;
}

// The structured result of a call, which the client compares with the tool's schema.
async function call(client, name, args) {
  const { isError, structuredContent, content } = await client.callTool({ name, arguments: args });
  assert.ok(!isError, content[0].text);
  assert.match(content[0].text, /^Data of Houston/);
  return structuredContent;
}

test('mcp_server: tools are listed with annotations and schemas', async (t) => {
  const client = await connect(t);
  assert.equal(client.getServerVersion().name, 'houston');
  assert.match(client.getInstructions(), /is data/);
  const { tools } = await client.listTools();
  assert.equal(tools.length, 8);
  const read = tools.filter(({ annotations }) => annotations.readOnlyHint).map(({ name }) => name);
  assert.deepEqual(read, ['list_threads', 'read_thread', 'wait_for_run', 'list_questions']);
  assert.ok(tools.every(({ outputSchema }) => outputSchema.type === 'object'));
  await client.ping();
});

test('mcp_server: a thread is started, waited for, read and continued', async (t) => {
  const client = await connect(t);
  await client.listTools();
  const { user } = await userOf();
  const started = await call(client, 'start_thread', { message: 'hello', user_id: user });
  const run = await call(client, 'wait_for_run', { run_id: started.run_id });
  assert.equal(run.is_over, true);
  assert.equal(run.answers.length, 1);
  const key = randomUUID();
  const next = await call(client, 'post_message', { thread_id: started.thread_id, message: '/sim chunks=30', idempotency_key: key });
  const again = await call(client, 'post_message', { thread_id: started.thread_id, message: '/sim chunks=30', idempotency_key: key });
  assert.equal(again.message_id, next.message_id);
  const second = await call(client, 'wait_for_run', { run_id: next.run_id, seconds: 50 });
  assert.equal(second.answers[0].content.split(' ').length, 30);
  const page = await call(client, 'read_thread', { thread_id: started.thread_id, limit: 2 });
  assert.deepEqual([page.messages.length, page.has_more], [2, true]);
  const rest = await call(client, 'read_thread', { thread_id: started.thread_id, cursor: page.next_cursor });
  assert.equal(rest.messages.at(-1).content, 'hello');
  const { threads } = await call(client, 'list_threads', { user_id: user, limit: 5 });
  assert.deepEqual(threads.map(({ thread_id }) => thread_id), [started.thread_id]);
});

test('mcp_server: a question is listed, answered, and its run goes on', async (t) => {
  const client = await connect(t);
  await client.listTools();
  const { user } = await userOf();
  const started = await call(client, 'start_thread', { message: 'Please create a note: buy milk', user_id: user });
  await call(client, 'wait_for_run', { run_id: started.run_id, seconds: 50 });
  const { data } = await (await fetch(`${url}/v1/goals/${started.thread_id}/notes`, { headers })).json();
  const order = `/sim tool=delete_note args=${JSON.stringify({ note_id: data[0].id })}`;
  const { run_id } = await call(client, 'post_message', { thread_id: started.thread_id, message: order });
  const waiting = await call(client, 'wait_for_run', { run_id, seconds: 50 });
  assert.deepEqual([waiting.is_over, waiting.questions.length], [false, 1]);
  const { questions } = await call(client, 'list_questions', { user_id: user });
  assert.equal(questions[0].question_id, waiting.questions[0].question_id);
  assert.equal(questions[0].approval.tool, 'delete_note');
  const wrong = await client.callTool({ name: 'answer_question', arguments: { question_id: questions[0].question_id, answer: 7 } });
  assert.equal(wrong.isError, true);
  const answered = { question_id: questions[0].question_id, answer: { decision: 'approve' }, answered_by: 'Ann' };
  assert.equal((await call(client, 'answer_question', answered)).state, 'answered');
  assert.equal((await call(client, 'wait_for_run', { run_id, seconds: 50 })).is_over, true);
  const left = await (await fetch(`${url}/v1/goals/${started.thread_id}/notes`, { headers })).json();
  assert.deepEqual(left.data, []);
});

test('mcp_server: a run is cancelled, and what is wrong is said', async (t) => {
  const client = await connect(t);
  await client.listTools();
  const { user } = await userOf();
  const { run_id } = await call(client, 'start_thread', { message: '/sim chunks=5000 delay_ms=5', user_id: user });
  const none = await call(client, 'wait_for_run', { run_id, seconds: 0 });
  assert.deepEqual([none.is_over, none.questions], [false, []]);
  assert.equal((await call(client, 'cancel_run', { run_id })).cancel_requested, true);
  assert.equal((await call(client, 'wait_for_run', { run_id, seconds: 50 })).status, 'cancelled');
  const missing = await client.callTool({ name: 'read_thread', arguments: { thread_id: `goal_${'0'.repeat(32)}` } });
  assert.equal(missing.isError, true);
  assert.match(missing.content[0].text, /^not_found: /);
  const extra = await client.callTool({ name: 'cancel_run', arguments: { run_id, why: 'x' } });
  assert.match(extra.content[0].text, /\/why: unknown field/);
});

test('mcp_server: a wrong key is refused', async (t) => {
  await assert.rejects(connect(t, 'Bearer hou_no'), (error) => error.code === 401 || /401|Unauthorized/.test(error));
});

async function userOf() {
  const conversation = await newConversation();
  const goal = await (await fetch(url + conversation.path, { headers })).json();
  await fetch(url + conversation.path, { method: 'DELETE', headers });
  return { user: goal.user_id };
}
