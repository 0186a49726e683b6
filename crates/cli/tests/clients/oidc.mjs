// Signing in to the console with a real identity provider: oidc-provider, which is this program, at PROVIDER_PORT.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import Provider from 'oidc-provider';
import { assertAccessible, at, follow, launch, picture, skip, silent } from './console.mjs';
import { ask, newConversation, post, runOf, until } from './houston.mjs';

const PEOPLE = {
  ada: { email: 'ada@example.org', groups: ['everybody', 'ops'] },
  vic: { email: 'vic@example.org', groups: ['staff'] },
  eve: { email: 'eve@example.org', groups: ['everybody'] },
};

let browser;
let server;

before(async () => {
  const issuer = `http://127.0.0.1:${process.env.PROVIDER_PORT}`;
  const provider = new Provider(issuer, {
    clients: [{ client_id: 'houston', client_secret: process.env.HOUSTON_CONSOLE_OIDC_SECRET, redirect_uris: [at('/sign-in-with/back')] }],
    scopes: ['openid', 'email', 'groups'],
    claims: { openid: ['sub'], email: ['email'], groups: ['groups'] },
    findAccount: (_, id) => PEOPLE[id] && { accountId: id, claims: () => ({ sub: id, ...PEOPLE[id] }) },
    pkce: { required: () => true },
    features: { devInteractions: { enabled: true } },
    cookies: { keys: ['a key of this test'] },
  });
  server = provider.listen(Number(process.env.PROVIDER_PORT), '127.0.0.1');
  if (!skip) browser = await launch();
});
after(async () => {
  await browser?.close();
  server.closeAllConnections();
  server.close();
});

// The page of a person who has said at the provider who they are, and let Houston know it.
async function signIn(t, name, path = '/runs') {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 } });
  t.after(() => context.close());
  // The pages of the provider ask for a font from elsewhere.
  await context.route((url) => url.hostname !== '127.0.0.1', (route) => route.abort());
  const page = await silent(context);
  page.on('request', (request) => {
    if (request.url().includes('/sign-in-with/back')) page.answered = request;
  });
  await page.goto(at(path));
  await follow(page, 'a:has-text("Sign in with")');
  await page.fill('input[name=login]', name);
  await page.fill('input[name=password]', 'any');
  await follow(page, 'button[type=submit]');
  await follow(page, 'button[type=submit]');
  await page.waitForURL(at('/**'));
  // What those pages have said is not the console's.
  page.said.length = 0;
  return page;
}

const role = (page) => page.locator('.bar .tag[title]').innerText();

test('oidc: a group makes an operator, and the audit log says who it was', { skip, timeout: 300_000 }, async (t) => {
  const page = await signIn(t, 'ada');
  await page.waitForURL(at('/runs'));
  assert.equal(await role(page), 'operator');
  const { run_id: run } = await post(await newConversation(), '/sim chunks=20000 delay_ms=5');
  await page.goto(at(`/runs/${run}`));
  await follow(page, 'button:has-text("Cancel run")');
  await until(async () => (await runOf(run)).status === 'cancelled', 'the cancellation');
  await page.goto(at('/audit'));
  const row = page.locator('tbody tr', { hasText: 'cancel run' });
  assert.match(await row.innerText(), /console: ada@example\.org \(ada\)/);
  await picture(page, 'oidc-audit');
  assert.deepEqual(page.said, []);

  // Admins see the key of the session, and end it with the key. Houston's own key is an admin's.
  const { data: keys } = await ask('GET', '/v1/keys?active=true');
  const key = keys.find(({ name }) => name === 'console: ada@example.org (ada)');
  assert.deepEqual(key.scopes, ['read', 'post', 'operate']);
  assert.ok(key.last_used_at && Date.parse(key.expires_at) > Date.now(), JSON.stringify(key));
  await ask('POST', `/v1/keys/${key.id}/revoke`);
  await until(async () => {
    await page.goto(at('/runs'));
    return page.url().includes('/sign-in');
  }, 'the end of the session');
});

test('oidc: another group makes a viewer, and who is in none is refused', { skip, timeout: 300_000 }, async (t) => {
  const viewer = await signIn(t, 'vic', '/threads');
  await viewer.waitForURL(at('/threads'));
  assert.equal(await role(viewer), 'viewer');
  assert.equal(await viewer.locator('.rail a[href$="/keys"]').count(), 0);
  assert.equal((await viewer.goto(at('/keys'))).status(), 403);

  // The key was made for the session, and ends with it.
  await viewer.goto(at('/threads'));
  await viewer.click('button:has-text("Sign out")');
  const { data: all } = await ask('GET', '/v1/keys');
  assert.equal(all.find(({ name }) => name === 'console: vic@example.org (vic)').status, 'revoked');

  const stranger = await signIn(t, 'eve');
  await stranger.waitForURL(/sign-in-with\/back/);
  assert.match(await stranger.locator('[role=alert]').innerText(), /eve@example\.org \(eve\) is in no group/);
  await assertAccessible(stranger, 'a refused sign-in');
  await picture(stranger, 'oidc-refused');
  await stranger.goto(at('/threads'));
  assert.match(stranger.url(), /\/sign-in\?next=/);
  const { data: keys } = await ask('GET', '/v1/keys');
  assert.ok(!keys.some(({ name }) => name.includes('eve')), 'no key was made');

  // A code with the state of nobody, and one that was used.
  for (const query of ['code=1&state=2', '', 'error=access_denied']) {
    const response = await stranger.goto(at(`/sign-in-with/back?${query}`));
    assert.equal(response.status(), 403);
    assert.match(await stranger.locator('[role=alert]').innerText(), /begin again/);
  }
});

test('oidc: a code is used once, by the browser that began', { skip, timeout: 300_000 }, async (t) => {
  const page = await signIn(t, 'ada');
  await page.waitForURL(at('/runs'));
  const { cookie } = await page.answered.allHeaders();
  const again = async (headers) => {
    const answer = await fetch(page.answered.url(), { headers, redirect: 'manual' });
    const cookies = answer.headers.getSetCookie();
    assert.ok(!cookies.some((of) => of.startsWith('houston_console=')), `${cookies}`);
    return { status: answer.status, text: await answer.text() };
  };
  const elsewhere = await again({});
  assert.equal(elsewhere.status, 403);
  assert.match(elsewhere.text, /begin again/);
  assert.match(cookie, /houston_console_sign_in=/);
  const repeated = await again({ cookie });
  assert.equal(repeated.status, 502);
  assert.match(repeated.text, /invalid_grant/);
});
