// The console in a browser: each screen with what an installation has, in four looks.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { assertAccessible, at, follow, launch, open as opened, picture, skip } from './console.mjs';
import { ask, cancel, headers, newConversation, post, runOf, until, url } from './houston.mjs';

// Whatever executes it changes the page's title.
const HOSTILE = `"><img src=x onerror="document.title='hacked'"><script>document.title='hacked'</script>{{7*7}}'`;
const ENDED = ['completed', 'message_sent', 'failed', 'cancelled'];

let browser;
let seeded;

before(async () => {
  if (skip) return;
  browser = await launch();
  seeded = await seed();
});
after(() => browser?.close());

const ended = (run) => until(async () => ENDED.includes((await runOf(run)).status), `the end of ${run}`);

// A thread with a tool call, a failure and hostile texts, a question, and a webhook.
async function seed() {
  const user = (await ask('POST', '/v1/users', { name: HOSTILE })).id;
  const goal = await ask('POST', '/v1/goals', { user_id: user, title: HOSTILE, description: HOSTILE });
  const thread = { id: goal.id, path: `/v1/goals/${goal.id}`, user };
  const noted = await post(thread, `Please create a note: ${HOSTILE}`);
  await ended(noted.run_id);
  const failed = await post(thread, '/sim fail=authentication_error');
  await ended(failed.run_id);
  // Deleting a note needs a person's approval.
  const [note] = (await ask('GET', `${thread.path}/notes`)).data;
  const asking = await post(thread, `/sim tool=delete_note args=${JSON.stringify({ note_id: note.id })}`);
  await until(async () => (await runOf(asking.run_id)).status === 'waiting', 'a question');
  const agent = { name: `A ${HOSTILE}`.slice(0, 100), kind: 'goal', description: HOSTILE, role: 'You help.' };
  const { id: agentId } = await ask('POST', '/v1/agents', agent);
  const address = `http://127.0.0.1:${process.env.HOUSTON_HOOKS_PORT ?? 9}/hook`;
  const webhook = await ask('POST', '/v1/webhooks', { url: address, topics: ['run.*'], description: HOSTILE });
  const tell = { type: 'tell', agentable_id: goal.id, instructions: HOSTILE };
  const when = { type: 'cron', cron: '30 7 * * 1-5', zone: 'Europe/Berlin' };
  const trigger = await ask('POST', `/v1/users/${user}/triggers`, { name: HOSTILE.slice(0, 100), when, then: tell });
  const step = { id: 'hello', title: HOSTILE.slice(0, 100), type: 'llm', prompt: `Say hello. ${HOSTILE}`.replaceAll('{{', '') };
  const document = { v: 1, goal: HOSTILE.replaceAll('{{', ''), steps: [step], output: '{{ hello.result }}' };
  const { id: plan } = await ask('POST', `${thread.path}/plans`, { document });
  await until(async () => (await ask('GET', `/v1/plans/${plan}`)).ended_at, 'the end of the plan');
  return { plan, thread, user, trigger: trigger.id, agent: agentId, noted: noted.run_id, failed: failed.run_id, asking: asking.run_id, webhook: webhook.id };
}

const open = (t, options) => opened(browser, t, options);

function screens() {
  const { plan, thread, user, noted, failed, webhook, trigger, agent } = seeded;
  const own = (path) => path.replace(/[/?=&:].*/, '');
  const paths = ['', '/runs', '/runs?q=status:failed+nonsense', `/runs/${noted}`, `/runs/${noted}?contents=true`, `/runs/${noted}/calls/2`, `/runs/${failed}`, '/threads'];
  paths.push('/threads?kind=plan', `/threads/plan/${plan}`, `/threads/goal/${thread.id}`, `/threads/goal/${thread.id}/history`, '/waiting', '/users', `/users/${user}`, '/health', '/agents', `/agents/${agent}`, '/kinds', '/models', '/tools', '/webhooks');
  paths.push('/errors', '/usage', '/usage?hours=720', '/queues', '/workers', '/audit', '/keys', '/schedules', `/triggers/${trigger}`, `/webhooks/${webhook}`, '/runs/run_00000000000000000000000000000001', '/sign-in');
  return paths.map((path, nth) => ({ path, name: `${String(nth).padStart(2, '0')}-${own(path.slice(1)) || 'overview'}` }));
}

