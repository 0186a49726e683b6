// The events of a goal (or any other agentable), complete and in order, however often the connection breaks:
//
//   const stream = new HoustonStream(`${api}/v1/goals/${goal}/events`, { token });
//   for await (const { id, event } of stream) …                // `id` is a position: pass it as `after` to go on later
//
// The loop ends after the last event of the run (with `?follow=true`: never). It throws a HoustonProblem if Houston refuses, a
// StreamLost if it stays away for `tries` connections in a row, and the reason of `signal` if that is aborted. A connection that
// breaks is neither: the events after the last one are got over a new one. Leaving the loop never cancels the run.
//
// In browsers it goes on at once when its page is shown, or online, again. React Native: call `wake()` when AppState becomes
// `active`, and pass `fetch` of `expo/fetch`, since its own does not stream.

export type HoustonEvent = { type: string; [field: string]: any };
export type Received = { id: string; event: HoustonEvent };

export type StreamOptions = {
  /** A client token, a JWT or an API key, or what gets one; it is called again with `true` when Houston says 401. */
  token: string | ((refused: boolean) => string | Promise<string>);
  /** The `id` of the last event that is known. */
  after?: string;
  signal?: AbortSignal;
  fetch?: typeof globalThis.fetch;
  /** How many connections in a row may fail; no limit without. */
  tries?: number;
  /** Ms without a byte after which the connection is taken for dead: Houston sends one at least every 8 s. */
  silence?: number;
  /** Ms before connection number `failures` in a row is replaced. */
  pause?: (failures: number) => number;
  /** Is told whether events arrive, for a sign on the screen. */
  onConnected?: (isConnected: boolean) => void;
};

/** Houston's answer to a request that it refuses: `code` is stable, `problem` has where and why. */
export class HoustonProblem extends Error {
  status: number;
  code: string;
  problem: Record<string, any>;

  constructor(status: number, problem: Record<string, any>) {
    super(`${status} ${problem.code ?? ''}: ${problem.detail ?? problem.title ?? 'refused'}`);
    [this.status, this.code, this.problem] = [status, problem.code ?? 'unknown', problem];
  }
}

export class StreamLost extends Error {}

export class HoustonStream implements AsyncIterable<Received> {
  /** The `id` of the last event. */
  position: string | undefined;
  #url: string;
  #options: StreamOptions;
  #refused = false;
  #retryMs = 0;
  #last = '';
  #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  #endPause: (() => void) | undefined;

  constructor(url: string, options: StreamOptions) {
    [this.#url, this.#options, this.position] = [url, options, options.after];
  }

  /** Replaces the connection now. A phone that was asleep may not know that its old one is dead. */
  wake(): void {
    this.#endPause?.();
    this.#reader?.cancel().catch(() => {});
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Received, void, void> {
    const { tries = Infinity, signal, onConnected } = this.#options;
    const forget = this.#watchPage();
    try {
      for (let failures = 0; failures <= tries; failures += 1) {
        if (failures > 0) await this.#pause(failures);
        const response = await this.#connect();
        if (response?.status === 204) return;
        if (!response?.body) continue;
        onConnected?.(true);
        failures = 0;
        let isOver = false;
        for await (const received of this.#events(response.body)) {
          isOver = received.event.type === 'RUN_FINISHED' || received.event.type === 'RUN_ERROR';
          yield received;
          signal?.throwIfAborted();
        }
        signal?.throwIfAborted();
        if (isOver && !new URL(this.#url, 'http://_').searchParams.has('follow')) return;
        onConnected?.(false);
      }
      throw new StreamLost(`no connection to ${new URL(this.#url, 'http://_').pathname} in ${tries + 1} tries`);
    } finally {
      forget();
      await this.#reader?.cancel().catch(() => {});
    }
  }

  /** A response with events, or 204; none if it is to be tried again. */
  async #connect(): Promise<Response | undefined> {
    const { token, signal, fetch = globalThis.fetch } = this.#options;
    const bearer = typeof token === 'string' ? token : await token(this.#refused);
    const headers: Record<string, string> = { Accept: 'text/event-stream', Authorization: `Bearer ${bearer}` };
    if (this.position !== undefined) headers['Last-Event-ID'] = this.position;
    const response = await fetch(this.#url, { headers, signal }).catch(() => signal?.throwIfAborted());
    const expired = response?.status === 401 && typeof token === 'function' && !this.#refused;
    this.#refused = expired;
    if (!response || response.ok) return response || undefined;
    const text = await response.text().catch(() => '');
    this.#retryMs = 1_000 * (Number(response.headers.get('retry-after')) || 0);
    if (expired || response.status === 429 || response.status >= 500) return undefined;
    throw new HoustonProblem(response.status, text.startsWith('{') ? JSON.parse(text) : { detail: text });
  }

  /** The events of one connection, until it ends or breaks. */
  async *#events(body: ReadableStream<Uint8Array>): AsyncGenerator<Received, void, void> {
    const [reader, decoder] = [(this.#reader = body.getReader()), new TextDecoder()];
    for (let pending = ''; ; ) {
      const timer = setTimeout(() => this.wake(), this.#options.silence ?? 25_000);
      const piece = await reader.read().catch(() => undefined);
      clearTimeout(timer);
      if (!piece || piece.done) return;
      const frames = (pending + decoder.decode(piece.value, { stream: true })).split('\n\n');
      pending = frames.pop() ?? '';
      for (const frame of frames) {
        const fields = Object.fromEntries(frame.split('\n').map((line) => line.split(/: ?(.*)/s, 2)));
        if (fields.retry) this.#retryMs = Number(fields.retry) || 0;
        // An event that has arrived is not given out twice, whatever stands between here and Houston.
        const isKnown = fields.id === this.position && fields.data === this.#last;
        if (fields.data === undefined || isKnown) continue;
        [this.position, this.#last] = [fields.id, fields.data];
        yield { id: fields.id, event: JSON.parse(fields.data) };
      }
    }
  }

  #pause(failures: number): Promise<void> {
    const usual = Math.max(this.#retryMs, Math.min(30_000, 250 * 2 ** failures)) * (0.5 + Math.random() / 2);
    const ms = this.#options.pause?.(failures) ?? usual;
    return new Promise((end) => {
      setTimeout((this.#endPause = end), ms);
      this.#options.signal?.addEventListener('abort', () => end(), { once: true });
    });
  }

  #watchPage(): () => void {
    const { document, window } = globalThis as any;
    const seen = () => document?.visibilityState !== 'hidden' && this.wake();
    const pages = [[document, 'visibilitychange'], [window, 'online']];
    pages.forEach(([page, name]) => page?.addEventListener?.(name, seen));
    return () => pages.forEach(([page, name]) => page?.removeEventListener?.(name, seen));
  }
}
