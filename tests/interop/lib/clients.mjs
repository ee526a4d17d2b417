// SPDX-License-Identifier: MIT
// The official clients behind one face, so that one test can run with each of them:
//
//   peer.client            the SDK's own client
//   peer.updates, .lists   what it was notified of (Inbox)
//   peer.subscribe(uri, options)  subscribes or listens; returns what undoes it. The options,
//                          dev.tidings/options, are for the legacy era
//   peer.watchLists()      asks for list changes where one has to ask
//   peer.listPage(what, cursor)  one page of "tools", "resources" or "prompts"
//   peer.call(name, args)  calls a tool; .look(name, args) gives its structured content
//   peer.close()
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport as SseV1 } from '@modelcontextprotocol/sdk/client/sse.js';
import { StdioClientTransport as StdioV1 } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport as HttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  LoggingMessageNotificationSchema,
  PromptListChangedNotificationSchema,
  ResourceListChangedNotificationSchema,
  ResourceUpdatedNotificationSchema,
  ResultSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import {
  Client as ClientV2,
  SSEClientTransport as SseV2,
  StreamableHTTPClientTransport as HttpV2,
} from '@modelcontextprotocol/client';
import { StdioClientTransport as StdioV2 } from '@modelcontextprotocol/client/stdio';
import { program, prompt } from './fixture.mjs';
import { Inbox } from './wait.mjs';

const info = { name: 'interop', version: '1' };

class Peer {
  updates = new Inbox();
  lists = new Inbox();
  logs = new Inbox();
  errors = [];

  constructor(client, transport) {
    this.client = client;
    this.transport = transport;
    client.onerror = (error) => this.errors.push(error);
  }

  async look(name, args) {
    return (await this.call(name, args)).structuredContent;
  }

  // Calls a tool that has to succeed.
  async call(name, args, options) {
    const result = await this.callTool({ name, arguments: args ?? {} }, options);
    if (result.isError) throw new Error(`${name}: ${result.content[0].text}`);
    return result;
  }

  publish(uri, metadata) {
    return this.call('publish', metadata ? { uri, metadata } : { uri });
  }

  close() {
    return this.client.close();
  }

  // What does not exist yet is not found, unless the options ask to wait for it.
  async subscribeLegacy(uri, options) {
    await this.client.subscribeResource(
      options ? { uri, _meta: { 'dev.tidings/options': options } } : { uri });
    return () => this.client.unsubscribeResource({ uri });
  }
}

class PeerV1 extends Peer {
  constructor(client, transport) {
    super(client, transport);
    client.setNotificationHandler(ResourceUpdatedNotificationSchema,
      (notification) => this.updates.push(notification.params));
    client.setNotificationHandler(LoggingMessageNotificationSchema,
      (notification) => this.logs.push(notification.params));
    client.setNotificationHandler(ToolListChangedNotificationSchema,
      () => this.lists.push('tools'));
    client.setNotificationHandler(PromptListChangedNotificationSchema,
      () => this.lists.push('prompts'));
    client.setNotificationHandler(ResourceListChangedNotificationSchema,
      () => this.lists.push('resources'));
  }

  callTool(params, options) {
    return this.client.callTool(params, undefined, options);
  }

  listPage(what, cursor) {
    const params = cursor === undefined ? {} : { cursor };
    return this.client.request({ method: `${what}/list`, params }, ResultSchema);
  }

  subscribe(uri, options) {
    return this.subscribeLegacy(uri, options);
  }

  async watchLists() {}
}

class PeerV2 extends Peer {
  constructor(client, transport) {
    super(client, transport);
    client.setNotificationHandler('notifications/resources/updated',
      (notification) => this.updates.push(notification.params));
    client.setNotificationHandler('notifications/message',
      (notification) => this.logs.push(notification.params));
    for (const list of ['tools', 'prompts', 'resources']) {
      client.setNotificationHandler(`notifications/${list}/list_changed`,
        () => this.lists.push(list));
    }
  }

  callTool(params, options) {
    return this.client.callTool(params, options);
  }

  listPage(what, cursor) {
    const params = cursor === undefined ? {} : { cursor };
    return this.client.request({ method: `${what}/list`, params });
  }

  get modern() {
    return this.client.getProtocolEra() === 'modern';
  }

  async subscribe(uri, options) {
    if (!this.modern) return this.subscribeLegacy(uri, options);
    const subscription = await this.client.listen({ resourceSubscriptions: [uri] });
    if (!subscription.honoredFilter.resourceSubscriptions?.includes(uri)) {
      throw new Error(`${uri} was not honoured`);
    }
    return () => subscription.close();
  }

  async watchLists() {
    if (!this.modern) return;
    await this.client.listen({
      toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true,
    });
  }
}

const sse = (url) => new URL(url.replace(/\/mcp$/, '/sse'));

export async function openV1(transport) {
  const peer = new PeerV1(new ClientV1(info), transport);
  await peer.client.connect(transport);
  return peer;
}

// `mode` is the SDK's: 'legacy', 'auto' or {pin: version}.
export async function openV2(transport, mode) {
  const peer = new PeerV2(new ClientV2(info, { versionNegotiation: { mode } }), transport);
  await peer.client.connect(transport);
  return peer;
}

export const httpV1 = (url, options) => openV1(new HttpV1(new URL(url), options));
export const sseV1 = (url) => openV1(new SseV1(sse(url)));
export const stdioV1 = (...options) =>
  openV1(new StdioV1({ command: program, args: ['--stdio', ...prompt, ...options] }));

export const modern = { pin: '2026-07-28' };
export const httpV2 = (url, mode, options) =>
  openV2(new HttpV2(new URL(url), options), mode);
export const sseV2 = (url) => openV2(new SseV2(sse(url)), 'legacy');
export const stdioV2 = (mode, ...options) =>
  openV2(new StdioV2({ command: program, args: ['--stdio', ...prompt, ...options] }), mode);

// Every way in: how it connects, and which protocol version it ends up with. Those on
// stdio start a server of their own, with `options`.
export const ways = [
  { name: 'SDK v1, stdio', stdio: true, version: '2025-11-25',
    open: (url, options) => stdioV1(...options) },
  { name: 'SDK v1, HTTP', version: '2025-11-25', open: (url) => httpV1(url) },
  { name: 'SDK v1, HTTP+SSE', sse: true, open: (url) => sseV1(url) },
  { name: 'SDK v2, stdio', stdio: true, version: '2026-07-28', modern: true,
    open: (url, options) => stdioV2('auto', ...options) },
  { name: 'SDK v2, HTTP', version: '2026-07-28', modern: true,
    open: (url) => httpV2(url, 'auto') },
  { name: 'SDK v2 as legacy, stdio', stdio: true, version: '2025-11-25',
    open: (url, options) => stdioV2('legacy', ...options) },
  { name: 'SDK v2 as legacy, HTTP', version: '2025-11-25',
    open: (url) => httpV2(url, 'legacy') },
  { name: 'SDK v2 as legacy, HTTP+SSE', sse: true,
    open: (url) => sseV2(url) },
];

export const metadataOf = (params) => params._meta?.['dev.tidings/metadata'];
export const versionOf = (params) => params._meta?.['dev.tidings/version'];
