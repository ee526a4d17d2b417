// SPDX-License-Identifier: MIT
//
// What bench/fanout and a server in JavaScript say to each other. The server says
// "port N" on its output once it can be reached. It is told on its input, a line each:
//   publish COUNT   the resources 0 ... COUNT-1 have changed
//   settle          collect garbage, then answer "settled": memory is about to be read
// The end of the input ends the server.
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";

// The packages come from the folder that the benchmark was given.
export const require = createRequire(join(process.argv[2], "from-here.js"));

export function resourceUri(index) {
    return `bench://resource/${index}`;
}

let sequence = 0;

// Taken at the moment of publishing: what the load client computes latency from.
export function stamp() {
    return { seq: ++sequence, t: String(process.hrtime.bigint()) };
}

export function serve(server, publish) {
    server.listen({ host: "127.0.0.1", port: 0, backlog: 4096 }, () =>
        console.log(`port ${server.address().port}`));
    server.keepAliveTimeout = 0;
    server.requestTimeout = 0;

    createInterface({ input: process.stdin })
        .on("line", (line) => {
            const [word, count] = line.split(" ");

            if (word === "publish") {
                for (let i = 0; i < Number(count); i++)
                    publish(resourceUri(i));
            } else if (word === "settle") {
                globalThis.gc?.();
                console.log("settled");
            }
        })
        .on("close", () => process.exit(0));
}