const LOOKS = [[1280, 'light'], [1280, 'dark'], [390, 'dark'], [390, 'light']];

// In the page: the elements that reach beyond the window.
function tooWide() {
  const beyond = [...document.querySelectorAll('body *')].filter((element) => element.getBoundingClientRect().right > innerWidth);
  return beyond.slice(0, 5).map((element) => element.outerHTML.slice(0, 120)).join('\n');
}

// Looks at each of these pages in each look.
async function lookAt(t, pages) {
  const page = await open(t);
  for (const { path, name } of pages) {
    await page.setViewportSize({ width: 1280, height: 860 });
    await page.emulateMedia({ colorScheme: 'light' });
    const response = await page.goto(at(path));
    const expected = path.includes('run_0000') ? 404 : 200;
    assert.equal(response.status(), expected, path);
    // axe holds the page's thread: on a busy machine for longer than a refresh of the page may take.
    await page.evaluate(() => { if (globalThis.htmx) globalThis.htmx.config.defaultTimeout = 0; });
    for (const [width, colorScheme] of LOOKS) {
      await page.setViewportSize({ width, height: 860 });
      await page.emulateMedia({ colorScheme });
      // The window has its new size before the page is laid out for it.
      const fits = await page.waitForFunction(() => document.documentElement.scrollWidth <= innerWidth, null, { timeout: 10_000 }).catch(() => undefined);
      if (!fits) assert.fail(`${path} is too wide for ${width} px: ${await page.evaluate(tooWide)}`);
      // axe takes most of the time: all of its rules once, and in the other look those that it may change.
      const what = `${path} ${colorScheme} ${width}`;
      if (width === 1280 && colorScheme === 'light') await assertAccessible(page, what);
      if (width === 390 && colorScheme === 'dark') await assertAccessible(page, what, ['color-contrast', 'scrollable-region-focusable', 'target-size']);
      await picture(page, `${name}-${width}-${colorScheme}`);
    }
    const title = await page.title();
    assert.match(title, / · Houston$/, path);
    assert.notEqual(title, 'hacked');
    const said = page.said.splice(0).filter((text) => expected === 200 || !text.includes('404'));
    assert.deepEqual(said, [], path);
  }
}

test('screens: every screen in four looks', { skip }, async (t) => {
  const all = screens();
  // Two windows at a time: while one is drawn, the other is asked for.
  await Promise.all([0, 1].map((part) => lookAt(t, all.filter((_, nth) => nth % 2 === part))));
});

test('screens: a run refreshes itself and is followed live', { skip }, async (t) => {
  const page = await open(t);
  const { run_id: run } = await post(await newConversation(), '/sim chunks=400 delay_ms=20');
  await page.goto(at(`/runs/${run}`));
  const said = page.locator('event-tail li:has(.name:text-is("TEXT_MESSAGE_CONTENT")) span:last-child').first();
  await said.waitFor({ state: 'attached' });
  assert.equal(await said.textContent(), '', 'contents are hidden');
  await page.locator('.head .status:has-text("message sent")').waitFor({ timeout: 120_000 });
  const names = await page.locator('.step .name').allInnerTexts();
  assert.ok(names.some((name) => name.includes('Attempt 1')) && names.some((name) => name.includes('simulated')), `${names}`);
  const { run_id: long } = await post(await newConversation(), '/sim chunks=20000 delay_ms=5');
  await page.goto(at(`/runs/${long}?contents=true`));
  await until(async () => (await said.textContent()) !== '', 'the text, where contents are shown');
  await follow(page, 'button:has-text("Cancel run")');
  assert.deepEqual(page.said, []);
});

test('screens: steps are reached and opened with the keyboard', { skip }, async (t) => {
  const page = await open(t);
  await page.goto(at(`/runs/${seeded.noted}?contents=true`));
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Skip to content');
  await page.locator('.step summary').first().focus();
  for (const key of ['End', 'ArrowUp', 'Home', 'ArrowDown', 'ArrowRight']) await page.keyboard.press(key);
  assert.equal(await page.locator('details.step[open]').count(), 1);
  const texts = await page.locator('.value-text').allTextContents();
  assert.ok(texts.some((text) => text.includes('onerror')), 'hostile arguments are text');
  const runs = await page.locator('.value-text').first().evaluate((text) => globalThis.getComputedStyle(text).unicodeBidi);
  assert.equal(runs, 'plaintext', 'each paragraph runs as its own script does');
});

