// Houston's streams in a page of another origin: the browser's own EventSource, fetch-event-source, and the stream helper.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { after, before, test } from 'node:test';
import { chromium } from 'playwright-core';
import { clientToken, newConversation, post, thread, url } from './houston.mjs';
import { cutter } from './cutter.mjs';
import { installed } from './programs.mjs';
import { Received } from './received.mjs';

const { program, skip } = installed('chromium');
// One of `cors.origins`. Nothing listens there: its files are given to the browser by `serve`.
const page = 'http://app.localhost:5173';
const library = new URL('node_modules/@microsoft/fetch-event-source/lib/esm/', import.meta.url);
const helper = new URL('../../../api/clients/houston-stream.ts', import.meta.url);
let browser;
before(async () => {
  // A person would be asked whether a page of the internet may reach this machine.
  const args = ['--no-sandbox', '--disable-features=LocalNetworkAccessChecks'];
  if (!skip) browser = await chromium.launch({ executablePath: program, args });
});
after(() => browser?.close());

async function serve(route) {
  const { pathname } = new URL(route.request().url());
  const script = (body) => route.fulfill({ contentType: 'text/javascript', body });
  if (pathname === '/helper') return script(stripTypeScriptTypes(readFileSync(helper, 'utf8')));
  // The library's own imports have no suffix.
  if (pathname.startsWith('/library/')) return script(readFileSync(new URL(`${pathname.slice(9)}.js`, library), 'utf8'));
  return route.fulfill({ contentType: 'text/html', body: '<!doctype html><title>app</title>' });
}

// Runs `listen(address, token)` in the page until it resolves to the events: a list of `[id, data]`.
async function inPage(t, listen, address, token) {
  const context = await browser.newContext();
  t.after(() => context.close());
  const tab = await context.newPage();
  const said = [];
  tab.on('pageerror', (error) => said.push(String(error)));
  await tab.route(`${page}/**`, serve);
  await tab.goto(page);
  const events = await tab.evaluate(listen, [address, token]);
  assert.deepEqual(said, []);
  const received = new Received();
  for (const [id, data] of events) received.add(id, JSON.parse(data));
  return received;
}

// An EventSource cannot send headers, and does not say that a 204 has ended it: it is closed for good then, as it is when the
// head of a response breaks off.
const withEventSource = ([address, token]) =>
  new Promise((over) => {
    const events = [];
    const withToken = new URL(address);
    withToken.searchParams.set('access_token', token);
    const source = new EventSource(withToken);
    source.onmessage = ({ lastEventId, data }) => events.push([lastEventId, data]);
    source.onerror = () => source.readyState === EventSource.CLOSED && over(events);
  });

// It takes the id of an event before the event is whole, so that it loses one within which a connection breaks.
async function withFetchEventSource([address, token]) {
  const { fetchEventSource } = await import('/library/index');
  const events = [];
  const over = new Error('over');
  const reading = fetchEventSource(address, {
    headers: { Authorization: `Bearer ${token}` },
    openWhenHidden: true,
    async onopen(response) {
      if (response.status === 204) throw over;
      if (!response.ok) throw new Error(`${response.status}`);
    },
    onmessage: ({ id, data }) => events.push([id, data]),
    // It takes the end of a response for the end of the stream.
    onclose: () => {
      throw new Error('go on');
    },
    onerror: (error) => {
      if (error === over) throw error;
    },
  });
  await reading.catch((error) => {
    if (error !== over) throw error;
  });
  return events;
}

async function withHelper([address, token]) {
  const { HoustonStream } = await import('/helper');
  const events = [];
  for await (const { id, event } of new HoustonStream(address, { token, pause: () => 20 })) {
    events.push([id, JSON.stringify(event)]);
  }
  return events;
}

for (const [name, listen] of Object.entries({ withEventSource, withFetchEventSource, withHelper })) {
  test(`chromium: 20 forced drops ${name}: no gap, no duplicate, and 204 at the end`, { skip }, async (t) => {
    const conversation = await newConversation();
    const token = await clientToken(conversation);
    const proxy = await cutter(url, { cuts: 20, longest: 2_000, seed: 41, whole: listen !== withHelper });
    t.after(() => proxy.close());
    for (let since = 0; proxy.cuts < 20; ) {
      const posted = await post(conversation, '/sim chunks=300 delay_ms=5');
      const received = await inPage(t, listen, proxy.url + posted.events_url, token);
      await received.assertWhole(conversation, since);
      assert.equal(received.assembled()[0].content.split(' ').length, 300);
      since = (await thread(conversation)).at(-1).seq;
    }
  });
}

test('chromium: EventSource gives up on a wrong token', { skip }, async (t) => {
  const conversation = await newConversation();
  await post(conversation, 'hello');
  const wrong = await inPage(t, withEventSource, `${url}${conversation.path}/events`, 'houc_no');
  assert.deepEqual(wrong.events, []);
});
