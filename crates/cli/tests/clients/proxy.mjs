// Starts proxies, and reads streams through them.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import { headers, newConversation, post, until } from './houston.mjs';
import { Received } from './received.mjs';

export const portOf = (server) => new Promise((found) => server.listen(0, '127.0.0.1', () => found(server.address().port)));

async function freePort() {
  const server = http.createServer();
  const port = await portOf(server);
  await new Promise((closed) => server.close(closed));
  return port;
}

// Starts a proxy with a configuration for a folder and a port; returns its address.
export async function startProxy(t, program, config, options) {
  const folder = mkdtempSync(`${tmpdir()}/houston-proxy-`);
  const from = await freePort();
  writeFileSync(`${folder}/config`, config(folder, from));
  const child = spawn(program, options(`${folder}/config`), { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, HOME: folder } });
  let said = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (said += text));
  t.after(async () => {
    child.kill('SIGKILL');
    await new Promise((ended) => (child.exitCode === null ? child.on('exit', ended) : ended()));
    rmSync(folder, { recursive: true });
  });
  const answers = () => fetch(`http://127.0.0.1:${from}/livez`).then(() => true, () => child.exitCode !== null);
  await until(answers, program);
  assert.equal(child.exitCode, null, said);
  return `http://127.0.0.1:${from}`;
}

// The events of an answer arrive while it is written, although the model is silent at first; and the proxy compresses other answers.
export async function eventsComeOneByOne(through) {
  const conversation = await newConversation();
  const posted = await post(conversation, '/sim hold_ms=5000 chunks=20 delay_ms=50');
  const response = await fetch(through + posted.events_url, { headers: { ...headers, 'accept-encoding': 'gzip' } });
  // A long one: Caddy leaves short answers as they are.
  const { headers: other } = await fetch(`${through}/openapi.json`, { headers: { ...headers, 'accept-encoding': 'gzip' } });
  assert.equal(other.get('content-encoding'), 'gzip', 'the proxy compresses; the stream, too, if it is nginx');
  const [received, text] = [new Received(), response.body.pipeThrough(new TextDecoderStream())];
  let [pending, pieces, began] = ['', 0, undefined];
  for await (const piece of text) {
    const frames = (pending + piece).split('\n\n');
    pending = frames.pop();
    if (frames.length > 0) pieces += 1;
    for (const frame of frames) {
      const [, id] = /^id: (.*)$/m.exec(frame);
      received.add(id, JSON.parse(/^data: (.*)$/m.exec(frame)[1]));
    }
    began ??= received.texts.size;
  }
  assert.equal(began, 0, 'the first events come before the model has said anything');
  assert(pieces >= 3, `events came in ${pieces} pieces`);
  await received.assertWhole(conversation);
}
