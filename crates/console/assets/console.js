// The console's own script: what pages do beyond links and forms. Everything works without it, but does not refresh itself.
(() => {
  'use strict';
  const stored = (name, value) => {
    try {
      return value === undefined ? localStorage.getItem(name) : localStorage.setItem(name, value);
    } catch {
      return null;
    }
  };

  // Relative times go on while a page is open; the absolute one is their title.
  const UNITS = [[86400 * 2, 86400, 'd'], [3600 * 2, 3600, 'h'], [60 * 2, 60, 'min'], [0, 1, 's']];
  function ago(at) {
    const seconds = Math.round((Date.now() - at) / 1000);
    const far = Math.abs(seconds);
    if (far < 5) return 'now';
    const [, size, unit] = UNITS.find(([least]) => far >= least);
    const text = `${Math.floor(far / size)} ${unit}`;
    return seconds < 0 ? `in ${text}` : `${text} ago`;
  }
  function refreshTimes() {
    for (const time of document.querySelectorAll('time[data-ago]')) {
      const at = Date.parse(time.dateTime);
      if (!Number.isNaN(at) && time.textContent !== ago(at)) time.textContent = ago(at);
    }
  }
  setInterval(refreshTimes, 1000);

  // Live pages ask for themselves again and change only what differs. Not while somebody types, selects or looks elsewhere.
  let paused = stored('houston-paused') === 'yes';
  let asking = false;
  function isBusy() {
    const at = document.activeElement;
    const types = at && at.matches('input, textarea, select');
    return paused || asking || document.hidden || types || !getSelection().isCollapsed;
  }
  async function refresh(main) {
    asking = true;
    try {
      await htmx.ajax('GET', location.pathname + location.search, { target: main, select: '#main > *', swap: 'innerMorph' });
      refreshTimes();
    } finally {
      asking = false;
    }
  }
  let last = Date.now();
  setInterval(() => {
    // Within what is refreshed: a page that has become final loses it.
    const mark = document.querySelector('main [data-live]');
    if (!mark || isBusy() || Date.now() - last < Number(mark.dataset.live) * 1000) return;
    last = Date.now();
    refresh(mark.closest('main'));
  }, 500);

  // The numbers beside the sections.
  const rail = document.querySelector('.rail[data-counts]');
  async function count() {
    if (document.hidden || paused) return;
    const answer = await fetch(rail.dataset.counts, { headers: { 'hx-request': 'true' } }).catch(() => null);
    if (!answer?.ok) return;
    const counts = new Map((await answer.json()).map(({ path, text, tone }) => [path, { text, tone }]));
    for (const link of rail.querySelectorAll('a')) {
      const { text, tone } = counts.get(link.getAttribute('href')) ?? {};
      let mark = link.querySelector('.count');
      if (!text) {
        mark?.remove();
        continue;
      }
      if (!mark) link.append((mark = document.createElement('span')));
      mark.className = `count ${tone}`;
      mark.textContent = text;
    }
  }
  if (rail) {
    count();
    setInterval(count, 15000);
  }

  customElements.define('live-switch', class extends HTMLElement {
    connectedCallback() {
      const button = document.createElement('button');
      button.type = 'button';
      button.className = 'quiet';
      const lamp = document.createElement('span');
      lamp.className = 'lamp';
      const text = document.createElement('span');
      button.append(lamp, text);
      const show = () => {
        button.setAttribute('aria-pressed', String(paused));
        text.textContent = paused ? 'Paused' : 'Live';
        button.title = paused ? 'Refresh this page by itself' : 'Stop refreshing this page';
      };
      button.addEventListener('click', () => {
        paused = !paused;
        stored('houston-paused', paused ? 'yes' : 'no');
        last = 0;
        show();
      });
      show();
      this.replaceChildren(button);
    }
  });

  // Arrow keys move between the steps of a run; left closes, right opens.
  customElements.define('run-waterfall', class extends HTMLElement {
    connectedCallback() {
      this.addEventListener('keydown', (event) => {
        const summary = event.target.closest('summary');
        if (!summary || event.altKey || event.ctrlKey || event.metaKey) return;
        const all = [...this.querySelectorAll('summary')];
        const at = all.indexOf(summary);
        const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key];
        if (to !== undefined) all[Math.max(0, Math.min(to, all.length - 1))].focus();
        else if (event.key === 'ArrowRight') summary.parentElement.open = true;
        else if (event.key === 'ArrowLeft') summary.parentElement.open = false;
        else return;
        event.preventDefault();
      });
    }
  });

  // The events of a run as they come. A connection that breaks is resumed where it was; the number of lines is limited.
  const MOST_LINES = 500;
  const FINAL = ['RUN_FINISHED', 'RUN_ERROR'];
  customElements.define('event-tail', class extends HTMLElement {
    connectedCallback() {
      if (this.source || !this.dataset.from) return;
      this.list = this.querySelector('ol');
      this.source = new EventSource(this.dataset.from);
      this.source.onmessage = (message) => {
        let event;
        try {
          event = JSON.parse(message.data);
        } catch {
          return;
        }
        this.add(event);
        if (FINAL.includes(event.type)) this.source.close();
      };
    }
    disconnectedCallback() {
      this.source?.close();
      this.source = undefined;
    }
    // Pieces of one text share a line.
    add(event) {
      const part = event.messageId ?? event.toolCallId;
      if (event.delta !== undefined && typeof event.delta === 'string' && this.open?.part === part && this.open?.type === event.type) {
        if (this.dataset.contents === 'true') this.open.text.textContent += event.delta;
      } else {
        const line = document.createElement('li');
        const cells = [new Date().toISOString().slice(11, 23), event.type === 'CUSTOM' ? event.name : event.type, this.about(event)];
        for (const [nth, text] of cells.entries()) {
          const cell = document.createElement('span');
          cell.textContent = text;
          if (nth === 1) cell.className = event.type === 'RUN_ERROR' ? 'name bad' : 'name';
          line.append(cell);
        }
        this.open = { part, type: event.type, text: line.lastElementChild };
        const follows = this.list.scrollHeight - this.list.scrollTop - this.list.clientHeight < 40;
        this.list.append(line);
        while (this.list.childElementCount > MOST_LINES) this.list.firstElementChild.remove();
        if (follows) this.list.scrollTop = this.list.scrollHeight;
      }
    }
    about(event) {
      if (this.dataset.contents !== 'true') return String(event.toolCallName ?? event.stepName ?? event.code ?? '');
      if (typeof event.delta === 'string') return event.delta;
      const { type, name, timestamp, rawEvent, threadId, runId, messages, ...rest } = event;
      const said = event.toolCallName ?? event.stepName ?? event.message ?? event.content;
      const text = typeof said === 'string' ? said : JSON.stringify(event.value ?? rest);
      return text.length > 400 ? `${text.slice(0, 400)} …` : text;
    }
  });

  // A chart over time: `data-x` has seconds, `data-series` the names, classes and values.
  customElements.define('time-chart', class extends HTMLElement {
    connectedCallback() {
      this.draw();
      this.dark = matchMedia('(prefers-color-scheme: dark)');
      this.redraw = () => this.draw();
      this.dark.addEventListener('change', this.redraw);
      this.watch = new ResizeObserver(() => this.plot?.setSize(this.size()));
      this.watch.observe(this);
    }
    disconnectedCallback() {
      this.dark.removeEventListener('change', this.redraw);
      this.watch.disconnect();
      this.plot?.destroy();
    }
    static get observedAttributes() {
      return ['data-x', 'data-series'];
    }
    attributeChangedCallback() {
      if (!this.plot) return;
      clearTimeout(this.soon);
      this.soon = setTimeout(() => this.plot.setData(this.data()));
    }
    size() {
      return { width: this.clientWidth, height: Math.max(80, this.clientHeight - (this.plot?.series.length > 2 ? 28 : 0)) };
    }
    data() {
      const series = JSON.parse(this.dataset.series);
      return [JSON.parse(this.dataset.x), ...series.map(({ values }) => values)];
    }
    draw() {
      // A page that has become another one by refreshing may lack the library.
      if (!globalThis.uPlot) return;
      this.plot?.destroy();
      const style = getComputedStyle(this);
      // A value with `light-dark()` is resolved by an element that has it as its colour.
      const probe = document.createElement('i');
      this.append(probe);
      const colour = (name) => {
        probe.style.color = `var(${name})`;
        return getComputedStyle(probe).color;
      };
      const [soft, line] = [colour('--soft'), colour('--line')];
      const axis = { stroke: soft, font: `11px ${style.fontFamily}`, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1, size: 4 } };
      const labels = (_, at) => {
        const isLong = at.length > 1 && at.at(-1) - at[0] > 2 * 86400;
        const texts = at.map((second) => new Date(second * 1000).toISOString().slice(...(isLong ? [5, 10] : [11, 16])));
        return texts.map((text, nth) => (text === texts[nth - 1] ? '' : text));
      };
      const series = JSON.parse(this.dataset.series).map(({ name, colour: of, fill }) => ({
        label: name, stroke: colour(of), width: 1.5, fill: fill ? colour(fill) : undefined, points: { show: false },
      }));
      probe.remove();
      this.plot = new uPlot({
        ...this.size(), series: [{}, ...series], axes: [{ ...axis, values: labels }, { ...axis, size: 44 }],
        cursor: { drag: { x: false, y: false } }, legend: { show: series.length > 1 }, tzDate: (at) => uPlot.tzDate(new Date(at * 1000), 'Etc/UTC'),
        scales: { y: { range: (_, __, most) => [0, Math.max(1, most * 1.1)] } },
      }, this.data(), this);
    }
  });

  // On a narrow window the sections are one line: the present one is in sight.
  document.querySelector('.rail [aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'center' });

  // `/` goes to the search field.
  addEventListener('keydown', (event) => {
    if (event.key !== '/' || event.target.matches('input, textarea, select')) return;
    const field = document.querySelector('input[type=search]');
    if (!field) return;
    event.preventDefault();
    field.focus();
    field.select();
  });
})();
