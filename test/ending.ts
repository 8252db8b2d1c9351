/**
 * Loaded into the process of each test file: it ends one that does not end by itself, so that a run fails and says why where it
 * would stand still. The runner waits for such a process for ever, whatever its own time limit is.
 */
import { after } from "node:test";
import { isMainThread } from "node:worker_threads";
import { childrenOf } from "./controlplane/processes.ts";

/** Longer than any file takes: the slowest needs some four minutes. */
const longestMs = 15 * 60_000;
/** What a file leaves behind it has this long to end. */
const graceMs = 20_000;

/** Kept by nothing, these timers ring only where something else keeps the process. */
function endAfter(delayMs: number, sentence: string): void {
  setTimeout(() => {
    const handles = process.getActiveResourcesInfo().join(", ");
    const children = childrenOf(process.pid).map((command) => `\n  ${command}`);
    console.error(`${sentence}\nwhat keeps it: ${handles}\nits children:${children.join("") || " none"}`);
    process.exit(1);
  }, delayMs).unref();
}

if (isMainThread) {
  endAfter(longestMs, `this file's tests have not ended within ${longestMs / 60_000} minutes`);
  after(() => endAfter(graceMs, `this file's tests have ended, and ${graceMs / 1_000} s later its process has not`));
}
