// SPDX-License-Identifier: MIT
// Loaded into the official suite before itself: the times of up to 1.5 s that it gives a
// server for an answer or an event are too short for a machine that is busy with other work.
// Most end early, where the answer comes; the suite's other times stay.
const shortest = 500; // ms
const longest = 1500;
const factor = 10;
const { setTimeout } = globalThis;

globalThis.setTimeout = (callback, delay, ...args) => setTimeout(callback,
  delay >= shortest && delay <= longest ? delay * factor : delay, ...args);
