// The official A2A client as it comes: over JSON-RPC and over HTTP+JSON.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { ClientFactory, JsonRpcTransportFactory, RestTransportFactory, DefaultAgentCardResolver } from '@a2a-js/sdk/client';
import { Role, TaskState } from '@a2a-js/sdk';
import { headers, thread, until, url } from './houston.mjs';

const user = `a2a-${randomUUID()}`;
const fetchImpl = (input, init) =>
  fetch(input, { ...init, headers: { ...Object.fromEntries(new Headers(init?.headers)), ...headers, 'houston-user': user } });

const factory = (binding) =>
  new ClientFactory({
    transports: [new JsonRpcTransportFactory({ fetchImpl }), new RestTransportFactory({ fetchImpl })],
    preferredTransports: [binding],
    cardResolver: new DefaultAgentCardResolver({ fetchImpl }),
  });

const message = (text, more = {}) => ({
  message: {
    messageId: randomUUID(),
    contextId: '',
    taskId: '',
    role: Role.ROLE_USER,
    parts: [{ content: { $case: 'text', value: text }, filename: '', mediaType: '', metadata: undefined }],
    metadata: undefined,
    extensions: [],
    referenceTaskIds: [],
    ...more,
  },
  configuration: undefined,
  metadata: undefined,
  tenant: '',
});

// The text of each artifact, as updates make it.
function fold(artifacts, { artifact, append }) {
  const text = artifact.parts.map(({ content }) => content.value).join('');
  artifacts.set(artifact.artifactId, (append ? (artifacts.get(artifact.artifactId) ?? '') : '') + text);
}

// What a stream has: its task, the texts of its artifacts and its last state.
async function read(stream, { enough = () => false } = {}) {
  const seen = { task: undefined, artifacts: new Map(), states: [], status: undefined };
  for await (const { payload } of stream) {
    if (payload.$case === 'task') {
      seen.task = payload.value;
      seen.states.push(payload.value.status.state);
      for (const artifact of payload.value.artifacts) fold(seen.artifacts, { artifact, append: false });
    } else if (payload.$case === 'statusUpdate') {
      seen.status = payload.value.status;
      seen.states.push(payload.value.status.state);
    } else if (payload.$case === 'artifactUpdate') {
      fold(seen.artifacts, payload.value);
    }
    if (enough(seen)) break;
  }
  return seen;
}

const textsOfTask = (task) => task.artifacts.map((artifact) => artifact.parts.map(({ content }) => content.value).join(''));
const noted = (task) => `/v1/goals/${task.metadata.houston.thread_id}`;

