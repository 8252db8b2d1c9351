/**
 * Loaded first into processes that make millions of promises, so that node:test does not follow each of them. node:test
 * follows promises by a hook, to assign an uncaught error to its test, and that takes half of the time of a simulation.
 * Without the hook such an error still fails the file. After an `await` a test may declare a subtest only by its own context:
 * otherwise it would count as a test of the file.
 */
import { createHook } from "node:async_hooks";
import { after } from "node:test";

/** The prototype of hooks, with the method by which node:test begins to follow. */
const hooks = Object.getPrototypeOf(createHook({})) as ReturnType<typeof createHook>;
const { enable } = hooks;
const enabled: ReturnType<typeof createHook>[] = [];
hooks.enable = function (this: typeof hooks) {
  enabled.push(this);
  return enable.call(this);
};
// The first call of any kind makes node:test begin.
after(() => {});
hooks.enable = enable;
for (const hook of enabled) hook.disable();
