// SPDX-License-Identifier: MIT
// Servers made with the official SDKs, each a program of its own, so that it can be killed:
//
//   sdk-server.mjs v1|v2 stdio|http|sse [PORT] [OPTION...]
//
//   store      v1, http: events are kept, so that a stream can be resumed
//   stateless  v1, http: no sessions, and no stream
//   json       v1, http: answers are JSON, never streams
//   reject     v2: nothing but 2026-07-28
//   sessions   v2, http: legacy clients get sessions, besides the modern ones
//
// count://a and count://b are what their last change said; the tool `bump` changes one. With
// http and sse it says "listening PORT" on standard output.
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { getRequestListener } from '@hono/node-server';
import { Server as ServerV1 } from '@modelcontextprotocol/sdk/server/index.js';
import { SSEServerTransport } from '@modelcontextprotocol/sdk/server/sse.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import * as types from '@modelcontextprotocol/sdk/types.js';
import {
  createMcpHandler, isLegacyRequest, Server as ServerV2, WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';

const [, , sdk, transport, port = '0', ...options] = process.argv;
const has = (option) => options.includes(option);

const info = { name: `sdk-${sdk}`, version: '1' };
const capabilities = {
  resources: { subscribe: true, listChanged: true }, tools: { listChanged: true },
  prompts: {}, completions: {}, logging: {},
};
const texts = new Map([['count://a', 'a is 0'], ['count://b', 'b is 0']]);
const tools = [{ name: 'bump', inputSchema: { type: 'object',
  properties: { uri: { type: 'string' }, text: { type: 'string' } } } },
{ name: 'add', inputSchema: { type: 'object', properties: { uri: { type: 'string' } } } },
{ name: 'ask', inputSchema: { type: 'object' } }];

const subscribed = new Map(); // server: URIs, in sessions
let tellModern = () => {}; // (uri, or nothing for the list)

async function tell(uri) {
  for (const [server, uris] of subscribed) {
    if (uris.has(uri)) await server.sendResourceUpdated({ uri }).catch(() => {});
  }
  tellModern(uri);
}

async function tellLists() {
  for (const server of subscribed.keys()) {
    await server.sendResourceListChanged().catch(() => {});
  }
  tellModern();
}

class NotFound extends Error {
  code = sdk === 'v2' ? -32602 : -32002;
}

// What it offers, by method.
const offered = (server) => ({
  'resources/list': () => ({
    resources: [...texts.keys()].map((uri) => ({ uri, name: uri.slice(-1) })),
  }),
  'resources/templates/list': () => ({
    resourceTemplates: [{ uriTemplate: 'count://{name}', name: 'count' }],
  }),
  'resources/read': ({ uri }) => {
    if (!texts.has(uri)) throw Object.assign(new NotFound('not found'), { data: { uri } });
    return { contents: [{ uri, text: texts.get(uri) }] };
  },
  'resources/subscribe': ({ uri }) => {
    subscribed.get(server).add(uri);
    return {};
  },
  'resources/unsubscribe': ({ uri }) => {
    subscribed.get(server).delete(uri);
    return {};
  },
  'tools/list': () => ({ tools }),
  'tools/call': async ({ name, arguments: args }, extra) => {
    if (name === 'ask') {
      const answer = await extra.sendRequest(
        { method: 'elicitation/create', params: { message: 'How many?',
          requestedSchema: { type: 'object', properties: { n: { type: 'integer' } } } } },
        types.ElicitResultSchema);
      return { content: [{ type: 'text', text: JSON.stringify(answer) }] };
    }
    texts.set(args.uri, args.text ?? 'new');
    if (name === 'add') await tellLists();
    else await tell(args.uri);
    return { content: [{ type: 'text', text: 'done' }] };
  },
  'prompts/list': () => ({ prompts: [{ name: 'greet', arguments: [{ name: 'who' }] }] }),
  'prompts/get': ({ arguments: args }) => ({
    messages: [{ role: 'user', content: { type: 'text', text: `Hello ${args?.who}` } }],
  }),
  'completion/complete': ({ argument }) => ({
    completion: { values: ['oslo', 'osaka'].filter((v) => v.startsWith(argument.value)) },
  }),
});

const schemas = {
  'resources/list': types.ListResourcesRequestSchema,
  'resources/templates/list': types.ListResourceTemplatesRequestSchema,
  'resources/read': types.ReadResourceRequestSchema,
  'resources/subscribe': types.SubscribeRequestSchema,
  'resources/unsubscribe': types.UnsubscribeRequestSchema,
  'tools/list': types.ListToolsRequestSchema,
  'tools/call': types.CallToolRequestSchema,
  'prompts/list': types.ListPromptsRequestSchema,
  'prompts/get': types.GetPromptRequestSchema,
  'completion/complete': types.CompleteRequestSchema,
};

function makeV1() {
  const server = new ServerV1(info, { capabilities });
  subscribed.set(server, new Set());
  for (const [method, handler] of Object.entries(offered(server))) {
    server.setRequestHandler(schemas[method], (request, extra) =>
      handler(request.params ?? {}, extra));
  }
  server.onclose = () => subscribed.delete(server);
  return server;
}

function makeV2() {
  const server = new ServerV2(info, { capabilities });
  subscribed.set(server, new Set());
  for (const [method, handler] of Object.entries(offered(server))) {
    server.setRequestHandler(method, (request) => handler(request.params ?? {}));
  }
  server.onclose = () => subscribed.delete(server);
  return server;
}

// ---- HTTP

class Store {
  #events = [];

  async storeEvent(stream, message) {
    this.#events.push({ stream, message });
    return `${stream}/${this.#events.length - 1}`;
  }

  async replayEventsAfter(last, { send }) {
    const cut = last.lastIndexOf('/');
    const stream = last.slice(0, cut);
    for (let i = Number(last.slice(cut + 1)) + 1; i < this.#events.length; i++) {
      if (this.#events[i].stream === stream) await send(`${stream}/${i}`, this.#events[i].message);
    }
    return stream;
  }
}

// Sessions, by transports of the SDK's kind `Kind`, for servers that `make` makes.
function sessions(Kind, make) {
  const open = new Map();
  return async (id) => {
    if (id !== undefined && !open.has(id)) return undefined;
    if (id !== undefined) return open.get(id);
    const fresh = new Kind({
      sessionIdGenerator: () => randomUUID(),
      eventStore: has('store') ? new Store() : undefined,
      retryInterval: has('store') ? 50 : undefined,
      enableJsonResponse: has('json'),
      onsessioninitialized: (name) => { open.set(name, fresh); },
    });
    fresh.onclose = () => open.delete(fresh.sessionId);
    await make().connect(fresh);
    return fresh;
  };
}

function answerV1() {
  const find = sessions(StreamableHTTPServerTransport, makeV1);
  return async (request, response) => {
    if (has('stateless')) {
      if (request.method !== 'POST') return response.writeHead(405).end();
      const once = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
      response.on('close', () => once.close());
      await makeV1().connect(once);
      return once.handleRequest(request, response);
    }
    const found = await find(request.headers['mcp-session-id']);
    if (!found) return response.writeHead(404).end();
    return found.handleRequest(request, response);
  };
}

function answerOld() {
  const open = new Map();
  return async (request, response) => {
    const url = new URL(request.url, 'http://127.0.0.1');
    if (request.method === 'GET' && url.pathname === '/sse') {
      const stream = new SSEServerTransport('/message', response);
      open.set(stream.sessionId, stream);
      response.on('close', () => open.delete(stream.sessionId));
      return makeV1().connect(stream);
    }
    const stream = open.get(url.searchParams.get('sessionId'));
    if (request.method !== 'POST' || !stream) return response.writeHead(404).end();
    return stream.handlePostMessage(request, response);
  };
}

function answerV2() {
  const handler = createMcpHandler(makeV2, {
    legacy: has('reject') || has('sessions') ? 'reject' : 'stateless', keepAliveMs: 500,
  });
  const find = sessions(WebStandardStreamableHTTPServerTransport, makeV2);
  tellModern = (uri) => (uri === undefined
    ? handler.notify.resourcesChanged() : handler.notify.resourceUpdated(uri));
  return getRequestListener(async (request) => {
    if (has('sessions') && await isLegacyRequest(request.clone())) {
      const found = await find(request.headers.get('mcp-session-id') ?? undefined);
      return found ? found.handleRequest(request) : new Response(null, { status: 404 });
    }
    return handler.fetch(request);
  });
}

if (transport === 'stdio') {
  if (sdk === 'v1') await makeV1().connect(new StdioServerTransport());
  else {
    serveStdio(() => {
      const server = makeV2();
      tellModern = (uri) => {
        // In sessions it has been told already.
        if (uri === undefined || !subscribed.get(server)?.has(uri)) {
          (uri === undefined ? server.sendResourceListChanged()
            : server.sendResourceUpdated({ uri })).catch(() => {});
        }
      };
      return server;
    }, { legacy: has('reject') ? 'reject' : 'serve' });
  }
} else {
  const answers = { v1: transport === 'sse' ? answerOld : answerV1, v2: answerV2 };
  const answer = answers[sdk]();
  const web = createServer((request, response) => {
    Promise.resolve(answer(request, response)).catch((error) => {
      console.error(error);
      if (!response.headersSent) response.writeHead(500);
      response.end();
    });
  });
  web.listen(Number(port), '127.0.0.1', () => console.log(`listening ${web.address().port}`));
}
