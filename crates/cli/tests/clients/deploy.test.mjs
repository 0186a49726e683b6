// Houston behind nginx and Caddy as deploy/ configures them, without TLS and on other ports.
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { headers, url } from './houston.mjs';
import { installed } from './programs.mjs';
import { eventsComeOneByOne, startProxy } from './proxy.mjs';

const nginx = installed('nginx');
// From PyPI: `cargo xtask clients`.
const caddy = `${process.env.XTASK_CLIENTS_PYTHON ?? ''}/bin/caddy`;
const { host } = new URL(url);

// A file of deploy/ with each pattern replaced; all of them must occur.
function shipped(name, replacements) {
  let text = readFileSync(new URL(`../../../../deploy/${name}`, import.meta.url), 'utf8');
  for (const [pattern, replacement] of replacements) {
    assert.match(text, pattern);
    text = text.replace(pattern, replacement);
  }
  return text;
}

const nginxConfig = (folder, from) => `
daemon off;
master_process off;
pid ${folder}/pid;
error_log ${folder}/error.log;
events { worker_connections 64; }
http {
  access_log off;
  client_body_temp_path ${folder}/body; proxy_temp_path ${folder}/proxy; fastcgi_temp_path ${folder}/fastcgi;
  uwsgi_temp_path ${folder}/uwsgi; scgi_temp_path ${folder}/scgi;
  gzip on; gzip_min_length 0; gzip_proxied any; gzip_types application/json;
  ${shipped('nginx.conf', [
    [/listen 443 ssl http2;/, `listen 127.0.0.1:${from};`],
    [/listen \[::\]:443 ssl http2;/, ''],
    [/ssl_certificate .*;/, ''],
    [/ssl_certificate_key .*;/, ''],
    [/server 127\.0\.0\.1:8080;/, `server ${host};`],
  ])}
}`;

const caddyConfig = (_, from) => `{
  admin off
  auto_https off
}
${shipped('Caddyfile', [
  [/^houston\.example\.com/m, `http://127.0.0.1:${from}`],
  [/127\.0\.0\.1:8080/, host],
])}`;

const proxies = {
  'nginx.conf': { program: nginx.program, skip: nginx.skip, config: nginxConfig, options: (file) => ['-c', file, '-e', '/dev/null'] },
  Caddyfile: {
    program: caddy,
    skip: existsSync(caddy) ? false : 'caddy is not installed: cargo xtask clients',
    config: caddyConfig,
    options: (file) => ['run', '--adapter', 'caddyfile', '--config', file],
  },
};

for (const [name, { program, skip, config, options }] of Object.entries(proxies)) {
  test(`deploy: ${name}: events come one by one`, { skip }, async (t) => {
    await eventsComeOneByOne(await startProxy(t, program, config, options));
  });

  test(`deploy: ${name}: problems of Houston reach the client as they are`, { skip }, async (t) => {
    const through = await startProxy(t, program, config, options);
    const answer = async (of) => {
      const response = await fetch(of, { headers });
      return [response.status, await response.text()].map(withoutId);
    };
    for (const path of ['/v1/goals/goal_none', '/readyz']) {
      // On a busy machine Postgres may be slow for one of the two.
      for (const end = Date.now() + 120_000; ;) {
        const [direct, proxied] = [await answer(url + path), await answer(through + path)];
        if (Date.now() < end && `${proxied}` !== `${direct}`) continue;
        assert.deepEqual(proxied, direct);
        break;
      }
    }
  });
}

// Each request has an id of its own.
const withoutId = (text) => (typeof text === 'string' ? text.replace(/req_\w+/g, '') : text);
