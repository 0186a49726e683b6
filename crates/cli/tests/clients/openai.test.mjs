// OpenAI's own client as it comes, and the AI SDK's client for the same protocol.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import OpenAI from 'openai';
import { cutter } from './cutter.mjs';
import { headers, newConversation, textsOf, thread, url } from './houston.mjs';

const client = (through = url, options = {}) =>
  new OpenAI({ baseURL: `${through}/compat/openai/v1`, apiKey: headers.authorization.slice('Bearer '.length), ...options });
const openai = client();

// The texts of the thread and those of responses.
const said = async (conversation) => textsOf(await thread(conversation), 'agent').map(({ content }) => content);
const of = (conversation) => ({ model: 'goal', conversation: `conv_${conversation.id}` });

test('openai: a response that waits, and the next one', async () => {
  const asked = await openai.responses.create({ model: 'goal', input: 'hello', safety_identifier: randomUUID() });
  assert.equal(asked.status, 'completed');
  assert(asked.output_text);
  assert.match(asked._request_id, /^req_/);
  assert(asked.usage.total_tokens > 0);
  const next = await openai.responses.create({ model: 'goal', input: 'and now?', previous_response_id: asked.id });
  assert.equal(next.conversation.id, asked.conversation.id);
  assert.equal(next.previous_response_id, asked.id);
  const items = [];
  for await (const item of openai.conversations.items.list(asked.conversation.id, { limit: 1 })) items.push(item);
  assert.deepEqual(items.filter(({ role }) => role === 'user').map(({ content }) => content[0].text), ['and now?', 'hello']);
});

test('openai: a streamed response with a tool, read again', async () => {
  const conversation = await newConversation();
  const stream = openai.responses.stream({ ...of(conversation), input: 'Please create a note: buy milk' });
  const numbers = [];
  let text = '';
  for await (const event of stream) {
    numbers.push(event.sequence_number);
    if (event.type === 'response.output_text.delta') text += event.delta;
  }
  assert(numbers.every((number, nth) => nth === 0 || number > numbers[nth - 1]), `${numbers}`);
  const final = await stream.finalResponse();
  assert.equal(final.status, 'completed');
  assert.equal(text, final.output_text);
  assert(final.output.some(({ type, name, output }) => type === 'mcp_call' && name === 'create_note' && output));
  assert.deepEqual([final.output_text], [(await said(conversation)).join('')]);
  const read = await openai.responses.retrieve(final.id);
  assert.equal(read.output_text, final.output_text);
  // The helper reads the whole stream and leaves out what the caller has.
  const half = numbers[Math.floor(numbers.length / 2)];
  const rest = openai.responses.stream({ response_id: final.id, starting_after: half });
  for await (const event of rest) assert(event.sequence_number > half);
  assert.equal((await rest.finalResponse()).output_text, final.output_text);
});

test('openai: 20 dropped connections, each resumed after the last event', async (t) => {
  const proxy = await cutter(url, { cuts: 20, longest: 3_000, seed: 11 });
  t.after(() => proxy.close());
  const through = client(proxy.url, { maxRetries: 0 });
  const conversation = await newConversation();
  let drops = 0;
  while (proxy.cuts < 20) {
    const input = '/sim chunks=300 delay_ms=2';
    const { id } = await openai.responses.create({ ...of(conversation), input, background: true });
    let [text, after, end] = ['', undefined, undefined];
    while (!end) {
      try {
        const events = await through.responses.retrieve(id, { stream: true, starting_after: after });
        for await (const event of events) {
          assert(after === undefined || event.sequence_number > after, JSON.stringify(event));
          after = event.sequence_number;
          if (event.type === 'response.output_text.delta') text += event.delta;
          if (event.type === 'response.completed') end = event.response;
        }
      } catch (error) {
        drops += 1;
      }
    }
    const final = end.output.filter(({ type }) => type === 'message').map(({ content }) => content[0].text).join('');
    assert.equal(text, final);
    assert.equal(final, (await said(conversation)).at(-1));
  }
  assert(drops > 5, `${drops} drops`);
});

test('openai: an approval is asked for and given', async () => {
  const conversation = await newConversation();
  const made = await openai.responses.create({ ...of(conversation), input: 'Please create a note: buy milk' });
  const note = JSON.stringify(made.output).match(/note_[0-9a-f]{32}/)[0];
  const order = `/sim tool=delete_note args=${JSON.stringify({ note_id: note })}`;
  const asked = await openai.responses.create({ ...of(conversation), input: order });
  assert.equal(asked.status, 'completed');
  const request = asked.output.find(({ type }) => type === 'mcp_approval_request');
  assert.deepEqual([request.name, JSON.parse(request.arguments)], ['delete_note', { note_id: note }]);
  const approval = { type: 'mcp_approval_response', approval_request_id: request.id, approve: true };
  const stream = openai.responses.stream({ model: 'goal', previous_response_id: asked.id, input: [approval] });
  const done = await stream.finalResponse();
  assert.equal(done.status, 'completed');
  const call = done.output.find(({ type }) => type === 'mcp_call');
  assert.equal(call.name, 'delete_note');
  assert.equal(call.error, null);
});

