/**
 * Loaded before anything else into processes that make millions of promises: node:test does not follow each of them there. It
 * does so by a hook, to say which test an error belongs to that no code has caught, and that takes half of the time of a
 * simulation. Without it such an error still fails the file. A test may not declare another one after an `await`, unless by its
 * own context: it would count as a test of the file.
 */
import { createHook } from "node:async_hooks";
import { after } from "node:test";

/** What hooks have in common, with the method by which node:test begins to follow. */
const hooks = Object.getPrototypeOf(createHook({})) as ReturnType<typeof createHook>;
const { enable } = hooks;
const enabled: ReturnType<typeof createHook>[] = [];
hooks.enable = function (this: typeof hooks) {
  enabled.push(this);
  return enable.call(this);
};
// The first call of any kind has node:test begin.
after(() => {});
hooks.enable = enable;
for (const hook of enabled) hook.disable();
