/** Programs in networks of their own: netns, which the tests of queue-proxy and the dispatcher use, by itself. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { eventually } from "../../controlplane/api.ts";
import { launch } from "../../controlplane/processes.ts";
import { findDataPlane, skipWithoutDataPlane } from "./assets.ts";
import { canConfine } from "./confinement.ts";

const missing = await skipWithoutDataPlane();
const dataPlane = missing ? { folder: "" } : await findDataPlane(() => {});
const skip = missing || ((await canConfine(dataPlane)) ? false : "this machine gives no network namespaces");

suite("a program in a network of its own", { skip }, () => {
  const start = (script: string) =>
    launch(`${dataPlane.folder}/netns`, ["--", "/bin/sh", "-c", script], { output: "pipe" });

  test("its end is the end of netns, with the same exit code", async () => {
    assert.equal((await start("exit 7").ended).code, 7);
    assert.equal((await start("kill -KILL $$").ended).code, 128 + 9);
  });

  test("it ends when netns is killed", async () => {
    // The half inside is the parent of the program, and the other one its parent.
    const printOutside = "while read key value; do test $key != PPid: || echo $value; done < /proc/$PPID/status";
    const launched = start(`${printOutside}; exec sleep 600`);
    const outside = await eventually("a pid", 30_000, async () => Number(launched.printed().stdout) || undefined);
    process.kill(outside, "SIGKILL");
    // Which comes when no process has its output open any more.
    await eventually("its end", 30_000, async () => launched.end());
  });

  test("it gets the signals that are sent to netns and its group, and may take its time", async () => {
    const launched = start("trap 'echo asked; exit 3' TERM; echo started; while :; do sleep 0.05; done");
    await eventually("its start", 30_000, async () => launched.printed().stdout.includes("started") || undefined);
    const { code } = await launched.stop(30_000);
    assert.equal(code, 3);
    assert.match(launched.printed().stdout, /asked/);
  });
});