const parameters = { type: 'object', properties: { place: { type: 'string' } } };
const order = '/sim tool=show_map args={"place":"Rome"}';

test('openai: a function of the client ends the response, and its output goes on', async () => {
  const conversation = await newConversation();
  const tools = [{ type: 'function', name: 'show_map', description: 'Shows a place.', parameters, strict: false }];
  const stream = openai.responses.stream({ ...of(conversation), input: order, tools, instructions: 'Be brief.' });
  const asked = await stream.finalResponse();
  assert.deepEqual([asked.status, asked.incomplete_details], ['completed', null]);
  const call = asked.output.find(({ type }) => type === 'function_call');
  assert.deepEqual([call.name, JSON.parse(call.arguments)], ['show_map', { place: 'Rome' }]);
  const output = { type: 'function_call_output', call_id: call.call_id, output: JSON.stringify({ seen: 'Rome' }) };
  const done = await openai.responses.create({ model: 'goal', input: [output], previous_response_id: asked.id, tools });
  assert.equal(done.status, 'completed');
  assert(done.output_text);
  // A client that remembers everything itself sends it all, and the output finds the thread.
  const again = await openai.responses.create({ model: 'goal', input: [{ role: 'user', content: order }, call, output], tools });
  assert.deepEqual([again.id, again.conversation.id], [done.id, asked.conversation.id]);
});

test('openai: a function in a chat completion', async () => {
  const tools = [{ type: 'function', function: { name: 'show_map', parameters } }];
  const body = { model: 'goal', user: randomUUID(), tools };
  const messages = [{ role: 'user', content: order }];
  const asked = await openai.chat.completions.create({ ...body, messages });
  const [{ message, finish_reason }] = asked.choices;
  assert.equal(finish_reason, 'tool_calls');
  const [{ id, function: { name } }] = message.tool_calls;
  assert.equal(name, 'show_map');
  messages.push(message, { role: 'tool', tool_call_id: id, content: 'the map shows Rome' });
  const stream = openai.chat.completions.stream({ ...body, messages });
  const done = await stream.finalChatCompletion();
  assert.equal(done.choices[0].finish_reason, 'stop');
  assert(done.choices[0].message.content);
});

test('openai: background, cancel and errors', async () => {
  const conversation = await newConversation();
  const body = { ...of(conversation), input: '/sim chunks=2000 delay_ms=20', background: true };
  const begun = await openai.responses.create(body);
  const locked = await client(url, { maxRetries: 0 }).responses.create(body).catch((error) => error);
  assert.deepEqual([locked.status, locked.code], [409, 'conversation_locked']);
  assert.equal((await openai.responses.cancel(begun.id)).status, 'cancelled');
  for (;;) {
    const { status } = await openai.responses.retrieve(begun.id);
    if (status === 'cancelled') break;
    assert(['queued', 'in_progress'].includes(status), status);
  }
  const wrong = await openai.responses.create({ ...body, text: { format: { type: 'grammar' } } }).catch((error) => error);
  assert(wrong instanceof OpenAI.BadRequestError);
  assert.deepEqual([wrong.param, wrong.code], ['text.format.type', 'invalid_request']);
  assert.match(wrong.requestID, /^req_/);
  const nobody = await client(url, { apiKey: 'hou_no' }).models.list().catch((error) => error);
  assert(nobody instanceof OpenAI.AuthenticationError);
  const nothing = await openai.responses.retrieve(`resp_${'0'.repeat(32)}`).catch((error) => error);
  assert(nothing instanceof OpenAI.NotFoundError);
  const models = await openai.models.list();
  assert(models.data.some(({ id }) => id === 'goal'));
});

test('openai: chat completions', async () => {
  const user = randomUUID();
  const messages = [{ role: 'system', content: 'Be brief.' }, { role: 'user', content: 'hello' }];
  const done = await openai.chat.completions.create({ model: 'goal', user, messages });
  assert(done.choices[0].message.content);
  assert.equal(done.choices[0].finish_reason, 'stop');
  const stream = openai.chat.completions.stream({
    model: 'goal', user, messages, stream_options: { include_usage: true }, metadata: { conversation: done.conversation },
  });
  const final = await stream.finalChatCompletion();
  assert(final.choices[0].message.content);
  assert(final.usage.total_tokens > 0);
});