for (const binding of ['JSONRPC', 'HTTP+JSON']) {
  const connect = () => factory(binding).createFromUrl(url);

  test(`a2a: ${binding}: a message is answered, and the task is found again`, async () => {
    const client = await connect();
    const contextId = randomUUID();
    const task = await client.sendMessage(message('hello', { contextId }));
    assert.equal(task.status.state, TaskState.TASK_STATE_COMPLETED);
    assert.equal(task.contextId, contextId);
    const [answer] = textsOfTask(task);
    assert.ok(answer.length > 10);
    const again = await client.getTask({ id: task.id, historyLength: undefined, tenant: '' });
    assert.deepEqual(textsOfTask(again), [answer]);
    assert.equal(again.history[0].parts[0].content.value, 'hello');
    assert.equal(again.contextId, contextId);
    const listed = await client.listTasks({ contextId, tenant: '', status: 0, pageSize: 10, pageToken: '', includeArtifacts: true });
    assert.deepEqual(listed.tasks.map(({ id }) => id), [task.id]);
    const [, said] = await thread({ path: noted(task) });
    assert.equal(said.content, answer);
  });

  test(`a2a: ${binding}: text streams in pieces that make the message of the thread`, async () => {
    const client = await connect();
    const seen = await read(client.sendMessageStream(message('/sim chunks=200 delay_ms=1')));
    assert.equal(seen.task.status.state, TaskState.TASK_STATE_SUBMITTED);
    assert.equal(seen.states.at(-1), TaskState.TASK_STATE_COMPLETED);
    const messages = await thread({ path: noted(seen.task) });
    const said = messages.filter(({ source, message_type }) => source === 'agent' && message_type === 'text');
    assert.deepEqual([...seen.artifacts], said.map(({ id, content }) => [id, content]));
    assert.equal(said[0].content.split(' ').length, 200);
  });

  test(`a2a: ${binding}: after a drop the client subscribes and has the same text`, async () => {
    const client = await connect();
    const half = await read(client.sendMessageStream(message('/sim chunks=300 delay_ms=20')), {
      enough: ({ artifacts }) => artifacts.size > 0,
    });
    const rest = await read(client.resubscribeTask({ id: half.task.id, tenant: '' }));
    assert.equal(rest.task.id, half.task.id);
    assert.equal(rest.states[0], TaskState.TASK_STATE_WORKING);
    assert.equal(rest.states.at(-1), TaskState.TASK_STATE_COMPLETED);
    const said = (await thread({ path: noted(half.task) })).filter(({ source }) => source === 'agent');
    assert.deepEqual([...rest.artifacts.values()], said.map(({ content }) => content));
    await assert.rejects(read(client.resubscribeTask({ id: half.task.id, tenant: '' })), /ended/);
  });

  test(`a2a: ${binding}: partial text of broken attempts is taken back`, async () => {
    const client = await connect();
    const seen = await read(client.sendMessageStream(message('/sim fail=network_error fail_after=12')));
    assert.equal(seen.states.at(-1), TaskState.TASK_STATE_FAILED);
    assert.deepEqual([...seen.artifacts.values()].filter((text) => text), []);
    assert.ok(seen.status.message.parts[0].content.value.length > 5);
  });

  test(`a2a: ${binding}: a task is cancelled`, async () => {
    const client = await connect();
    const task = await client.sendMessage({
      ...message('/sim chunks=5000 delay_ms=5'),
      configuration: { acceptedOutputModes: [], taskPushNotificationConfig: undefined, historyLength: undefined, returnImmediately: true },
    });
    assert.ok([TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING].includes(task.status.state));
    const cancelled = await client.cancelTask({ id: task.id, tenant: '', metadata: undefined });
    assert.equal(cancelled.status.state, TaskState.TASK_STATE_CANCELED);
    await assert.rejects(client.cancelTask({ id: task.id, tenant: '', metadata: undefined }));
  });

  test(`a2a: ${binding}: a task that needs a person goes on with the answer`, async () => {
    const client = await connect();
    const first = await client.sendMessage(message('Please create a note: buy milk'));
    const { data } = await (await fetch(`${url}${noted(first)}/notes`, { headers })).json();
    const order = `/sim tool=delete_note args=${JSON.stringify({ note_id: data[0].id })}`;
    const asked = await read(client.sendMessageStream(message(order, { contextId: first.contextId })));
    assert.equal(asked.states.at(-1), TaskState.TASK_STATE_INPUT_REQUIRED);
    const [text, about] = asked.status.message.parts;
    assert.match(text.content.value, /Delete note/);
    assert.equal(about.content.value.question.reason, 'tool_call');
    const held = await client.getTask({ id: asked.task.id, historyLength: 0, tenant: '' });
    assert.equal(held.status.state, TaskState.TASK_STATE_INPUT_REQUIRED);
    const done = await client.sendMessage(message('approve', { contextId: first.contextId, taskId: asked.task.id }));
    assert.equal(done.id, asked.task.id);
    assert.equal(done.status.state, TaskState.TASK_STATE_COMPLETED);
    const left = await (await fetch(`${url}${noted(first)}/notes`, { headers })).json();
    assert.deepEqual(left.data, []);
  });

  test(`a2a: ${binding}: what is not there or not offered is an error of the protocol`, async () => {
    const client = await connect();
    const missing = { id: `run_${'0'.repeat(32)}`, historyLength: undefined, tenant: '' };
    await assert.rejects(client.getTask(missing), /not found/);
    const push = { taskId: missing.id, id: '', url: 'https://example.com', token: '', authentication: undefined, tenant: '' };
    await assert.rejects(async () => client.createTaskPushNotificationConfig(push), /not found/i);
  });
}

test('a2a: card: a kind has one, and so has an agent of the tenant for those with a key', async () => {
  const card = await (await fetch(`${url}/a2a/goal/.well-known/agent-card.json`)).json();
  assert.deepEqual(card.supportedInterfaces.map(({ protocolBinding }) => protocolBinding), ['JSONRPC', 'HTTP+JSON']);
  assert.equal(card.capabilities.pushNotifications, true);
  const { data } = await (await fetch(`${url}/v1/agents`, { headers })).json();
  const agent = data.find(({ kind }) => kind === 'goal');
  const path = `/a2a/${agent.id}/.well-known/agent-card.json`;
  assert.equal((await fetch(url + path)).status, 401);
  const own = await (await fetch(url + path, { headers })).json();
  assert.equal(own.name, agent.name);
  await until(async () => (await fetch(`${url}/a2a/nothing/.well-known/agent-card.json`, { headers })).status === 404, 'a 404');
});
