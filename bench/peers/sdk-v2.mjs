// SPDX-License-Identifier: MIT
//
// A server with the TypeScript SDK v2, protocol 2026-07-28, for bench/fanout.
// usage: node --expose-gc sdk-v2.mjs NODE_MODULES
import { createServer } from "node:http";

import { require, serve, stamp } from "./control.mjs";

const { McpServer, createMcpHandler } = require("@modelcontextprotocol/server");
const { getRequestListener } = require("@hono/node-server");

function createMcpServer() {
    return new McpServer({ name: "bench", version: "1" },
        { capabilities: { resources: { subscribe: true } } });
}

const handler = createMcpHandler(createMcpServer, {
    legacy: "reject",
    maxSubscriptions: 100000,
    keepAliveMs: 0,
    onerror: (error) => console.error(error.message),
});

serve(createServer(getRequestListener((request) => handler.fetch(request))), (uri) =>
    handler.bus.publish({ kind: "resource_updated", uri, params: { _meta: stamp() } }));
