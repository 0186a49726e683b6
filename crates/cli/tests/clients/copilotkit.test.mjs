// CopilotKit's core as it comes, without a page: it sends what its tools return by itself, as the classic answer of AG-UI.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { HttpAgent } from '@ag-ui/client';
import { CopilotKitCore } from '@copilotkit/core';
import { z } from 'zod';
import { headers, url } from './houston.mjs';

test('copilotkit: tools of the page in one agent, between messages', async () => {
  const sent = { ...headers, 'Houston-User': randomUUID() };
  const house = new HttpAgent({ url: `${url}/ag-ui/goal`, agentId: 'house', threadId: randomUUID(), headers: sent });
  const errors = [];
  const core = new CopilotKitCore({ agents__unsafe_dev_only: { house }, headers: sent });
  core.subscribe({ onError: ({ code, error }) => void errors.push(`${code}: ${error}`) });
  const shown = [];
  core.addTool({
    name: 'show_map',
    description: 'Shows a place on the map.',
    parameters: z.object({ place: z.string() }),
    handler: async ({ place }) => {
      shown.push(place);
      return `the map shows ${place}`;
    },
  });
  const agent = core.getAgent('house');
  const says = async (content) => {
    agent.addMessage({ id: randomUUID(), role: 'user', content });
    const { newMessages } = await core.runAgent({ agent });
    assert.deepEqual(errors, []);
    return newMessages.findLast(({ role }) => role === 'assistant').content;
  };
  assert.match(await says('hello'), /You asked: hello/);
  for (const place of ['Rome', 'Paris']) {
    assert.match(await says(`/sim tool=show_map args={"place":"${place}"}`), new RegExp(`the map shows ${place}`));
  }
  assert.match(await says('thanks'), /You asked: thanks/);
  assert.deepEqual(shown, ['Rome', 'Paris']);
});
