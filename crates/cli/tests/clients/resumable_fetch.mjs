// A `fetch` for streams that must arrive whole: `new HttpAgent({ url, fetch: resumableFetch() })`.
//
// AG-UI's client cannot resume a stream: to it, a broken connection is a failed run. This `fetch` hides the break. It
// passes on whole events only, stores the `id` of the last one, and requests the events after it. The body ends when
// the server closes it after the end of a run, or answers 204 (no more events).

const backoff = (failures) => Math.random() * Math.min(2_000, 50 * 2 ** failures);

export function resumableFetch({ fetch = globalThis.fetch, pause = backoff, tries = 12 } = {}) {
  return async (url, init = {}) => {
    let lastId;
    let runIsOver = false;
    let failures = 0;

    const connect = async () => {
      for (;;) {
        if (failures > 0) await new Promise((wake) => setTimeout(wake, pause(failures)));
        const headers = new Headers(init.headers);
        if (lastId !== undefined) headers.set('Last-Event-ID', lastId);
        try {
          const response = await fetch(url, { ...init, headers });
          // A server that shuts down is soon replaced by another.
          if (response.status < 500 || ++failures > tries) return response;
          await response.body?.cancel();
        } catch (error) {
          if (init.signal?.aborted || ++failures > tries) throw error;
        }
      }
    };

    const remember = (text) => {
      for (const line of text.split('\n')) {
        if (line.startsWith('id:')) lastId = line.slice(3).trim();
        if (line.startsWith('data:')) runIsOver = endsRun(line.slice(5));
      }
    };

    const first = await connect();
    if (!first.ok || !first.body) return first;
    let reader = first.body.getReader();
    let pending = new Uint8Array();

    const pull = async (controller) => {
      for (;;) {
        let piece;
        try {
          piece = await reader.read();
        } catch (error) {
          if (init.signal?.aborted) throw error;
        }
        if (piece && !piece.done) {
          failures = 0;
          pending = joined(pending, piece.value);
          const end = endOfLastEvent(pending);
          if (end === 0) continue;
          const whole = pending.slice(0, end);
          pending = pending.slice(end);
          remember(new TextDecoder().decode(whole));
          controller.enqueue(whole);
          return;
        }
        if (piece?.done && runIsOver) return controller.close();
        failures += 1;
        pending = new Uint8Array();
        const next = await connect();
        if (next.status === 204) return controller.close();
        if (!next.ok) throw new Error(`the stream cannot be resumed: ${next.status} ${await next.text()}`);
        reader = next.body.getReader();
      }
    };
    const body = new ReadableStream({ pull, cancel: (reason) => reader.cancel(reason) });
    return new Response(body, { status: first.status, headers: first.headers });
  };
}

function endsRun(json) {
  try {
    return ['RUN_FINISHED', 'RUN_ERROR'].includes(JSON.parse(json).type);
  } catch {
    return false;
  }
}

function joined(first, second) {
  const both = new Uint8Array(first.length + second.length);
  both.set(first);
  both.set(second, first.length);
  return both;
}

// The end of the last blank line; 0 when there is none.
function endOfLastEvent(bytes) {
  for (let at = bytes.length - 1; at > 0; at -= 1) {
    if (bytes[at] === 10 && bytes[at - 1] === 10) return at + 1;
  }
  return 0;
}
