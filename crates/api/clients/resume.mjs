// A `fetch` that hides broken connections from AG-UI's client: `new HttpAgent({ url, headers, fetch: resumableFetch() })`.
//
// It passes on whole events, keeps the id of the last one, and gets those after it from the address in `Location`. The request
// itself is repeated only while it has no answer, which is safe: Houston knows a message by its id. `token`, if given, is asked
// for a token before each connection, after a 401 with `true`. A page that is shown or online again resumes at once.
const backoff = (failures) => Math.random() * Math.min(5_000, 50 * 2 ** failures);
export function resumableFetch({ fetch = globalThis.fetch, token, tries = 12, silence = 25_000, pause = backoff } = {}) {
  return async (url, init = {}) => {
    let [failures, address, lastId, reader, decoder, pending, runIsOver, timer, goOn, refused] = [0];
    const wake = () => globalThis.document?.visibilityState !== 'hidden' && (goOn?.(), reader?.cancel().catch(() => {}));
    const pages = [[globalThis.document, 'visibilitychange'], [globalThis.window, 'online']];
    const stop = () => (clearTimeout(timer), pages.forEach(([page, name]) => page?.removeEventListener(name, wake)));
    const connect = async () => {
      for (;;) {
        if (failures > 0) await new Promise((go) => setTimeout((goOn = go), pause(failures)));
        const headers = new Headers(init.headers);
        if (token) headers.set('Authorization', `Bearer ${await token(refused)}`);
        if (lastId !== undefined) headers.set('Last-Event-ID', lastId);
        try {
          const response = await fetch(address || url, address ? { headers, signal: init.signal } : { ...init, headers });
          const busy = response.status >= 500 || (response.status === 429 && address);
          refused = response.status === 401 && token && !refused;
          if (!refused && (!busy || ++failures > tries)) return response;
          await response.body?.cancel();
        } catch (error) {
          if (init.signal?.aborted || ++failures > tries) throw error;
        }
      }
    };
    const read = (response) => ([reader, decoder, pending] = [response.body.getReader(), new TextDecoder(), '']);
    const pull = async (controller) => {
      for (;;) {
        timer = setTimeout(wake, silence); // Much longer than the pause between two heartbeats.
        const piece = await reader.read().catch(() => init.signal?.throwIfAborted());
        clearTimeout(timer);
        if (piece && !piece.done) {
          [failures, pending] = [0, pending + decoder.decode(piece.value, { stream: true })];
          const end = pending.lastIndexOf('\n\n') + 2;
          if (end < 2) continue;
          const whole = pending.slice(0, end);
          pending = pending.slice(end);
          for (const [, name, value] of whole.matchAll(/^(id|data):(.*)$/gm))
            if (name === 'id') lastId = value.trim();
            else runIsOver = /^RUN_(FINISHED|ERROR)$/.test(JSON.parse(value).type);
          return controller.enqueue(new TextEncoder().encode(whole));
        }
        const next = piece && runIsOver ? { status: 204 } : await connect(++failures);
        if (next.status === 204) return stop(), controller.close();
        if (!next.ok) throw new Error(`the stream cannot be resumed: ${next.status} ${await next.text()}`, stop());
        read(next);
      }
    };
    const first = await connect();
    if (!first.ok || !first.body) return first;
    address = first.headers.has('location') && new URL(first.headers.get('location'), first.url || url).href;
    read(first);
    pages.forEach(([page, name]) => page?.addEventListener(name, wake));
    return new Response(new ReadableStream({ pull, cancel: (why) => (stop(), reader.cancel(why)) }), first);
  };
}
