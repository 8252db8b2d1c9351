/** Nodes are fenced among drawn cuts of the network, on real machines; and the command line that plays more of them. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { read } from "../support/tree.ts";
import { shortenedTimes } from "./changed-sources.ts";
import { skipWithoutNamespaces } from "./network.ts";
import { environmentWithout, removedFenceRules } from "./removed-rules.ts";
import { drawCutScript } from "./scripts.ts";
import { CutStage } from "./stage.ts";

const scripts = 20;
const main = join(import.meta.dirname, "partitions.ts");
const skip = (await skipWithoutControlPlane()) || (await skipWithoutNamespaces());

test("no pod runs on two nodes, no Node is lost, and each fence ends, in drawn scripts of cuts (A1, A6, A8, L1)", {
  skip,
}, async (context) => {
  const first = 1 + Math.floor(Math.random() * 1_000_000);
  const stage = await CutStage.start();
  try {
    for (let seed = first; seed < first + scripts; seed++) {
      const { violations, history, tookMs } = await stage.play(drawCutScript(seed));
      context.diagnostic(`seed ${seed}: ${(tookMs / 1_000).toFixed(1)} s`);
      if (violations.length > 0) console.error(stage.cluster.logs);
      const again = `to see it again: npx node test/fencing/partitions.ts --seed ${seed}`;
      assert.deepEqual(violations, [], `${history.join("\n")}\n${again}\n`);
    }
  } finally {
    await stage.stop();
  }
});

test("the same seed draws the same script, which marks one node or two and ends", () => {
  for (let seed = 1; seed <= 1_000; seed++) {
    const script = drawCutScript(seed);
    assert.deepEqual(drawCutScript(seed), script);
    const { marked, events, healsAtMs } = script;
    assert.ok(marked.length === 1 || marked.length === 2);
    assert.equal(events.filter(({ event }) => event.kind === "mark").length, marked.length);
    assert.ok(events.every(({ atMs }, at) => atMs >= (events[at - 1]?.atMs ?? 0) && atMs < healsAtMs));
  }
});

for (const removed of removedFenceRules) {
  test(`a program can be started without the rule ${removed.rule}`, () => {
    const load = `await import(${JSON.stringify(join(import.meta.dirname, "../..", removed.file))})`;
    const env = { PATH: process.env.PATH, ...environmentWithout(removed) };
    const { status, stderr } = spawnSync(process.execPath, ["--eval", load], { encoding: "utf8", env });
    assert.deepEqual({ status, stderr }, { status: 0, stderr: "" });
  });
}

test("each time of the function that a suite shortens stands once in its source", () => {
  for (const { file, text } of shortenedTimes)
    assert.equal(read(file)[0]?.text.split(text).length, 2, `${file}: ${text}`);
});

test("the command line of the scripts reports what is wrong with a flag, and then starts nothing", () => {
  const wrong = [
    [["--scripts", "0"], /^--scripts 0: must be a whole number from 1 to 1000000$/m],
    [["--seed", "x"], /^--seed x: must be a whole number from 1 to /m],
    [["--without", "A-none"], /^--without A-none: must be A-quorum or /m],
    [["--without", "A-time", "--seed", "3"], /^--seed: without a rule one fixed script is played$/m],
    [["--script", "3"], /^--script: no such flag; see --help$/m],
  ] as const;
  for (const [args, mistake] of wrong) {
    const { status, stdout, stderr } = spawnSync(process.execPath, [main, ...args], { encoding: "utf8" });
    assert.deepEqual({ status, stdout }, { status: 2, stdout: "" }, stderr);
    assert.match(stderr, mistake);
  }
  const { status, stdout } = spawnSync(process.execPath, [main, "--help"], { encoding: "utf8" });
  assert.equal(status, 0);
  assert.match(stdout, /--scripts N/);
});
