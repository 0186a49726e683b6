// The programs in the API's README: generated, type-checked and run as they stand there.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { newConversation, url } from './houston.mjs';
import { blocks, folder } from './readme.mjs';

async function run(folder, program, arguments_, env = {}) {
  const options = { cwd: folder, env: { ...process.env, ...env }, timeout: 240_000 };
  const { stdout } = await promisify(execFile)(program, arguments_, options).catch((error) => {
    throw new Error(`${error.message}\n${error.stdout}\n${error.stderr}`);
  });
  return stdout;
}

const strict = '--noEmit --strict --erasableSyntaxOnly --allowImportingTsExtensions --target es2024 --module nodenext --types node';

test('readme: the client for TypeScript is generated, type-checked and used', async (t) => {
  const made = folder();
  t.after(() => rmSync(made, { recursive: true }));
  const [[commands], [example]] = [blocks('TypeScript', 'sh'), blocks('TypeScript', 'ts')];
  const generate = commands.replace('http://127.0.0.1:8080', url).replace('npx ', 'node_modules/.bin/');
  await run(made, 'bash', ['-ec', generate]);
  writeFileSync(`${made}/example.ts`, example);
  writeFileSync(`${made}/package.json`, '{ "type": "module" }');
  await run(made, 'node_modules/.bin/tsc', [...strict.split(' '), 'example.ts']);
  const said = await run(made, process.execPath, ['example.ts']);
  assert.match(said, /\n(message_sent|completed) for 0(\.0+)? USD\n/);
  assert.match(said, /\nuser: Please create a note: buy milk\n/);
  assert.match(said, /\nempty_message\n$/);
});

test('readme: the client for AG-UI runs', async (t) => {
  const made = folder();
  t.after(() => rmSync(made, { recursive: true }));
  writeFileSync(`${made}/example.mjs`, blocks('AG-UI', 'js')[0]);
  const said = await run(made, process.execPath, ['example.mjs'], { GOAL: (await newConversation()).id });
  assert.match(said, /\n[4-9] messages\n$/);
});
