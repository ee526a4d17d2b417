// SPDX-License-Identifier: MIT
//
// What bench/client and a client in JavaScript say to each other. The client says "ready"
// once it is connected. It is told on its input, a line each:
//   subscribe COUNT   to the resources 0 ... COUNT-1; it answers "subscribed"
//   await TOTAL       it answers "reached COUNT" once there were so many updates in all
//   again COUNT       makes a new client, connects and subscribes; answers "subscribed"
//   settle            collects garbage, then answers "settled": memory is about to be read
// The end of the input ends the client.
// usage: node --expose-gc client-v*.mjs NODE_MODULES PORT legacy|modern
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";

// The packages come from the folder that the benchmark was given.
export const require = createRequire(join(process.argv[2], "from-here.js"));
export const url = new URL(`http://127.0.0.1:${process.argv[3]}/mcp`);
export const modern = process.argv[4] === "modern";

const IN_FLIGHT = 32; // as many requests at a time as our client has

let seen = 0;
let awaited = Infinity;

// To be called for every update.
export function onUpdate() {
    if (++seen >= awaited)
        answerReached();
}

function answerReached() {
    awaited = Infinity;
    console.log(`reached ${seen}`);
}

export function urisOf(count) {
    return Array.from({ length: count }, (_, i) => `bench://resource/${i}`);
}

export async function subscribeEach(client, uris) {
    let next = 0;

    await Promise.all(Array.from({ length: IN_FLIGHT }, async () => {
        while (next < uris.length)
            await client.subscribeResource({ uri: uris[next++] });
    }));
}

// `connect` makes a client; `subscribe` takes it and a number.
export async function obey(connect, subscribe) {
    let client = await connect();

    console.log("ready");
    for await (const line of createInterface({ input: process.stdin })) {
        const [word, number] = line.split(" ");

        if (word === "await") {
            awaited = Number(number);
            if (seen >= awaited)
                answerReached();
        } else if (word === "settle") {
            globalThis.gc?.();
            console.log("settled");
        } else {
            if (word === "again") {
                await client.close();
                client = await connect();
            }
            await subscribe(client, Number(number));
            console.log("subscribed");
        }
    }
    process.exit(0);
}
