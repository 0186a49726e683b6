// Webhooks and inbound hooks with the reference library of Standard Webhooks. The server must be allowed to send to
// http://127.0.0.1:$HOUSTON_HOOKS_PORT (`hosts` in webhooks.toml).
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import { headers, newConversation, post, thread, until, url } from './houston.mjs';

const port = Number(process.env.HOUSTON_HOOKS_PORT);

async function ask(method, path, body) {
  const json = body && { 'content-type': 'application/json' };
  const response = await fetch(url + path, { method, headers: { ...headers, ...json }, body: body && JSON.stringify(body) });
  const text = await response.text();
  assert(response.ok, `${method} ${path}: ${response.status} ${text}`);
  return text ? JSON.parse(text) : undefined;
}

// A receiver that keeps what it gets, and answers with `status`.
async function receiver(t) {
  const all = [];
  const state = { all, status: 204 };
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk) => (body += chunk));
    request.on('end', () => {
      all.push({ headers: request.headers, body, status: state.status });
      response.writeHead(state.status).end();
    });
  });
  // A connection of another test may have been given the port meanwhile.
  const listens = () => new Promise((done) => {
    server.removeAllListeners('error').once('error', () => done(false)).listen(port, '127.0.0.1', () => done(true));
  });
  await until(listens, 'the port is free');
  t.after(() => server.close());
  return state;
}

test('webhooks: the reference library verifies every event, in order, and with both secrets', async (t) => {
  const received = await receiver(t);
  const conversation = await newConversation();
  const topics = ['run.*', 'message.*'];
  const made = await ask('POST', '/v1/webhooks', { url: `http://127.0.0.1:${port}/`, topics, agentable_id: conversation.id });
  t.after(() => ask('DELETE', `/v1/webhooks/${made.id}`));

  const tested = await ask('POST', `/v1/webhooks/${made.id}/test`);
  assert.deepEqual([tested.accepted, tested.status], [true, 204]);
  const ping = received.all.shift();
  assert.equal(new Webhook(made.secret).verify(ping.body, ping.headers).type, 'webhook.test');

  received.status = 500;
  await post(conversation, 'Please create a note: buy milk');
  await until(() => received.all.length > 0, 'the first attempt');
  const rotated = await ask('POST', `/v1/webhooks/${made.id}/secret`, {});
  received.status = 204;
  const delivered = () => received.all.filter(({ status }) => status === 204);
  await until(() => delivered().some(({ body }) => JSON.parse(body).type === 'run.finished'), 'the end of the run');
  const events = delivered().map(({ body, headers: signed }) => {
    for (const secret of [made.secret, rotated.secret]) {
      assert.equal(new Webhook(secret).verify(body, signed).id, signed['webhook-id']);
    }
    return JSON.parse(body);
  });
  const changed = delivered()[0];
  assert.throws(() => new Webhook(rotated.secret).verify(`${changed.body} `, changed.headers));
  const positions = events.map(({ data }) => data.seq);
  assert.deepEqual(positions, [...new Set(positions)].sort((a, b) => a - b), 'in order');
  assert.deepEqual([events[0].type, events.at(-1).type], ['run.queued', 'run.finished']);
  assert(events.every(({ specversion, data }) => specversion === '1.0' && data.agentable_id === conversation.id));
});

test('webhooks: what the reference library has signed becomes a message, once', async () => {
  const conversation = await newConversation();
  const hook = await ask('POST', '/v1/inbound-hooks', { agentable_id: conversation.id, name: 'shop' });
  const body = JSON.stringify({ order: 7 });
  const send = (secret, text = body) => {
    const now = new Date();
    const signature = new Webhook(secret).sign('msg_7', now, body);
    const signed = { 'webhook-id': 'msg_7', 'webhook-timestamp': `${Math.floor(now / 1000)}`, 'webhook-signature': signature };
    return fetch(url + hook.path, { method: 'POST', headers: signed, body: text });
  };
  assert.equal((await send('whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw')).status, 401);
  assert.equal((await send(hook.secret, `${body} `)).status, 401);
  const ids = [];
  for (let n = 0; n < 2; n += 1) {
    const response = await send(hook.secret);
    assert.equal(response.status, 202);
    ids.push((await response.json()).message_id);
  }
  assert.equal(ids[0], ids[1]);
  const messages = (await thread(conversation)).filter(({ source }) => source === 'system');
  assert.deepEqual(messages.map(({ id }) => id), [ids[0]]);
  assert.equal(messages[0].metadata.untrusted, true);
  assert(messages[0].content.includes('{"order": 7}') || messages[0].content.includes('{"order":7}'));
});
