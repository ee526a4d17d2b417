// SPDX-License-Identifier: MIT
// A network that can be cut: connections to `port` go to another port. After cut() nothing
// passes and nothing is closed, as with a cable that was pulled; go() mends it. snap() breaks the
// connections that there are; new ones are welcome.
import { once } from 'node:events';
import { connect, createServer } from 'node:net';

export class Proxy {
  #pairs = new Set();
  #cut = false;

  static async start(target) {
    const proxy = new Proxy();
    proxy.server = createServer((near) => proxy.#join(near, connect(target, '127.0.0.1')));
    proxy.server.listen(0, '127.0.0.1');
    await once(proxy.server, 'listening');
    proxy.port = proxy.server.address().port;
    return proxy;
  }

  #join(near, far) {
    const pair = [near, far];
    this.#pairs.add(pair);
    for (const [from, to] of [[near, far], [far, near]]) {
      from.on('data', (data) => to.write(data));
      from.on('error', () => {});
      from.on('end', () => to.end());
      from.on('close', () => {
        to.destroy();
        this.#pairs.delete(pair);
      });
      if (this.#cut) from.pause();
    }
  }

  cut() {
    this.#cut = true;
    for (const pair of this.#pairs) for (const socket of pair) socket.pause();
  }

  go() {
    this.#cut = false;
    for (const pair of this.#pairs) for (const socket of pair) socket.resume();
  }

  snap() {
    for (const pair of this.#pairs) for (const socket of pair) socket.destroy();
  }

  async stop() {
    this.server.close();
    this.snap();
    await once(this.server, 'close');
  }
}

// One below those that the kernel gives to whoever asks for any (from 32768), so that nobody else
// gets it before it is used, or between two uses.
export async function freePort() {
  for (;;) {
    const port = 10000 + Math.floor(Math.random() * 22000);
    const server = createServer().listen(port, '127.0.0.1');
    const free = await new Promise((resolve) => {
      server.once('listening', () => resolve(true)).once('error', () => resolve(false));
    });
    if (!free) continue;
    server.close();
    await once(server, 'close');
    return port;
  }
}
