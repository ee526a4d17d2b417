// SPDX-License-Identifier: MIT
//
// A server with the TypeScript SDK v1, sessions over Streamable HTTP, for bench/fanout.
// usage: node --expose-gc sdk-v1.mjs NODE_MODULES
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";

import { require, resourceUri, serve, stamp } from "./control.mjs";

const { Server } = require("@modelcontextprotocol/sdk/server/index.js");
const { StreamableHTTPServerTransport } =
    require("@modelcontextprotocol/sdk/server/streamableHttp.js");
const { SubscribeRequestSchema, UnsubscribeRequestSchema } =
    require("@modelcontextprotocol/sdk/types.js");

const sessions = new Map(); // transports by session id
const subscribers = new Map(); // sets of servers by URI

function createSession() {
    const server = new Server({ name: "bench", version: "1" },
        { capabilities: { resources: { subscribe: true } } });
    const transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (id) => sessions.set(id, transport),
    });

    server.setRequestHandler(SubscribeRequestSchema, ({ params }) => {
        if (!subscribers.has(params.uri))
            subscribers.set(params.uri, new Set());
        subscribers.get(params.uri).add(server);
        return {};
    });
    server.setRequestHandler(UnsubscribeRequestSchema, ({ params }) => {
        subscribers.get(params.uri)?.delete(server);
        return {};
    });
    transport.onclose = () => {
        sessions.delete(transport.sessionId);
        for (const set of subscribers.values())
            set.delete(server);
    };
    return server.connect(transport).then(() => transport);
}

async function onRequest(request, response) {
    const transport =
        sessions.get(request.headers["mcp-session-id"]) ?? (await createSession());

    await transport.handleRequest(request, response);
}

serve(createServer((request, response) => {
    onRequest(request, response).catch((error) => {
        console.error(error);
        process.exit(1);
    });
}), () => {
    // A burst is of one resource, too: nothing merges here, and sixteen subscribe requests
    // for each of many sessions would take minutes.
    const uri = resourceUri(0);
    const _meta = stamp();

    for (const server of subscribers.get(uri) ?? [])
        server.sendResourceUpdated({ uri, _meta });
});
