/** Waits until the code of all processes has gone as far as it can without another event. */

/** Resolves after the last microtask. A tick comes when all microtasks are done, and costs far less than `setImmediate`. */
export function microtasksDone(): Promise<void> {
  return new Promise(tickLater);
}

function tickLater(resolve: () => void): void {
  process.nextTick(resolve);
}