test('screens: lists and forms work without JavaScript', { skip }, async (t) => {
  const page = await open(t, { javaScriptEnabled: false });
  const conversation = await newConversation();
  const { run_id: run } = await post(conversation, '/sim chunks=20000 delay_ms=5');
  await page.goto(at('/threads'));
  assert.ok((await page.locator('tbody tr').count()) >= 2);
  await page.goto(at('/health'));
  const changes = await page.locator('section:has(h2:text-is("Changes")) tbody tr').allInnerTexts();
  assert.ok(changes.some((text) => /ok\s+redis\s+answers/.test(text)), `${changes}`);
  assert.ok(changes.some((text) => text.includes('<img src=x')), `${changes}`);
  await page.goto(at(`/runs/${run}`));
  await follow(page, 'button:has-text("Cancel run")');
  await until(async () => (await runOf(run)).status === 'cancelled', 'the cancellation');
  const { run_id: other } = await post(conversation, '/sim chunks=20000 delay_ms=5');
  await page.goto(at('/runs'));
  await page.fill('input[type=search]', `user:${conversation.user} status:queued,running`);
  await follow(page, 'button:has-text("Search")');
  await page.waitForURL(/q=user/);
  await follow(page, 'button:has-text("Cancel …")');
  await follow(page, 'button:has-text("Cancel: 1 run")');
  await until(async () => (await runOf(other)).status === 'cancelled', 'the cancellation of a search');
  await page.goto(at('/audit'));
  await page.fill('input[type=search]', 'operation:cancel_runs');
  await follow(page, 'button:has-text("Search")');
  await page.waitForURL(/q=operation/);
  const operations = await page.locator('tbody td:nth-child(2)').allInnerTexts();
  assert.deepEqual([...new Set(operations)], ['cancel runs']);
  await page.goto(at('/usage?hours=168'));
  assert.ok((await page.locator('section:has(h2:text-is("Days")) tbody tr').count()) >= 1);
  await page.goto(at(`/threads/goal/${conversation.id}`));
  await page.fill('#content', 'Posted by a form');
  await follow(page, 'button:has-text("Post")');
  assert.ok((await page.locator('.message.user .body').allInnerTexts()).includes('Posted by a form'));
  await follow(page, 'button:has-text("Sign out")');
  assert.equal(page.url(), at('/sign-in'));
  await page.goto(at('/runs'));
  assert.match(page.url(), /sign-in\?next=%2Fconsole%2Fruns$/);
});

test('screens: a question is answered with its form', { skip }, async (t) => {
  const page = await open(t);
  const question = await until(async () => {
    const { data } = await ask('GET', '/v1/questions?limit=100');
    return data.find(({ run_id }) => run_id === seeded.asking);
  }, 'the question');
  await page.goto(at('/waiting'));
  await follow(page, `a[href$="${question.id}"]`);
  await assertAccessible(page, 'a question');
  await picture(page, 'question-1280-light', { fullPage: true });
  await follow(page, 'button:has-text("Approve") >> nth=0');
  const { state } = await ask('GET', `/v1/questions/${question.id}`);
  assert.equal(state, 'answered', await page.locator('main').innerText());
});

test('screens: a lane is drained, and goes on', { skip }, async (t) => {
  const page = await open(t);
  const { run_id: run } = await post(await newConversation(), '/sim chunks=20000 delay_ms=5');
  await until(async () => (await runOf(run)).status === 'running', 'the run to be at work');
  const lanes = async () => (await ask('GET', '/v1/queues')).data;
  // What earlier tests have begun may still come to its end.
  const { lane } = await until(async () => {
    const busy = (await lanes()).filter(({ running }) => running > 0);
    return busy.length === 1 && busy[0].running === 1 && busy[0];
  }, 'the run to be the only one at work');
  t.after(() => ask('POST', `/v1/queues/${lane}/resume`, {}));
  await page.goto(at('/queues'));
  const row = page.locator('tbody tr', { has: page.locator(`td:text-is("${lane}")`) });
  await row.locator('button:has-text("Drain")').click();
  await page.waitForURL(new RegExp(`/queues\\?drain=${lane}$`));
  await page.locator('.note', { hasText: `The lane ${lane} is paused. Runs of it still at work: 1.` }).waitFor();
  assert.match(await row.innerText(), /draining, 1 still at work/);
  assert.ok((await lanes()).find((of) => of.lane === lane).paused);
  await cancel(run);
  await page.locator('.note', { hasText: `The lane ${lane} is drained` }).waitFor();
  await row.locator('button:has-text("Resume")').click();
  await row.locator('button:has-text("Drain")').waitFor();
  assert.equal(await page.locator('.note', { hasText: lane }).count(), 0);
  assert.ok(!(await lanes()).find((of) => of.lane === lane).paused);
  assert.deepEqual(page.said, []);
});

