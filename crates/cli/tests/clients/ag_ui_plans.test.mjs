// AG-UI's own client as it comes: it has the list of a plan's steps, as the plan has it, however often it is cut off.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { HttpAgent } from '@ag-ui/client';
import { EventSchema } from '@ag-ui/core/schemas';
import { ask, headers, until, url } from './houston.mjs';
import { cutter } from './cutter.mjs';
import { resumableFetch } from '../../../api/clients/resume.mjs';

// The client drops events and fields it does not know with a warning, and deltas that do not fit.
const warnings = [];
console.warn = (...warning) => warnings.push(warning.join(' '));

function agent({ through = url, threadId = randomUUID(), user = `ann-${randomUUID()}`, ...rest } = {}) {
  return new HttpAgent({ url: `${through}/ag-ui/goal`, headers: { ...headers, 'Houston-User': user }, threadId, ...rest });
}

async function run(client, content) {
  client.addMessage({ id: randomUUID(), role: 'user', content });
  const events = [];
  const onEvent = ({ event }) => {
    const parsed = EventSchema.safeParse(event);
    assert(parsed.success, `${JSON.stringify(event)}: ${parsed.error}`);
    events.push(event);
  };
  await client.runAgent({ runId: randomUUID() }, { onEvent });
  assert.deepEqual(warnings, []);
  return events;
}

const listOf = (client) => client.messages.find(({ role, activityType }) => role === 'activity' && activityType === 'houston.plan');
const PLAN = 'plan: look up trains; compare hotels; find museums';

test('ag_ui_plans: the list is made, gets on and ends before the answer', async () => {
  const options = { threadId: randomUUID(), user: `ann-${randomUUID()}` };
  const client = agent(options);
  const events = await run(client, PLAN);
  const kinds = events.map(({ type, name }) => name ?? type);
  const at = (kind, from = 0) => {
    const found = kinds.indexOf(kind, from);
    assert(found >= 0, `no ${kind} after ${from}: ${kinds}`);
    return found;
  };
  const created = at('houston.plan.created');
  assert.equal(kinds[created + 1], 'ACTIVITY_SNAPSHOT');
  const ended = at('houston.plan.ended', at('ACTIVITY_DELTA', created));
  assert.equal(kinds[ended + 1], 'ACTIVITY_SNAPSHOT');
  at('RUN_FINISHED', at('TEXT_MESSAGE_CONTENT', ended));
  assert.equal(kinds.at(-1), 'RUN_FINISHED');

  const list = listOf(client);
  const plan = await ask('GET', `/v1/plans/${list.id}`);
  assert.deepEqual([list.content, plan.status], [plan.checklist, 'completed']);
  assert.deepEqual(list.content.steps.map(({ status }) => status), ['done', 'done', 'done', 'done']);
  // The list is that of the message it belongs to: what follows leaves it alone.
  await run(client, 'thanks');
  assert.deepEqual(listOf(client), list);
});

test('ag_ui_plans: cut off again and again, the client has the same list', async (t) => {
  const proxy = await cutter(url, { cuts: 12, longest: 1_500, seed: 7 });
  t.after(() => proxy.close());
  const client = agent({ through: proxy.url, fetch: resumableFetch() });
  for (let nth = 0; nth < 3; nth += 1) {
    await run(client, `${PLAN}; look ${nth} times`);
  }
  const lists = client.messages.filter(({ activityType }) => activityType === 'houston.plan');
  assert.equal(lists.length, 3);
  for (const { id, content } of lists) {
    assert.deepEqual(content, (await ask('GET', `/v1/plans/${id}`)).checklist);
  }
  await until(() => proxy.cuts > 0, 'a cut');
});
