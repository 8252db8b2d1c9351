/**
 * Loaded into the process of a test file whose machines have watchdogs of a second. The kernel runs this process, and all that it
 * starts, before the processes of other files (SCHED_RR). Otherwise a busy machine resets a node that only the load has kept from
 * feeding its watchdog. A higher priority by `nice` is not enough: it counts among the processes of one session only, and each
 * machine is a session of its own. Where the system refuses, the file runs like the others.
 */
import { spawnSync } from "node:child_process";

const chrt = spawnSync("chrt", ["--all-tasks", "--rr", "--pid", "1", String(process.pid)], { encoding: "utf8" });
if (chrt.status !== 0)
  console.error(`this file waits for the processor like the others: ${chrt.error?.message ?? chrt.stderr.trim()}`);
