// SPDX-License-Identifier: MIT
//
// A client with the TypeScript SDK v2 for bench/client, in either era.
import {
    modern, obey, onUpdate, require, subscribeEach, urisOf, url,
} from "./client-control.mjs";

const { Client, StreamableHTTPClientTransport } = require("@modelcontextprotocol/client");

async function connect() {
    const client = new Client({ name: "bench", version: "1" },
        { versionNegotiation: { mode: modern ? { pin: "2026-07-28" } : "legacy" } });

    client.setNotificationHandler("notifications/resources/updated", onUpdate);
    await client.connect(new StreamableHTTPClientTransport(url));
    return client;
}

await obey(connect, (client, count) => modern
    ? client.listen({ resourceSubscriptions: urisOf(count) })
    : subscribeEach(client, urisOf(count)));
