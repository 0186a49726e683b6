// What a client has received of a stream: positions and events.
import assert from 'node:assert/strict';
import { textsOf, thread } from './houston.mjs';

export class Received {
  ids = [];
  events = [];
  texts = new Map();

  add(id, event) {
    this.ids.push(id);
    this.events.push(event);
    const { type, messageId, delta } = event;
    if (type === 'TEXT_MESSAGE_START') {
      assert(!this.texts.has(messageId), `${messageId} begins twice`);
      this.texts.set(messageId, '');
    }
    if (type === 'TEXT_MESSAGE_CONTENT') this.texts.set(messageId, this.texts.get(messageId) + delta);
    if (type === 'MESSAGES_SNAPSHOT') {
      const truth = new Map(event.messages.map(({ id, content }) => [id, content]));
      for (const id of this.texts.keys()) truth.has(id) ? this.texts.set(id, truth.get(id)) : this.texts.delete(id);
    }
  }

  assembled() {
    return [...this.texts].map(([id, content]) => ({ id, content }));
  }

  // Checks that every position comes once, that no event without text is repeated, and that what has begun has ended.
  assertNothingTwice() {
    assert.equal(new Set(this.ids).size, this.ids.length, `positions repeat: ${this.ids}`);
    const once = this.events.filter(({ type }) => !type.endsWith('_CONTENT')).map((event) => JSON.stringify(event));
    assert.equal(new Set(once).size, once.length);
    const count = (type) => this.events.filter((event) => event.type === type).length;
    for (const [begin, end] of [
      ['RUN_STARTED', 'RUN_FINISHED'],
      ['STEP_STARTED', 'STEP_FINISHED'],
      ['TEXT_MESSAGE_START', 'TEXT_MESSAGE_END'],
      ['TOOL_CALL_START', 'TOOL_CALL_END'],
      ['TOOL_CALL_START', 'TOOL_CALL_RESULT'],
    ]) {
      assert.equal(count(begin), count(end), `${begin} and ${end}`);
    }
  }

  // Checks this against the thread, after the message `since`.
  async assertWhole(conversation, since = 0) {
    this.assertNothingTwice();
    const messages = (await thread(conversation)).filter((message) => message.seq > since);
    assert.deepEqual(this.assembled(), textsOf(messages, 'agent'));
  }
}
