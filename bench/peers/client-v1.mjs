// SPDX-License-Identifier: MIT
//
// A client with the TypeScript SDK v1 for bench/client; legacy is all it speaks.
import { obey, onUpdate, require, subscribeEach, urisOf, url } from "./client-control.mjs";

const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } =
    require("@modelcontextprotocol/sdk/client/streamableHttp.js");
const { ResourceUpdatedNotificationSchema } = require("@modelcontextprotocol/sdk/types.js");

async function connect() {
    const client = new Client({ name: "bench", version: "1" });

    client.setNotificationHandler(ResourceUpdatedNotificationSchema, onUpdate);
    await client.connect(new StreamableHTTPClientTransport(url));
    return client;
}

await obey(connect, (client, count) => subscribeEach(client, urisOf(count)));
