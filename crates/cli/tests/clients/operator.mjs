// The first ten minutes of an operator, in the console only: a provider refuses its key, and mends. Houston's provider is this
// program, at PROVIDER_PORT.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';
import { assertAccessible, at, follow, launch, open, picture, skip } from './console.mjs';
import { ask, post, runOf, until } from './houston.mjs';

let browser;
let refusal = null;
const KEY_REFUSED = { status: 401, error: { message: 'Incorrect API key provided: sk-brok**', type: 'invalid_request_error', code: 'invalid_api_key' } };
const OVERLOADED = { status: 503, headers: { 'retry-after': '600' }, error: { message: 'The server is overloaded', type: 'server_error' } };
const BROKEN = { status: 500, error: { message: 'Something has exploded <img src=x onerror=alert()>', type: 'server_error' } };

const provider = createServer((request, response) => {
  request.resume().on('end', () => {
    if (refusal) {
      const { status, headers, error } = refusal;
      response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify({ error }));
      return;
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const chunk = (rest) => response.write(`data: ${JSON.stringify({ id: 'c1', object: 'chat.completion.chunk', model: 'gpt-5-mini', ...rest })}\n\n`);
    chunk({ choices: [{ index: 0, delta: { role: 'assistant', content: 'It works again.' } }] });
    chunk({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] });
    chunk({ choices: [], usage: { prompt_tokens: 1200, completion_tokens: 30, total_tokens: 1230 } });
    response.end('data: [DONE]\n\n');
  });
});

before(async () => {
  provider.listen(Number(process.env.PROVIDER_PORT), '127.0.0.1');
  if (!skip) browser = await launch();
});
after(async () => {
  await browser?.close();
  provider.close();
});

async function goalsOf(name, count) {
  const { id: user } = await ask('POST', '/v1/users', { name });
  const goals = [];
  for (let nth = 1; nth <= count; nth++) {
    const { id } = await ask('POST', '/v1/goals', { user_id: user, title: `${name} ${nth}` });
    goals.push({ id, path: `/v1/goals/${id}` });
  }
  return goals;
}

const reached = (run, ...statuses) => until(async () => statuses.includes((await runOf(run)).status), `${statuses} of ${run}`);
const newest = async (goal) => (await ask('GET', `${goal.path}/runs?limit=1`)).data[0];

test('operator: a refused key is found, mended, and its runs are tried again', { skip, timeout: 300_000 }, async (t) => {
  const goals = await goalsOf('Cem', 3);
  const [late] = await goalsOf('Bea', 1);

  refusal = OVERLOADED;
  const { run_id: retried } = await post(late, 'Where are we?');
  await reached(retried, 'retrying');
  refusal = KEY_REFUSED;
  for (const goal of goals) await reached((await post(goal, 'Book the train.')).run_id, 'failed');

  // The overview names the cause; its page counts the runs, and leads to them.
  const page = await open(browser, t);
  // With the one that was given up before.
  await page.locator('.rail a[href$="/errors"] .count:text-is("4")').waitFor();
  await picture(page, 'operator-1-overview');
  await follow(page, '.rail a:has-text("Errors")');
  const group = page.locator('tr', { hasText: 'AUTHENTICATION_ERROR' });
  assert.match(await group.innerText(), /Incorrect API key provided/);
  assert.equal(await group.locator('td.num').first().innerText(), '3');
  await picture(page, 'operator-2-errors');

  // The run that waits for its next attempt says when that is.
  await page.goto(at('/runs?q=status:retrying'));
  assert.match(await page.locator('tbody').innerText(), /next attempt in \d+ min/);
  await follow(page, `a[title="${retried}"]`);
  assert.match(await page.locator('.note').first().innerText(), /overloaded[^]*next attempt is due in \d+ min/);
  await picture(page, 'operator-3-retry');

  // Mended: all runs of the cause are counted, then tried again.
  refusal = null;
  await page.goto(at('/errors'));
  await group.locator('a').first().click();
  await page.waitForURL(/\/runs\?q=/);
  assert.equal(await page.locator('tbody tr').count(), 3);
  await follow(page, 'button:has-text("Try again")');
  assert.match(await page.locator('main').innerText(), /3 runs match/);
  await picture(page, 'operator-4-retry-them');
  await follow(page, 'button:has-text("Try again: 3 runs")');
  assert.match(await page.locator('main').innerText(), /3 runs matched, 3 of them changed/);
  for (const goal of goals) await until(async () => ['completed', 'message_sent'].includes((await newest(goal)).status), `an answer for ${goal.id}`);

  // The one that waits need not wait any longer.
  await page.goto(at('/runs?q=status:retrying'));
  await follow(page, 'button:has-text("Try again")');
  await follow(page, 'button:has-text("Try again: 1 run")');
  await reached(retried, 'completed', 'message_sent');

  // Who spent most today? The two calls that were lost with their processes are estimated, and cost most.
  await follow(page, '.rail a:has-text("Usage")');
  const rows = page.locator('section:has(h2:text-is("Users")) tbody tr');
  assert.match(await rows.nth(0).innerText(), /^Gil\s.*\$/s);
  assert.match(await rows.nth(1).innerText(), /^Cem\s.*\$/s);
  await assertAccessible(page, 'usage');
  await picture(page, 'operator-6-usage');
  assert.deepEqual(page.said, []);
});

