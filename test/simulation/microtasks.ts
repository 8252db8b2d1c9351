/** When the code of all processes has gone on as far as it can without an event. */

/** From one microtask to after the last: ticks come when all of them are done, and cost far less than `setImmediate`. */
export function microtasksDone(): Promise<void> {
  return new Promise(tickLater);
}

function tickLater(resolve: () => void): void {
  process.nextTick(resolve);
}
