// Houston behind nginx, which compresses, and behind haproxy; both cut what is silent for 3 s.
import assert from 'node:assert/strict';
import http from 'node:http';
import { test } from 'node:test';
import { sleep, url } from './houston.mjs';
import { installed } from './programs.mjs';
import { eventsComeOneByOne, portOf, startProxy } from './proxy.mjs';

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

// Starts a proxy before the server at `to`; returns its address.
async function start(t, name, to) {
  const [program, config, options] = proxies[name];
  return startProxy(t, program, (folder, from) => config(folder, from, to), options);
}

for (const name of Object.keys(proxies)) {
  test(`proxies: ${name}: events come one by one, and silence for longer than its limit is survived`, { skip }, async (t) => {
    const through = await start(t, name, new URL(url).port);
    await eventsComeOneByOne(through);
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
