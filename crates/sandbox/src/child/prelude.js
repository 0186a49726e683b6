// What a script finds besides the language. Evaluated once, before the script, and called with the functions of
// `host.rs`; returns what `script.rs` calls. Nothing here is a wall: a script that breaks it harms itself only. But what is
// used after the script has begun is taken beforehand, so that careless code does not break it.
(function (host, names, now, seedLow, seedHigh, maxText) {
  'use strict';
  const G = globalThis;
  const { apply, construct, defineProperty } = Reflect;
  const { freeze, create, keys } = Object;
  const { stringify, parse } = JSON;
  const { floor, max, min } = Math;
  const Arr = Array, Err = Error, Str = String, Num = Number, RealPromise = Promise, RealMap = Map, RealSet = Set;
  const RealDate = Date, RangeErr = RangeError, TypeErr = TypeError, Bytes = Uint8Array, View = ArrayBuffer.isView;
  const { slice, toWellFormed } = String.prototype;
  const { then } = Promise.prototype;
  const numberText = Number.prototype.toString;
  const fix = (name, value) => defineProperty(G, name, { value, writable: false, enumerable: false, configurable: false });
  const add = (name, value) => defineProperty(G, name, { value, writable: true, enumerable: false, configurable: true });
  const text = (value) => apply(toWellFormed, Str(value), []);

  // --- console

  let full = false;
  const brief = (value) => {
    try {
      switch (typeof value) {
        case 'string': return value;
        case 'bigint': return value + 'n';
        case 'function': return '[function ' + (value.name || 'without a name') + ']';
        case 'object': break;
        default: return Str(value);
      }
      if (value instanceof Err) return value.name + ': ' + value.message;
      if (value instanceof RealMap) return 'Map ' + stringify(Arr.from(value));
      if (value instanceof RealSet) return 'Set ' + stringify(Arr.from(value));
      return stringify(value) ?? Str(value);
    } catch {
      return '[a value without text]';
    }
  };
  const log = (level) => (...values) => {
    if (full) return;
    let line = '';
    for (let i = 0; i < values.length && line.length <= maxText; i++) line += (i ? ' ' : '') + brief(values[i]);
    full = host.log(level, text(apply(slice, line, [0, maxText + 1])));
  };
  const print = log('log');
  fix('console', freeze({
    debug: log('debug'), log: print, info: log('info'), warn: log('warn'), error: log('error'),
    dir: print, table: print, trace: log('debug'),
    assert: (held, ...values) => { if (!held) log('error')('assertion failed', ...values); },
  }));

  // --- time and randomness: the same in every run of the same request

  const start = now;
  function Clock(...values) {
    if (!new.target) return new RealDate(now).toString();
    return construct(RealDate, values.length ? values : [now], new.target);
  }
  defineProperty(Clock, 'name', { value: 'Date' });
  defineProperty(Clock, 'length', { value: 7 });
  defineProperty(Clock, 'prototype', { value: RealDate.prototype, writable: false });
  Clock.now = () => now;
  Clock.parse = RealDate.parse;
  Clock.UTC = RealDate.UTC;
  // The real clock is reachable from every date otherwise.
  defineProperty(RealDate.prototype, 'constructor', { value: Clock, writable: false, configurable: false });
  fix('Date', Clock);
  fix('performance', freeze({ timeOrigin: start, now: () => now - start }));

  // sfc32
  let a = seedLow | 0, b = seedHigh | 0, c = 0x9e3779b9 | 0, d = 1;
  const word = () => {
    const sum = (((a + b) | 0) + d) | 0;
    d = (d + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (((c << 21) | (c >>> 11)) + sum) | 0;
    return sum >>> 0;
  };
  for (let i = 0; i < 15; i++) word();
  Math.random = () => ((word() >>> 5) * 67108864 + (word() >>> 6)) / 9007199254740992;
  const hex = (value) => apply(slice, apply(numberText, value + 4294967296, [16]), [1]);
  fix('crypto', freeze({
    randomUUID: () => {
      const h = hex(word()) + hex(word()) + hex(word()) + hex(word());
      const part = (from, to) => apply(slice, h, [from, to]);
      return part(0, 8) + '-' + part(8, 12) + '-4' + part(13, 16) + '-' + '89ab'[word() & 3] + part(17, 20) + '-' + part(20, 32);
    },
    getRandomValues: (array) => {
      for (let i = 0; i < array.length; i++) array[i] = typeof array[i] === 'bigint' ? BigInt(word()) : word();
      return array;
    },
  }));

  // --- timers on a clock that stands still while code runs and jumps to the next timer when nothing else is left

  let timers = [], lastTimer = 0;
  const timer = (repeat) => (f, delay, ...values) => {
    if (typeof f !== 'function') throw new TypeErr('a timer needs a function');
    const wait = floor(min(max(repeat ? 1 : 0, Num(delay) || 0), 2147483647));
    timers[timers.length] = { id: ++lastTimer, at: now + wait, every: repeat ? wait : 0, f, values };
    return lastTimer;
  };
  const clear = (id) => {
    const kept = [];
    for (let i = 0; i < timers.length; i++) if (timers[i].id !== id) kept[kept.length] = timers[i];
    timers = kept;
  };
  add('setTimeout', timer(false));
  add('setInterval', timer(true));
  add('clearTimeout', clear);
  add('clearInterval', clear);

  // --- tools

  // Calls in their order, and how many of them have been answered.
  const waiting = [];
  let answered = 0;
  const tool = (name) => (input) => new RealPromise((resolve, reject) => {
    const json = stringify(input === undefined ? {} : input);
    if (json === undefined) throw new TypeErr('the input of ' + name + ' must be a JSON value');
    const refused = host.ask(name, json);
    if (refused) throw new RangeErr(refused);
    waiting[waiting.length] = { name, resolve, reject };
  });
  const offered = create(null);
  for (const name of names) offered[name] = tool(name);
  freeze(offered);
  const list = names.length ? 'there are: ' + names.join(', ') : 'there are none';
  fix('tools', new Proxy(offered, {
    get: (target, name) => {
      if (name in target) return target[name];
      if (typeof name === 'symbol' || name === 'then' || name === 'toJSON') return undefined;
      throw new TypeErr('there is no tool ' + name + '; ' + list);
    },
  }));

  // --- errors: functions of the callers are handed to whoever may format a stack
  defineProperty(Err, 'prepareStackTrace', { value: undefined, writable: false, configurable: false });
  delete G.SharedArrayBuffer;
  delete G.Atomics;

  // --- small pieces of the web platform

  add('btoa', (value) => {
    const encoded = host.btoa(text(value));
    if (encoded === undefined) throw new RangeErr('btoa takes characters up to \\u00ff');
    return encoded;
  });
  add('atob', (value) => {
    const decoded = host.atob(text(value));
    if (decoded === undefined) throw new RangeErr('atob takes base64');
    return decoded;
  });
  add('TextEncoder', class TextEncoder {
    get encoding() { return 'utf-8'; }
    encode(value = '') { return host.encode(text(value)); }
  });
  add('TextDecoder', class TextDecoder {
    constructor(label = 'utf-8') {
      if (label !== 'utf-8' && label !== 'utf8') throw new RangeErr('TextDecoder decodes utf-8 only');
    }
    get encoding() { return 'utf-8'; }
    decode(data = new Bytes(0)) {
      const view = View(data) ? new Bytes(data.buffer, data.byteOffset, data.byteLength) : new Bytes(data);
      return host.decode(Arr.from(view));
    }
  });

  class URLSearchParams {
    #pairs = [];
    #changed = () => {};
    constructor(from = '', changed) {
      if (changed) this.#changed = changed;
      if (typeof from === 'string') this.#pairs = host.pairs(text(from));
      else if (typeof from[Symbol.iterator] === 'function') for (const [k, v] of from) this.#pairs.push([text(k), text(v)]);
      else for (const k of keys(from)) this.#pairs.push([text(k), text(from[k])]);
    }
    #set(pairs) { this.#pairs = pairs; this.#changed(this.toString()); }
    get size() { return this.#pairs.length; }
    get(k) { const found = this.#pairs.find((p) => p[0] === Str(k)); return found ? found[1] : null; }
    getAll(k) { return this.#pairs.filter((p) => p[0] === Str(k)).map((p) => p[1]); }
    has(k) { return this.get(k) !== null; }
    append(k, v) { this.#set([...this.#pairs, [text(k), text(v)]]); }
    delete(k) { this.#set(this.#pairs.filter((p) => p[0] !== Str(k))); }
    set(k, v) {
      const at = this.#pairs.findIndex((p) => p[0] === Str(k));
      if (at < 0) return this.append(k, v);
      this.#set(this.#pairs.filter((p, i) => i <= at || p[0] !== Str(k)).map((p, i) => (i === at ? [p[0], text(v)] : p)));
    }
    sort() { this.#set([...this.#pairs].sort((x, y) => (x[0] < y[0] ? -1 : x[0] > y[0] ? 1 : 0))); }
    forEach(f) { for (const [k, v] of this.#pairs) f(v, k, this); }
    *entries() { for (const p of this.#pairs) yield [...p]; }
    *keys() { for (const p of this.#pairs) yield p[0]; }
    *values() { for (const p of this.#pairs) yield p[1]; }
    [Symbol.iterator]() { return this.entries(); }
    toString() { return host.query(this.#pairs); }
  }
  add('URLSearchParams', URLSearchParams);
  class URL {
    #href;
    constructor(url, base) {
      const href = host.url(text(url), base === undefined ? null : text(base));
      if (href === undefined) throw new TypeErr('invalid URL: ' + text(url));
      this.#href = href;
    }
    static canParse(url, base) { return host.url(text(url), base === undefined ? null : text(base)) !== undefined; }
    get origin() { return host.urlGet(this.#href, 'origin'); }
    get searchParams() { return new URLSearchParams(this.search, (query) => { this.search = query; }); }
    toString() { return this.#href; }
    toJSON() { return this.#href; }
    static {
      const parts = ['href', 'protocol', 'username', 'password', 'host', 'hostname', 'port', 'pathname', 'search', 'hash'];
      for (const part of parts) {
        defineProperty(URL.prototype, part, {
          enumerable: true, configurable: true,
          get() { return host.urlGet(this.#href, part); },
          set(value) { this.#href = host.urlSet(this.#href, part, text(value)); },
        });
      }
    }
  }
  add('URL', URL);

  const clone = (value, seen) => {
    if (typeof value === 'function' || typeof value === 'symbol') throw new TypeErr('structuredClone takes no functions and symbols');
    if (typeof value !== 'object' || value === null) return value;
    if (seen.has(value)) return seen.get(value);
    const keep = (copy) => { seen.set(value, copy); return copy; };
    if (value instanceof RealDate) return keep(new Clock(value.getTime()));
    if (value instanceof RegExp) return keep(new RegExp(value.source, value.flags));
    if (value instanceof ArrayBuffer) return keep(value.slice(0));
    if (View(value)) return keep(new value.constructor(value));
    if (value instanceof RealMap) { const copy = keep(new RealMap()); for (const [k, v] of value) copy.set(clone(k, seen), clone(v, seen)); return copy; }
    if (value instanceof RealSet) { const copy = keep(new RealSet()); for (const v of value) copy.add(clone(v, seen)); return copy; }
    if (value instanceof Err) { const copy = keep(new Err(value.message)); copy.name = value.name; return copy; }
    const copy = keep(Arr.isArray(value) ? new Arr(value.length) : {});
    for (const key of keys(value)) copy[key] = clone(value[key], seen);
    return copy;
  };
  add('structuredClone', (value) => clone(value, new RealMap()));

  // --- the end

  const part = (error, name) => {
    try {
      const value = error[name];
      return value === undefined || value === null ? '' : text(apply(slice, Str(value), [0, 4000]));
    } catch {
      return '';
    }
  };
  const thrown = (error) => {
    if (error === null) return host.thrown('', '', '', true);
    if (error instanceof Err) return host.thrown(part(error, 'name'), part(error, 'message'), part(error, 'stack'), false);
    host.thrown('', 'thrown: ' + text(apply(slice, brief(error), [0, 4000])), '', false);
  };
  const returned = (value) => {
    let json;
    try {
      json = stringify(value) ?? 'null';
    } catch (error) {
      return error instanceof TypeErr && value !== null && typeof value === 'object'
        ? host.thrown('TypeError', 'the result cannot be written as JSON: ' + part(error, 'message'), '', false)
        : thrown(error);
    }
    host.returned(json);
  };
  return {
    // The promise of the script.
    run(promise) { apply(then, promise, [returned, thrown]); },
    // The answers, as JSON, to the first calls that wait.
    give(json) {
      const answers = parse(json);
      for (let i = 0; i < answers.length; i++) {
        const answer = answers[i], call = waiting[answered];
        waiting[answered++] = undefined;
        if (answer[1] === null) { call.resolve(answer[0]); continue; }
        const error = new Err(answer[1]);
        error.name = 'ToolError';
        error.tool = call.name;
        call.reject(error);
      }
    },
    // Runs the next timer; false if there is none.
    tick() {
      if (!timers.length) return false;
      let next = timers[0];
      for (let i = 1; i < timers.length; i++) {
        const other = timers[i];
        if (other.at < next.at || (other.at === next.at && other.id < next.id)) next = other;
      }
      now = max(now, next.at);
      if (next.every) next.at = now + next.every; else clear(next.id);
      try { apply(next.f, undefined, next.values); } catch (error) { thrown(error); }
      return true;
    },
  };
})