test('operator: what failed at its last attempt is found with its attempts, and leaves the list', { skip, timeout: 300_000 }, async (t) => {
  const [goal] = await goalsOf('Fay', 1);
  refusal = BROKEN;
  const { run_id: failed } = await post(goal, 'Is anybody there?');
  await reached(failed, 'failed');
  const page = await open(browser, t);
  await page.goto(at('/errors'));
  const group = page.locator('tr', { hasText: 'exploded' });
  assert.match(await group.innerText(), /exploded <img src=x/);
  assert.equal(await page.locator('main img').count(), 0);
  assert.equal(await group.locator('td.num').first().innerText(), '1');
  await group.locator('a').first().click();
  await page.waitForURL(/\/runs\?q=/);
  const runs = page.url();
  await follow(page, `a[title="${failed}"]`);
  await page.waitForURL(`**/runs/${failed}`);
  const attempts = (await page.locator('.step .name').allInnerTexts()).filter((name) => name.includes('Attempt'));
  assert.ok(attempts.length >= 2, `${attempts}`);
  await picture(page, 'operator-5-attempts', { fullPage: true });
  // What a provider says is text.
  assert.match(await page.locator('main').textContent(), /exploded <img src=x/);
  assert.equal(await page.locator('main img').count(), 0);
  refusal = null;
  await page.goto(runs);
  await follow(page, 'button:has-text("Try again")');
  await follow(page, 'button:has-text("Try again: ")');
  await until(async () => ['completed', 'message_sent'].includes((await newest(goal)).status), 'the answer');
  assert.deepEqual(page.said, []);
});

test('operator: a message that killed its worker is a cause of its own, and is tried again', { skip, timeout: 300_000 }, async (t) => {
  const { GIVEN_UP_GOAL: goal, GIVEN_UP_RUN: run } = process.env;
  refusal = null;
  const page = await open(browser, t);
  await page.goto(at('/errors'));
  const group = page.locator('tr', { hasText: 'DEAD_LETTERED' });
  const [all, givenUp] = await group.locator('td.num').allInnerTexts();
  assert.deepEqual([all, givenUp], ['1', '1']);
  await group.locator('a').first().click();
  await page.waitForURL(/\/runs\?q=/);
  assert.equal(await page.locator('tbody tr').count(), 1);
  const runs = page.url();
  await follow(page, `a[title="${run}"]`);
  await page.locator('.head .status:has-text("dead lettered")').waitFor();
  await picture(page, 'operator-9-given-up', { fullPage: true });
  await page.goto(runs);
  await follow(page, 'button:has-text("Try again")');
  await follow(page, 'button:has-text("Try again: 1 run")');
  await until(async () => ['completed', 'message_sent'].includes((await newest({ path: `/v1/goals/${goal}` })).status), 'the answer');
  assert.deepEqual(page.said, []);
});

test('operator: a drained worker takes nothing new, and the run says so', { skip, timeout: 300_000 }, async (t) => {
  const page = await open(browser, t);
  const [goal] = await goalsOf('Dee', 1);
  await follow(page, '.rail a:has-text("Workers")');
  await follow(page, 'button:has-text("Drain")');
  const takes = ({ status, draining_since }) => status !== 'dead' && !draining_since;
  await until(async () => !(await ask('GET', '/v1/workers')).data.some(takes), 'the worker to drain');
  const { run_id: run } = await post(goal, 'Are you there?');
  await page.goto(at(`/runs/${run}`));
  const why = page.locator('section:has(h2:has-text("What it does now"))');
  await why.waitFor();
  assert.match(await why.innerText(), /worker/i);
  await until(async () => {
    await page.goto(at(`/runs/${run}`));
    const { reasons } = await ask('GET', `/v1/runs/${run}/why`);
    const shown = await why.innerText();
    return reasons.every(({ text, todo }) => shown.includes(text) && shown.includes(todo));
  }, 'the page to name the causes of the API');
  assert.equal((await runOf(run)).status, 'queued', 'nothing is lost, nothing is taken');
  await picture(page, 'operator-7-drained');
  // The audit log knows who did it.
  await follow(page, '.rail a:has-text("Audit log")');
  assert.match(await page.locator('tbody').innerText(), /drain worker/);
  assert.match(await page.locator('tbody').innerText(), /retry runs/);
  await picture(page, 'operator-8-audit');
  assert.deepEqual(page.said, []);
});
