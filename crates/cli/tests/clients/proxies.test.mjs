// Houston behind nginx, which compresses, and behind haproxy; both cut what is silent for 3 s.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import { test } from 'node:test';
import { headers, newConversation, post, sleep, until, url } from './houston.mjs';
import { installed } from './programs.mjs';
import { Received } from './received.mjs';

const [nginx, haproxy] = [installed('nginx'), installed('haproxy')];
const skip = nginx.skip || haproxy.skip;

const nginxConfig = (folder, from, to) => `
daemon off;
master_process off;
pid ${folder}/pid;
error_log ${folder}/error.log;
events { worker_connections 64; }
http {
  access_log off;
  client_body_temp_path ${folder}/body; proxy_temp_path ${folder}/proxy; fastcgi_temp_path ${folder}/fastcgi;
  uwsgi_temp_path ${folder}/uwsgi; scgi_temp_path ${folder}/scgi;
  gzip on; gzip_min_length 0; gzip_proxied any; gzip_types text/event-stream application/json;
  server {
    listen 127.0.0.1:${from};
    location / { proxy_pass http://127.0.0.1:${to}; proxy_http_version 1.1; proxy_set_header Connection ''; proxy_read_timeout 3s; }
  }
}`;

const haproxyConfig = (folder, from, to) => `
global
  maxconn 64
defaults
  mode http
  timeout connect 3s
  timeout client 3s
  timeout server 3s
frontend front
  bind 127.0.0.1:${from}
  default_backend back
backend back
  compression algo gzip
  compression type text/event-stream application/json
  server houston 127.0.0.1:${to}
`;

const proxies = {
  nginx: [nginx.program, nginxConfig, (file) => ['-c', file, '-e', '/dev/null']],
  haproxy: [haproxy.program, haproxyConfig, (file) => ['-db', '-f', file]],
};

const portOf = (server) => new Promise((found) => server.listen(0, '127.0.0.1', () => found(server.address().port)));

async function freePort() {
  const server = http.createServer();
  const port = await portOf(server);
  await new Promise((closed) => server.close(closed));
  return port;
}

// Starts a proxy before the server at `to`; returns its address.
async function start(t, name, to) {
  const [program, config, options] = proxies[name];
  const folder = mkdtempSync(`${tmpdir()}/houston-proxy-`);
  const from = await freePort();
  writeFileSync(`${folder}/config`, config(folder, from, to));
  const child = spawn(program, options(`${folder}/config`), { stdio: ['ignore', 'pipe', 'pipe'] });
  let said = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (said += text));
  t.after(async () => {
    child.kill('SIGKILL');
    await new Promise((ended) => (child.exitCode === null ? child.on('exit', ended) : ended()));
    rmSync(folder, { recursive: true });
  });
  const answers = () => fetch(`http://127.0.0.1:${from}/livez`).then(() => true, () => child.exitCode !== null);
  await until(answers, name);
  assert.equal(child.exitCode, null, said);
  return `http://127.0.0.1:${from}`;
}

for (const name of Object.keys(proxies)) {
  test(`proxies: ${name}: events come one by one, and silence for longer than its limit is survived`, { skip }, async (t) => {
    const through = await start(t, name, new URL(url).port);
    const conversation = await newConversation();
    const posted = await post(conversation, '/sim hold_ms=5000 chunks=20 delay_ms=50');
    const response = await fetch(through + posted.events_url, { headers: { ...headers, 'accept-encoding': 'gzip' } });
    const { headers: other } = await fetch(through + conversation.path, { headers: { ...headers, 'accept-encoding': 'gzip' } });
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
  });

  test(`proxies: ${name}: cuts a server that sends no heartbeats`, { skip }, async (t) => {
    const silent = http.createServer((_, response) => response.writeHead(200, { 'content-type': 'text/event-stream' }).write(':\n'));
    const through = await start(t, name, await portOf(silent));
    t.after(() => (silent.closeAllConnections(), silent.close()));
    const response = await fetch(`${through}/events`);
    const end = await Promise.race([response.text().then(() => 'cut', () => 'cut'), sleep(20_000).then(() => 'open')]);
    assert.equal(end, 'cut', 'else the other test shows nothing');
  });
}
