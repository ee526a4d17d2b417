// SPDX-License-Identifier: MIT
// A web server that has the same page everywhere, and knows its ETag.
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';

export class Web {
  content = '';
  status = 200;
  headers = {}; // more of them, in answers
  requests = 0;
  unchanged = 0; // answers that were 304
  seen = new Map(); // the headers of the last request, by path

  static async start(content) {
    const web = new Web();
    web.content = content;
    web.server = createServer((request, response) => web.#answer(request, response));
    web.server.listen(0, '127.0.0.1');
    await once(web.server, 'listening');
    web.port = web.server.address().port;
    return web;
  }

  #answer(request, response) {
    const etag = `"${createHash('sha256').update(this.content).digest('hex')}"`;
    this.requests++;
    this.seen.set(request.url, request.headers);
    if (this.status !== 200) {
      response.writeHead(this.status, this.headers).end('not now');
    } else if (request.headers['if-none-match'] === etag) {
      this.unchanged++;
      response.writeHead(304, { etag }).end();
    } else {
      response.writeHead(200, { etag, 'content-type': 'application/json', ...this.headers })
        .end(this.content);
    }
  }

  async stop() {
    this.server.close();
    this.server.closeAllConnections();
    await once(this.server, 'close');
  }
}
