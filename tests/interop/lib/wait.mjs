// SPDX-License-Identifier: MIT
// Waiting for things to happen, always with an end.

export const patience = 60_000; // ms; long, because machines that test are busy

export function within(promise, what, ms = patience) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not within ${ms} ms: ${what}`)), ms);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

// For what shows itself only when asked. Returns the first answer that is not false.
export async function until(ask, what, ms = patience) {
  const end = Date.now() + ms;
  for (;;) {
    const answer = await ask();
    if (answer) return answer;
    if (Date.now() > end) throw new Error(`not within ${ms} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

// What arrived and was not asked for yet, in order.
export class Inbox {
  items = [];
  #waiting = [];

  push(item) {
    const index = this.#waiting.findIndex((waiter) => waiter.match(item));
    if (index < 0) this.items.push(item);
    else this.#waiting.splice(index, 1)[0].resolve(item);
  }

  // The first that matches, which leaves the inbox; waits for it if need be.
  next(match, what, ms = patience) {
    const index = this.items.findIndex(match);
    if (index >= 0) return Promise.resolve(this.items.splice(index, 1)[0]);
    let waiter;
    const found = new Promise((resolve) => {
      waiter = { match, resolve };
      this.#waiting.push(waiter);
    });
    return within(found, what, ms).catch((error) => {
      this.#waiting = this.#waiting.filter((other) => other !== waiter);
      throw new Error(`${error.message}; what came instead: ${JSON.stringify(this.items)}`);
    });
  }
}
