// `resume.mjs` against a server that cuts a stream at each of its bytes.
import assert from 'node:assert/strict';
import http from 'node:http';
import { after, before, test } from 'node:test';
import { resumableFetch } from '../../../api/clients/resume.mjs';

const frames = [
  'id: 1\nretry: 2000\ndata: {"type":"RUN_STARTED"}\n\n',
  'id: 1:0\ndata: {"type":"TEXT_MESSAGE_CONTENT","delta":"grüße\\n\\n"}\n\n',
  ':\nid: 1:8\ndata: {"type":"TEXT_MESSAGE_CONTENT","delta":"\u{1f680}"}\n\n',
  ':\n:\nid: 2\ndata: {"type":"RUN_FINISHED"}\n\n',
];
const positions = frames.map((frame) => /^id: (.*)$/m.exec(frame)[1]);
const plain = (stream) => stream.replace(/^:\n/gm, '');
const whole = plain(frames.join(''));
const fetchQuickly = resumableFetch({ pause: () => 0 });

// For each of the next connections, how many bytes of the response are passed on; Infinity is a clean end.
let lengths = [];
let requests = [];
const server = http.createServer((request, response) => {
  requests.push(request.headers['last-event-id']);
  const from = positions.indexOf(request.headers['last-event-id']) + 1;
  const length = lengths.length > 0 ? lengths.shift() : Infinity;
  if (length === 'refuse') return response.writeHead(503).end();
  if (from === frames.length) return response.writeHead(204).end();
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  const rest = Buffer.from(frames.slice(from).join(''));
  if (length >= rest.length) return response.end(rest);
  response.write(rest.subarray(0, length), () => response.destroy());
});
let url;

before(async () => {
  await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
  url = `http://127.0.0.1:${server.address().port}/`;
});
after(() => server.close());

test('resume: a cut at any byte is not seen', async () => {
  for (let cut = 0; cut < Buffer.byteLength(frames.join('')); cut += 1) {
    lengths = [cut, Math.floor(cut / 2)];
    const text = await (await fetchQuickly(url)).text();
    assert.equal(plain(text), whole, `cut at ${cut}`);
  }
});

test('resume: a clean end before the end of the run is a cut like any other, a 503 a moment of patience', async () => {
  const cleanly = http.createServer((request, response) => {
    const from = positions.indexOf(request.headers['last-event-id']) + 1;
    response.writeHead(200, { 'content-type': 'text/event-stream' }).end(frames[from]);
  });
  await new Promise((listening) => cleanly.listen(0, '127.0.0.1', listening));
  const text = await (await fetchQuickly(`http://127.0.0.1:${cleanly.address().port}/`)).text();
  cleanly.close();
  assert.equal(plain(text), whole);

  lengths = ['refuse', 60, 'refuse', 'refuse'];
  assert.equal(plain(await (await fetchQuickly(url)).text()), whole);
});

test('resume: what has ended is not asked for again, and 204 ends what was cut at its end', async () => {
  requests = [];
  await (await fetchQuickly(url)).text();
  assert.deepEqual(requests, [undefined]);

  const all = Buffer.byteLength(frames.join(''));
  requests = [];
  lengths = [all - 1];
  assert.equal(plain(await (await fetchQuickly(url)).text()), whole);
  assert.deepEqual(requests, [undefined, '1:8']);
});

test('resume: a server that stays away is an error in the end', async () => {
  const never = resumableFetch({ pause: () => 0, tries: 3 });
  lengths = [60, 'refuse', 'refuse', 'refuse', 'refuse'];
  await assert.rejects(async () => (await never(url)).text(), /cannot be resumed: 503/);
  lengths = [];
});
