/**
 * Loaded into the process of each test file. It ends a process that does not end by itself, so that the run fails with a reason:
 * the runner would wait for such a process for ever, whatever its own time limit is. It also writes what the process cost.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after } from "node:test";
import { isMainThread } from "node:worker_threads";
import { childrenOf } from "./controlplane/processes.ts";

/** Longer than any process takes: the slowest, half of the simulation, needs some five minutes. */
const longestMs = 30 * 60_000;
/** How long a process may take to end after its last test. */
const graceMs = 20_000;

/** Such a timer does not keep the process alive. It fires only if something else does. */
function endAfter(delayMs: number, message: string): void {
  setTimeout(() => {
    const handles = process.getActiveResourcesInfo().join(", ");
    const children = childrenOf(process.pid).map((command) => `\n  ${command}`);
    console.error(`${message}\nwhat keeps it: ${handles}\nits children:${children.join("") || " none"}`);
    process.exit(1);
  }, delayMs).unref();
}

/** The kernel counts in hundredths of a second (USER_HZ). */
const msPerTick = 10;
/** Of `/proc/self/stat`, after the name: the time in user and kernel mode, of the process and of its ended children. */
const [firstTime, lastTime] = [11, 15];

/** Processor time that this process and its ended children have used. Throws if there is no `/proc`. */
function usedMs(): number {
  const stat = readFileSync("/proc/self/stat", "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return fields.slice(firstTime, lastTime).reduce((sum, ticks) => sum + Number(ticks) * msPerTick, 0);
}

function writeCost(folder: string): void {
  try {
    writeFileSync(join(folder, `${process.pid}`), `${usedMs()}`);
  } catch {
    // Without the figure the runner takes its default, as for a file that it has not run yet.
  }
}

if (isMainThread) {
  const folder = process.env.SLUICE_TEST_COST;
  // Processes that a test starts must not count twice: their parent's figure includes them.
  delete process.env.SLUICE_TEST_COST;
  if (folder !== undefined) process.once("exit", () => writeCost(folder));
  endAfter(longestMs, `this file's tests have not ended within ${longestMs / 60_000} minutes`);
  after(() => endAfter(graceMs, `this file's tests have ended, and ${graceMs / 1_000} s later its process has not`));
}
