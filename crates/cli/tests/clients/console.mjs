// The console in a browser, for its tests: a page that is signed in and whose console must stay silent.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';
import { url } from './houston.mjs';
import { installed } from './programs.mjs';

const { program, skip } = installed('chromium');
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const pictures = process.env.CONSOLE_PICTURES ?? new URL('../../../../target/console', import.meta.url).pathname;

export { skip };
export const at = (path) => `${process.env.CONSOLE_URL ?? url}/console${path}`;
export const launch = () => chromium.launch({ executablePath: program, args: ['--no-sandbox'] });

// A page that remembers what its console has said.
export async function silent(context) {
  const page = await context.newPage();
  page.said = [];
  page.on('console', (message) => ['error', 'warning'].includes(message.type()) && page.said.push(message.text()));
  page.on('pageerror', (error) => page.said.push(String(error)));
  return page;
}

export async function open(browser, t, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, ...options });
  t.after(() => context.close());
  const page = await silent(context);
  await page.goto(at('/sign-in'));
  await page.fill('#key', process.env.HOUSTON_API_KEY);
  await page.click('button:has-text("Sign in")');
  await page.waitForURL(at(''));
  return page;
}

// Clicks what leads to another page, and waits until the page is whole: a click waits for its beginning only.
export async function follow(page, selector) {
  await page.click(selector);
  await page.waitForLoadState();
}

export async function picture(page, name, options = {}) {
  mkdirSync(pictures, { recursive: true });
  await page.screenshot({ path: `${pictures}/${name}.png`, ...options });
}

// With `rules`, only these: what other rules look at is the same in another colour scheme.
export async function assertAccessible(page, what, rules = []) {
  if (!(await page.evaluate(() => 'axe' in globalThis))) await page.evaluate(axe);
  const options = rules.length ? { runOnly: { type: 'rule', values: rules } } : {};
  const { violations } = await page.evaluate((asked) => globalThis.axe.run(document, { ...asked, resultTypes: ['violations'] }), options);
  const serious = violations.filter(({ impact }) => ['serious', 'critical'].includes(impact));
  const found = serious.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 160)).join(' ')}`);
  assert.deepEqual(found, [], what);
}