// One text for each field, so that the test knows which of them a page shows.
const hostile = (field) => `${field} <img src=x onerror=document.title='hacked'>`;

async function seedFields() {
  const user = (await ask('POST', '/v1/users', { name: hostile('user'), external_id: hostile('external') })).id;
  const agent = { name: hostile('agent'), kind: 'goal', description: hostile('agent text'), role: hostile('role') };
  const agent_id = (await ask('POST', '/v1/agents', agent)).id;
  const team = { name: hostile('team'), description: hostile('team text'), agents: [agent_id], router: { by: 'model' } };
  await ask('POST', '/v1/teams', team);
  const goal = await ask('POST', '/v1/goals', { user_id: user, title: hostile('title'), description: hostile('goal text'), agent_id });
  const thread = { id: goal.id, path: `/v1/goals/${goal.id}` };
  // The model calls a tool of this name, which nobody has.
  const { run_id: run } = await post(thread, `${hostile('message')}\n/sim tool=<img/src=x/onerror=document.title='hacked'> args=${JSON.stringify({ x: hostile('argument') })}`);
  await until(async () => (await runOf(run)).ended_at, `the end of ${run}`);
  const when = { type: 'cron', cron: '30 7 * * 1-5', zone: 'Europe/Berlin' };
  const tell = { type: 'tell', agentable_id: goal.id, instructions: hostile('trigger text') };
  const trigger = (await ask('POST', `/v1/users/${user}/triggers`, { name: hostile('trigger'), when, then: tell })).id;
  const address = `http://127.0.0.1:${process.env.HOUSTON_HOOKS_PORT ?? 9}/hook?${hostile('url')}`;
  const webhook = (await ask('POST', '/v1/webhooks', { url: address, topics: ['run.*'], description: hostile('webhook') })).id;
  // Refused, and recorded with what was named.
  await fetch(`${url}/v1/mcp-servers/${encodeURIComponent(hostile('target'))}`, { method: 'DELETE', headers });
  return { user, goal: goal.id, run, trigger, webhook };
}

test('screens: hostile text is text in every field', { skip }, async (t) => {
  const { user, goal, run, trigger, webhook } = await seedFields();
  const page = await open(t);
  for (const [path, ...fields] of [
    ['', 'title'],
    ['/users', 'user', 'external'],
    [`/users/${user}`, 'user', 'trigger'],
    ['/threads', 'title'],
    [`/threads/goal/${goal}`, 'title', 'goal text', 'message'],
    [`/threads/goal/${goal}/history`],
    ['/runs', 'title'],
    [`/runs?q=${encodeURIComponent(hostile('search'))}`],
    [`/runs/${run}?contents=true`],
    ['/agents', 'agent', 'agent text', 'team', 'team text'],
    ['/usage', 'user', 'agent'],
    [`/triggers/${trigger}`, 'trigger', 'trigger text'],
    ['/webhooks', 'webhook', 'url'],
    [`/webhooks/${webhook}`, 'url'],
    ['/waiting'],
    ['/tools'],
    ['/keys', 'key'],
    ['/audit', 'key', 'target'],
    ['/health', 'check'],
  ]) {
    await page.goto(at(path));
    const text = await page.locator('main').textContent();
    for (const field of fields) assert.ok(text.includes(hostile(field)), `${path} does not show the ${field}`);
    assert.equal(await page.locator('main img').count(), 0, `${path}: a text has become an element`);
    assert.match(await page.title(), / · Houston$/, path);
  }
  assert.deepEqual(page.said, []);
});
