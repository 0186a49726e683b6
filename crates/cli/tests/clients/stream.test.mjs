// The stream helper for TypeScript, `houston-stream.ts`: Node strips its types.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HoustonProblem, HoustonStream, StreamLost } from '../../../api/clients/houston-stream.ts';
import { clientToken, headers, newConversation, post, thread, until, url } from './houston.mjs';
import { blackHole, cutter } from './cutter.mjs';
import { Received } from './received.mjs';

const token = headers.authorization.replace('Bearer ', '');
const quick = { token, pause: () => 1 };

async function read(stream, received = new Received()) {
  for await (const { id, event } of stream) received.add(id, event);
  return received;
}

test('stream: 20 forced drops with a client token: no gap, no duplicate', async (t) => {
  const conversation = await newConversation();
  const proxy = await cutter(url, { cuts: 20, longest: 1_000, seed: 21 });
  t.after(() => proxy.close());
  const ofUser = await clientToken(conversation);
  let connected = 0;
  const options = { ...quick, token: () => ofUser, onConnected: (is) => void (connected += is) };
  for (let since = 0; proxy.cuts < 20; ) {
    const posted = await post(conversation, '/sim chunks=300 delay_ms=2');
    await (await read(new HoustonStream(proxy.url + posted.events_url, options))).assertWhole(conversation, since);
    since = (await thread(conversation)).at(-1).seq;
  }
  assert(connected > 1, 'it reconnected');
});

test('stream: goes on from a position, and is over at once when there is nothing new', async () => {
  const conversation = await newConversation();
  const posted = await post(conversation, 'Please create a note: buy milk');
  const received = new Received();
  const half = new HoustonStream(url + posted.events_url, quick);
  for await (const { id, event } of half) {
    received.add(id, event);
    if (event.type === 'TOOL_CALL_START') break;
  }
  const rest = new HoustonStream(url + posted.events_url, { ...quick, after: half.position });
  await (await read(rest, received)).assertWhole(conversation);
  assert.deepEqual((await read(new HoustonStream(url + posted.events_url, { ...quick, after: rest.position }))).events, []);
});

test('stream: what Houston refuses is a typed problem, and a refused token is replaced once', async () => {
  const conversation = await newConversation();
  const address = `${url}${conversation.path}/events`;
  await assert.rejects(read(new HoustonStream(`${url}/v1/goals/goal_${'0'.repeat(32)}/events`, quick)), (error) => {
    assert(error instanceof HoustonProblem);
    return error.status === 404 && error.code === 'not_found' && error.problem.instance.startsWith('/v1/goals/');
  });
  await assert.rejects(read(new HoustonStream(address, { ...quick, token: 'hou_no' })), { status: 401 });

  await post(conversation, 'hello');
  const asked = [];
  const renewed = (refused) => (asked.push(refused), refused ? token : 'hou_no');
  await (await read(new HoustonStream(address, { ...quick, token: renewed }))).assertWhole(conversation);
  assert.deepEqual(asked, [false, true]);
});

test('stream: aborting and a Houston that stays away are errors of their own', async () => {
  const conversation = await newConversation();
  const posted = await post(conversation, '/sim chunks=5000 delay_ms=5');
  const abort = new AbortController();
  const stream = new HoustonStream(url + posted.events_url, { ...quick, signal: abort.signal });
  await assert.rejects(async () => {
    for await (const { event } of stream) if (event.type === 'TEXT_MESSAGE_CONTENT') abort.abort();
  }, { name: 'AbortError' });
  await assert.rejects(read(new HoustonStream('http://127.0.0.1:9/events', { ...quick, tries: 3 })), StreamLost);
});

test('stream: a connection that is dead without a word is replaced', async (t) => {
  const conversation = await newConversation();
  const proxy = await blackHole(url, { after: 3_000 });
  t.after(() => proxy.close());
  const posted = await post(conversation, '/sim chunks=300 delay_ms=2');
  const stream = new HoustonStream(proxy.url + posted.events_url, { ...quick, silence: 1_500 });
  await (await read(stream)).assertWhole(conversation);
  assert(proxy.connections > 1, 'it reconnected');
});

test('stream: a page that is shown again goes on at once', async (t) => {
  const conversation = await newConversation();
  const proxy = await blackHole(url, { after: 3_000 });
  globalThis.document = Object.assign(new EventTarget(), { visibilityState: 'hidden' });
  t.after(() => (delete globalThis.document, proxy.close()));
  const posted = await post(conversation, '/sim chunks=300 delay_ms=2');
  const received = read(new HoustonStream(proxy.url + posted.events_url, { ...quick, silence: 60_000 }));
  await until(() => proxy.isSilent, 'the silence');
  document.visibilityState = 'visible';
  document.dispatchEvent(new Event('visibilitychange'));
  await (await received).assertWhole(conversation);
});
