// The parts of Houston's API that these tests need, at HOUSTON_URL with HOUSTON_API_KEY.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';

const { HOUSTON_URL, HOUSTON_API_KEY } = process.env;
assert(HOUSTON_URL && HOUSTON_API_KEY, 'set HOUSTON_URL and HOUSTON_API_KEY; `cargo test -p houston-cli --test clients` does');

export const url = HOUSTON_URL.replace(/\/$/, '');
export const headers = { authorization: `Bearer ${HOUSTON_API_KEY}` };

export async function ask(method, path, body) {
  const json = body && { 'content-type': 'application/json', 'idempotency-key': randomUUID() };
  const request = { method, headers: { ...headers, ...json }, body: body && JSON.stringify(body) };
  let response = await fetch(url + path, request);
  // A server whose database is busy asks to try again.
  for (const end = Date.now() + 60_000; response.status === 503 && Date.now() < end; ) {
    await response.body?.cancel();
    await sleep(1000 * Number(response.headers.get('retry-after') ?? 1));
    response = await fetch(url + path, request);
  }
  const text = await response.text();
  assert(response.ok, `${method} ${path}: ${response.status} ${text}`);
  return text ? JSON.parse(text) : undefined;
}

// A new conversation: `{ id, path, user }` of a new goal, or of a new user's agent.
export async function newConversation(kind = 'goal') {
  const { id: user, user_agent_id } = await ask('POST', '/v1/users', { name: 'Ann' });
  if (kind === 'user_agent') return conversation(kind, user_agent_id, user);
  return conversation(kind, (await ask('POST', '/v1/goals', { user_id: user, title: 'Try clients' })).id, user);
}

const conversation = (kind, id, user) => ({ id, path: `/v1/${kind}s/${id}`, user });

// A client token for the user of a conversation, as a backend makes one for a browser.
export const clientToken = async ({ user }) =>
  (await ask('POST', '/v1/client-tokens', { user_id: user, scopes: ['read', 'post'], minutes: 5 })).token;

export const post = (conversation, content) => ask('POST', `${conversation.path}/messages`, { content });

export const cancel = (run) => ask('POST', `/v1/runs/${run}/cancel`, {});

export const runOf = (run) => ask('GET', `/v1/runs/${run}`);

// All messages of the thread, oldest first.
export async function thread(conversation) {
  const messages = [];
  for (let cursor = ''; cursor !== null; ) {
    const page = await ask('GET', `${conversation.path}/messages?limit=100${cursor && `&cursor=${cursor}`}`);
    messages.push(...page.data);
    cursor = page.has_more ? page.next_cursor : null;
  }
  return messages.reverse();
}

// The text messages of a thread: id and content.
export const textsOf = (messages, ...sources) =>
  messages
    .filter((message) => message.message_type === 'text' && sources.includes(message.source))
    .map(({ id, content }) => ({ id, content }));

export const sleep = (ms) => new Promise((wake) => setTimeout(wake, ms));

// Polls until `ready` returns a truthy value.
export async function until(ready, what, patience = 120_000) {
  for (const end = Date.now() + patience; Date.now() < end; await sleep(10)) {
    const found = await ready();
    if (found) return found;
  }
  throw new Error(`waited in vain for ${what}`);
}
