import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { type Play, type RunOptions, runDemo } from "./demo.ts";
import { Journal } from "./journal.ts";
import { readOptions } from "./options.ts";
import { exitCodeOf, summarise } from "./summary.ts";

const script = fileURLToPath(new URL("./main.ts", import.meta.url));

/** Two pods in each zone, one at a time: the shortest demo that has a middle. */
const small = ["--headless", "--pods", "2"];

interface Ending {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs the command line; `signal` is sent when a line that holds `at` comes. */
function runMain(args: readonly string[], interrupt?: { signal: NodeJS.Signals; at: string }): Promise<Ending> {
  return new Promise((resolve) => {
    let code: number | null = null;
    const child = execFile(process.execPath, [script, ...args], { timeout: 90_000 }, (_, stdout, stderr) =>
      resolve({ code, stdout, stderr }),
    );
    child.once("exit", (given) => {
      code = given;
    });
    if (interrupt === undefined) return;
    child.stdout?.on("data", (text: string) => {
      if (text.includes(interrupt.at)) child.kill(interrupt.signal);
    });
  });
}

async function run(meddle: RunOptions["meddle"]): Promise<{ play: Play; lines: string; summary: string }> {
  const lines: string[] = [];
  const play = await runDemo({
    ...readOptions(small).options,
    journal: new Journal(({ what }) => lines.push(what)),
    signal: new AbortController().signal,
    show: () => undefined,
    ...(meddle === undefined ? undefined : { meddle }),
  });
  return { play, lines: lines.join("\n"), summary: summarise(play, 1_000).join("\n") };
}

describe("the demo", { concurrency: true }, () => {
  test("headless, it rolls every pod in time, keeps the invariants, and says so", async () => {
    const { code, stdout, stderr } = await runMain(small);
    assert.equal(stderr, "");
    assert.equal(code, 0, stdout);
    assert.match(stdout, /a user gives every zone a new image/);
    assert.match(stdout, /db-zone-a-\d breaks/);
    assert.match(stdout, /db-zone-a-\d heals/);
    assert.match(stdout, /^Sluice demo: rolled$/m);
    assert.match(stdout, /^ {2}pods rolled +6 of 6$/m);
    assert.match(stdout, /^ {2}time +\d+\.\d s, \d+\.\d s of it with a broken pod; the limit is 7\.2 s/m);
    assert.match(stdout, /^ {2}worst unavailability +db-zone-a 1, db-zone-b 1, db-zone-c 1; 1 may be down in a zone$/m);
    assert.match(stdout, /^ {2}zones down at once +1 by Sluice, \d with the pod that broke$/m);
    assert.match(stdout, /^ {2}why it waited +(zones-down|zone-settling): /m);
    assert.match(stdout, /^ {2}API requests +\d+ \(\d+\.\d a pod\): .*\d+\sdelete/m);
    assert.match(stdout, /^ {2}watch events lost +\d+ of \d+ \(\d+ %\)$/m);
    assert.match(stdout, /^ {2}invariants +Z1, Z2, Z3 and Z4 kept by 6 deletions/m);
    assert.ok(stdout.split("\n").length < 200);
  });

  test("whoever deletes ready pods in two zones breaks an invariant, and the exit code is 1", async () => {
    const { play, summary } = await run(({ stage: { world, group } }) => {
      for (const { namespace, name } of group.statefulSets.slice(1)) {
        for (const ordinal of [0, 1]) world.store.delete("pods", { namespace, name: `${name}-${ordinal}` });
      }
    });
    assert.equal(play.outcome, "broken promise");
    assert.equal(exitCodeOf(play), 1);
    assert.match(summary, /AN INVARIANT IS BROKEN/);
    assert.match(summary, /Z1 IS BROKEN +Sluice took db-zone-c-\d while db-zone-b-/);
  });

  test("when Sluice's process dies, its last lines are shown and the exit code is 1", async () => {
    const { play, summary } = await run(({ sluice }) => void sluice.stop());
    assert.equal(play.outcome, "sluice ended");
    assert.equal(exitCodeOf(play), 1);
    assert.match(summary, /Sluice's process +exit code 0; its last lines:/);
    assert.match(summary, /SIGTERM: ending what is queued/);
  });

  test("Ctrl-C ends it with 130", async () => {
    const { code, stdout } = await runMain(small, { signal: "SIGINT", at: "Sluice is ready" });
    assert.equal(code, 130);
    assert.match(stdout, /Sluice demo: interrupted/);
  });

  test("a wrong flag ends it with 2, and says what to write", async () => {
    for (const args of [["--fast"], ["--pods", "0"], ["--pods", "many"], ["--drop", "1"], ["--seed", "-1"], ["more"]]) {
      const { code, stdout, stderr } = await runMain(args);
      assert.equal(code, 2, args.join(" "));
      assert.equal(stdout, "");
      assert.notEqual(stderr, "");
    }
    assert.deepEqual(readOptions(["--pods", "0"]).mistakes, ['--pods is "0", and must be a whole number from 1 to 60']);
  });

  test("--help says how it is used", async () => {
    const { code, stdout } = await runMain(["--help"]);
    assert.equal(code, 0);
    for (const flag of ["--headless", "--seed", "--pods", "--drop"]) assert.ok(stdout.includes(flag));
  });
});
