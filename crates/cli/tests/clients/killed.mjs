// Reads an answer, in the midst of which Houston is killed and started again: says `text` when that may happen.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { HttpAgent } from '@ag-ui/client';
import { resumableFetch } from '../../../api/clients/resume.mjs';
import { headers, newConversation, textsOf, thread, url } from './houston.mjs';

const requests = [];
const counting = (address, init) => (requests.push(init.method ?? 'GET'), fetch(address, init));
const patient = resumableFetch({ fetch: counting, tries: 2_000, pause: () => 30 });

const conversation = await newConversation();
const agent = new HttpAgent({ url: `${url}${conversation.path}/ag-ui`, headers, threadId: conversation.id, fetch: patient });
agent.addMessage({ id: randomUUID(), role: 'user', content: '/sim chunks=300 delay_ms=20' });
const types = [];
await agent.runAgent({ runId: randomUUID() }, {
  onEvent({ event }) {
    if (event.type === 'TEXT_MESSAGE_CONTENT' && !types.includes(event.type)) console.log('text');
    types.push(event.type);
  },
});

assert.equal(types.at(-1), 'RUN_FINISHED');
const answers = agent.messages.filter(({ role, content }) => role === 'assistant' && content);
const own = textsOf(await thread(conversation), 'agent');
assert.deepEqual(answers.map(({ id, content }) => ({ id, content })), own);
assert.equal(own[0].content.split(' ').length, 300);
// What the dead worker had written was taken back.
assert.equal(types.filter((type) => type === 'MESSAGES_SNAPSHOT').length, 1);
assert.deepEqual(requests.filter((method) => method !== 'GET'), ['POST'], 'the message is posted once');
assert(requests.length > 2, 'it went on over another connection');
