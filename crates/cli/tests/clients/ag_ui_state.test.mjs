// AG-UI's own client as it comes: its state is the one of Houston, whoever changes it and however often it is cut off.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { HttpAgent } from '@ag-ui/client';
import { EventSchema } from '@ag-ui/core/schemas';
import { ask, headers, until, url } from './houston.mjs';
import { cutter } from './cutter.mjs';
import { resumableFetch } from '../../../api/clients/resume.mjs';

// The client drops events and fields it does not know with a warning.
const warnings = [];
console.warn = (...warning) => warnings.push(warning.join(' '));

function agent({ through = url, target = 'shopper', threadId = randomUUID(), user = `ann-${randomUUID()}`, ...rest } = {}) {
  return new HttpAgent({ url: `${through}/ag-ui/${target}`, headers: { ...headers, 'Houston-User': user }, threadId, ...rest });
}

async function run(client, content) {
  client.addMessage({ id: randomUUID(), role: 'user', content });
  const events = [];
  const onEvent = ({ event }) => {
    const known = EventSchema.safeParse(event);
    assert(known.success, `${JSON.stringify(event)}: ${known.error}`);
    events.push(event);
  };
  await client.runAgent({ runId: randomUUID() }, { onEvent });
  assert.deepEqual(warnings, []);
  return { events, thread: events[0].threadId };
}

const stateOf = (thread) => ask('GET', `/v1/shoppers/${thread}/shared-state`);
const update = (patch) => `/sim tool=update_state args=${JSON.stringify({ patch })}`;

test('ag_ui_state: the agent changes the state, and the client has it', async () => {
  const options = { threadId: randomUUID(), user: `ann-${randomUUID()}` };
  const client = agent(options);
  const { events, thread } = await run(client, update({ items: ['milk', 'bread'], shop: { name: 'a/b~c' } }));
  assert.deepEqual(events.slice(0, 2).map(({ type }) => type), ['RUN_STARTED', 'STATE_SNAPSHOT']);
  assert.deepEqual(events[1].snapshot, { items: [] });
  assert.equal(events.filter(({ type }) => type === 'STATE_DELTA').length, 1);
  assert.deepEqual(client.state, { items: ['milk', 'bread'], shop: { name: 'a/b~c' } });
  assert.deepEqual(await stateOf(thread), client.state);
  // What does not match is refused to the model, with its place.
  const refused = await run(client, update({ items: ['milk', 7] }));
  const result = refused.events.find(({ type }) => type === 'TOOL_CALL_RESULT');
  assert.match(result.content, /`\/items\/1` must be of type "string"/);
  assert.deepEqual(await stateOf(thread), client.state);
  // A client that has nothing yet gets it, and its empty state changes nothing.
  const other = agent(options);
  await run(other, 'hello');
  assert.deepEqual(other.state, client.state);
});

test('ag_ui_state: the state of the client is that before its run', async () => {
  const client = agent({ initialState: { items: ['tea'] } });
  const { events, thread } = await run(client, update({ shop: { name: 'Corner' } }));
  assert.deepEqual(events.find(({ type }) => type === 'STATE_SNAPSHOT').snapshot, { items: ['tea'] });
  assert.deepEqual(client.state, { items: ['tea'], shop: { name: 'Corner' } });
  client.setState({ items: [] });
  await run(client, 'thanks');
  assert.deepEqual([client.state, await stateOf(thread)], [{ items: [] }, { items: [] }]);
  client.setState({ items: [1] });
  await assert.rejects(run(client, 'and this?'), /422|invalid/);
});

test('ag_ui_state: cut off again and again, the client has the state', async (t) => {
  const proxy = await cutter(url, { cuts: 12, longest: 1_500, seed: 5 });
  t.after(() => proxy.close());
  const client = agent({ through: proxy.url, fetch: resumableFetch() });
  let thread;
  for (const items of [['a'], ['a', 'b'], [], ['c']]) {
    ({ thread } = await run(client, `/sim chunks=20 delay_ms=5 tool=update_state args=${JSON.stringify({ patch: { items } })}`));
    assert.deepEqual(client.state, { items });
    assert.deepEqual(await stateOf(thread), { items });
  }
  await until(() => proxy.cuts > 0, 'a cut');
});

test('ag_ui_state: a kind without a state ignores that of the client', async () => {
  const client = agent({ target: 'goal', initialState: { mine: true } });
  const { events } = await run(client, 'hello');
  assert(events.every(({ type }) => !type.startsWith('STATE')));
  assert.deepEqual(client.state, { mine: true });
});
