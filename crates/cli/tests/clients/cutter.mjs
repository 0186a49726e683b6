// A proxy that cuts connections at any byte, like a bad network: in the head, within a frame, within a character, or
// between two frames.
import net from 'node:net';

// mulberry32, a seeded generator: the same cuts in each run of a test.
export function seeded(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

// Forwards to `target` and cuts the first `cuts` connections, each after fewer than `longest` bytes of the response; with
// `whole` only after what Houston has written at once, as when Houston itself goes away: never within its head or an event.
export async function cutter(target, { cuts, longest, seed, whole }) {
  const { hostname, port } = new URL(target);
  const random = seeded(seed);
  const proxy = { cuts: 0, connections: 0 };
  const sockets = new Set();
  const server = net.createServer((client) => {
    proxy.connections += 1;
    const houston = net.connect(port, hostname);
    const both = [client, houston];
    const destroy = () => both.forEach((socket) => socket.destroy());
    for (const socket of both) {
      sockets.add(socket);
      socket.setNoDelay(true);
      socket.on('close', () => (sockets.delete(socket), destroy()));
      socket.on('error', destroy);
    }
    client.pipe(houston);
    let left = proxy.cuts < cuts ? Math.floor(random() * longest) : Infinity;
    houston.on('data', (bytes) => {
      if (bytes.length < left) {
        left -= bytes.length;
        client.write(bytes);
        return;
      }
      houston.removeAllListeners('data');
      proxy.cuts += 1;
      // Half of them end with a reset, half with a normal close.
      client.write(whole ? bytes : bytes.subarray(0, left), () => (random() < 0.5 ? client.resetAndDestroy() : client.destroy()));
    });
  });
  await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
  proxy.url = `http://127.0.0.1:${server.address().port}`;
  proxy.close = () => {
    sockets.forEach((socket) => socket.destroy());
    return new Promise((closed) => server.close(closed));
  };
  return proxy;
}

// Forwards to `target`; its first connection falls silent after so many bytes of the response, and is never closed.
export async function blackHole(target, { after }) {
  const { hostname, port } = new URL(target);
  const proxy = { connections: 0, isSilent: false };
  const sockets = new Set();
  const server = net.createServer((client) => {
    const isFirst = (proxy.connections += 1) === 1;
    const houston = net.connect(port, hostname);
    for (const [socket, other] of [[client, houston], [houston, client]]) {
      sockets.add(socket);
      socket.on('error', () => other.destroy());
      socket.on('close', () => (isFirst && proxy.isSilent) || other.destroy());
    }
    client.pipe(houston);
    let left = isFirst ? after : Infinity;
    houston.on('data', (bytes) => {
      if (left > 0) client.write(bytes.subarray(0, left));
      left -= bytes.length;
      if (left <= 0) proxy.isSilent = true;
    });
  });
  await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
  proxy.url = `http://127.0.0.1:${server.address().port}`;
  proxy.close = () => {
    sockets.forEach((socket) => socket.destroy());
    return new Promise((closed) => server.close(closed));
  };
  return proxy;
}
