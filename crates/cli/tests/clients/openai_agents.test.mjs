// OpenAI's agent SDK as it comes: a function and a typed result in one loop, over both endpoints, and a handoff.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import {
  Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, setTracingDisabled, tool,
} from '@openai/agents';
import OpenAI from 'openai';
import { z } from 'zod';
import { headers, url } from './houston.mjs';

setTracingDisabled(true);

const client = () => new OpenAI({
  baseURL: `${url}/compat/openai/v1`,
  apiKey: headers.authorization.slice('Bearer '.length),
  defaultHeaders: { 'Houston-User': randomUUID() },
});
const Trip = z.object({ city: z.string(), days: z.number() });

for (const Model of [OpenAIResponsesModel, OpenAIChatCompletionsModel]) {
  test(`openai_agents: a function and a typed result with ${Model.name}`, async () => {
    const shown = [];
    const showMap = tool({
      name: 'show_map',
      description: 'Shows a place on the map.',
      parameters: z.object({ place: z.string() }),
      execute: async ({ place }) => {
        shown.push(place);
        return `the map shows ${place}`;
      },
    });
    const agent = new Agent({
      name: 'Guide', instructions: 'Be brief.', model: new Model(client(), 'goal'), tools: [showMap], outputType: Trip,
    });
    const result = await new Runner().run(agent, '/sim tool=show_map args={"place":"Rome"}');
    assert.deepEqual(shown, ['Rome']);
    assert.equal(typeof result.finalOutput.city, 'string');
    assert.equal(typeof result.finalOutput.days, 'number');
  });
}

test('openai_agents: a function that a person must approve', async () => {
  const charged = [];
  const charge = tool({
    name: 'charge',
    description: 'Charges a card.',
    parameters: z.object({ amount: z.number() }),
    needsApproval: true,
    execute: async ({ amount }) => {
      charged.push(amount);
      return `charged ${amount}`;
    },
  });
  const agent = new Agent({ name: 'Till', model: new OpenAIResponsesModel(client(), 'goal'), tools: [charge] });
  const runner = new Runner();
  const asked = await runner.run(agent, '/sim tool=charge args={"amount":5}');
  assert.equal(asked.interruptions.length, 1);
  assert.deepEqual(charged, []);
  asked.state.approve(asked.interruptions[0]);
  const result = await runner.run(agent, asked.state);
  assert.deepEqual(charged, [5]);
  assert(result.finalOutput);
});

test('openai_agents: a handoff to another agent', async () => {
  const model = new OpenAIResponsesModel(client(), 'goal');
  const cook = new Agent({ name: 'Cook', instructions: 'You cook.', model });
  const host = new Agent({ name: 'Host', instructions: 'You greet.', model, handoffs: [cook] });
  const result = await new Runner().run(host, '/sim tool=transfer_to_Cook args={}');
  assert.equal(result.lastAgent.name, 'Cook');
  assert(result.finalOutput);
});
