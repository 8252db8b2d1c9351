import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import type { Status } from "../../functions/shared/contract/status.ts";
import { eventually } from "../controlplane/api.ts";
import { Journal } from "../support/journal.ts";
import { runDemo } from "./demo.ts";
import { readOptions } from "./options.ts";
import { drawPicture } from "./picture.ts";
import type { Play, RunOptions } from "./play.ts";
import { webhookConfiguration } from "./registration.ts";
import { exitCodeOf, summarise } from "./summary.ts";

const script = fileURLToPath(new URL("./main.ts", import.meta.url));

/** Two pods in each zone, one at a time: the shortest demo that has a middle. */
const small = ["--headless", "--pods", "2"];

interface Ending {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs the command line. Sends `signal` when a line that contains `at` comes. */
function runMain(args: readonly string[], interrupt?: { signal: NodeJS.Signals; at: string }): Promise<Ending> {
  return new Promise((resolve) => {
    let code: number | null = null;
    const child = execFile(process.execPath, [script, ...args], { timeout: 180_000 }, (_, stdout, stderr) =>
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

async function readTitle(url: string): Promise<string> {
  const page = await fetch(url)
    .then((answer) => answer.text())
    .catch(() => "");
  return /<title>(.*)<\/title>/.exec(page)?.[1] ?? "";
}

/** The state of the one group of the page. */
async function readState(url: string): Promise<string | undefined> {
  const { groups } = (await fetch(new URL("?format=json", url)).then((answer) => answer.json())) as Status;
  return groups[0]?.state;
}

async function run(meddle?: RunOptions["meddle"]): Promise<{ play: Play; summary: string; pictures: string[][] }> {
  const pictures: string[][] = [];
  const play = await runDemo({
    ...readOptions(small).options,
    journal: new Journal(() => undefined),
    signal: new AbortController().signal,
    show: (shown) => pictures.push(drawPicture(shown, { columns: 80, paint: (_, text) => text })),
    ...(meddle === undefined ? undefined : { meddle }),
  });
  return { play, summary: summarise(play, 1_000).join("\n"), pictures };
}

describe("the demo", { concurrency: true }, () => {
  test("headless, the demo rolls every pod and drains every node in time, keeps the invariants, and reports that", async () => {
    const { code, stdout, stderr } = await runMain(small);
    assert.equal(stderr, "");
    assert.equal(code, 0, stdout);
    assert.match(stdout, /a user gives every zone a new image/);
    assert.match(stdout, /db-zone-a-\d breaks/);
    assert.match(stdout, /db-zone-a-\d heals/);
    assert.match(stdout, /reviews are answered on TLS port \d+ with the certificate of DNS:localhost/);
    assert.match(stdout, /\d nodes are drained at once: \d pods of all zones are to go/);
    assert.match(stdout, /db-zone-[abc]-\d is evicted/);
    assert.match(stdout, /refused with 429, zones-down: /);
    assert.match(stdout, /a dry run: db-zone-[abc]-\d could go, and stays/);
    assert.match(stdout, /db-zone-a-1 is told to leave, and refuses with 409/);
    assert.match(
      stdout,
      /refused with 429: .*: pod db-zone-a-1 did not say that it may leave: .*HTTP 409 the partition/,
    );
    assert.match(
      stdout,
      /db-zone-a-1 is told to leave, and confirms[\s\S]*db-zone-a-1 leaves for good[\s\S]*has 1 pods?$/m,
    );
    assert.match(stdout, /refused with 429: downscale of statefulsets\/db-zone-b in demo .*db-zone-a/);
    assert.doesNotMatch(stdout, /db-zone-b-\d is told/);
    assert.match(stdout, /^Sluice demo: rolled$/m);
    assert.match(stdout, /^ {2}pods rolled +6 of 6$/m);
    assert.match(stdout, /^ {2}time +\d+\.\d s, \d+\.\d s of it with a broken pod; the limit is \d+\.\d s \(6 pods/m);
    assert.match(stdout, /^ {2}worst unavailability +db-zone-a 1, db-zone-b 1, db-zone-c 1; 1 may be down in a zone$/m);
    assert.match(stdout, /^ {2}zones down at once +1 by Sluice, \d with the pod that broke$/m);
    assert.match(stdout, /^ {2}why it waited +(zones-down|zone-settling): /m);
    assert.match(stdout, /^ {2}drains +(\d) of \1 pods of \d nodes gone in \d+\.\d s: \d evicted, \d rolled$/m);
    assert.match(stdout, /^ {2}the last refusal +(zones-down|zone-budget): /m);
    assert.match(stdout, /^ {2}dry run +db-zone-[abc]-\d could go, after \d+ refusals; it left no trace$/m);
    assert.match(stdout, /^ {2}downscale +db-zone-a from 2 to 1: of 1 pods 1 gone$/m);
    assert.match(stdout, /^ {2}API requests +\d+ \(\d+\.\d a pod\): .*\d+\sdelete/m);
    assert.match(stdout, /^ {2}watch events lost +\d+ of \d+ \(\d+ %\)$/m);
    const [, deletions, evictions] =
      /^ {2}invariants +Z1, Z2, Z3, Z4, E1 and E2 kept by (\d) deletions and (\d) evictions/m.exec(stdout) ?? [];
    assert.ok(Number(deletions) + Number(evictions) >= 6, stdout);
    assert.ok(Number(evictions) > 0, stdout);
    const [, refused, byGuard = ""] = /^ {2}refused reviews +(\d+): (.*)$/m.exec(stdout) ?? [];
    const guards = [...byGuard.matchAll(/(\d+) [a-z-]+/g)].map(([, count]) => Number(count));
    assert.equal(
      guards.reduce((sum, count) => sum + count, 0),
      Number(refused),
      "each refusal has its guard",
    );
    assert.ok(stdout.split("\n").length < 200);
  });

  test("a user who deletes ready pods in two zones breaks an invariant, and the demo exits 1", async () => {
    const { play, summary } = await run(({ stage: { world, group } }) => {
      for (const { namespace, name } of group.statefulSets.slice(1)) {
        for (const ordinal of [0, 1]) world.store.delete("pods", { namespace, name: `${name}-${ordinal}` });
      }
    });
    assert.equal(play.outcome, "broken promise");
    assert.equal(exitCodeOf(play), 1);
    assert.match(summary, /AN INVARIANT IS BROKEN/);
    assert.match(
      summary,
      /Z1 IS BROKEN +Sluice took db-zone-([bc])-\d \(rollout\): db-zone-(?!\1)[bc]-\d.* in another zone was taken/,
    );
  });

  test("evictions that no webhook reviews break an invariant, and the demo exits 1", async () => {
    const { play, summary } = await run(({ stage: { world } }) => {
      const webhooks = "mutatingwebhookconfigurations";
      const { webhooks: known = [] } = world.store.get(webhooks, webhookConfiguration);
      world.store.patch(webhooks, webhookConfiguration, { webhooks: known.map((one) => ({ ...one, rules: [] })) });
    });
    assert.equal(play.outcome, "broken promise");
    assert.equal(exitCodeOf(play), 1);
    assert.match(summary, /(Z1|E1) IS BROKEN +Sluice took db-zone-[abc]-\d \(eviction\): /);
  });

  test("the picture fits 80 columns and 24 rows, and shows the storm", async () => {
    const { play, pictures } = await run();
    assert.equal(play.outcome, "rolled", summarise(play, 1_000).join("\n"));
    const tooWide = pictures.flat().filter((line) => line.length > 80);
    assert.deepEqual(tooWide, []);
    assert.deepEqual([...new Set(pictures.map((lines) => lines.length))], [23]);
    const storm = pictures.map((lines) => lines.join("\n")).filter((picture) => picture.includes("a drain storm"));
    assert.ok(
      storm.some((picture) => /^ db-zone-[abc] {2}.*▽/m.test(picture)),
      storm[0],
    );
    assert.ok(
      storm.some((picture) => /^ drains {8}\d of \d pods of \d nodes gone; [1-9] evicted, [1-9]/m.test(picture)),
      storm.at(-1),
    );
    assert.ok(
      storm.some((picture) => /^ refused {7}(zones-down|zone-budget): /m.test(picture)),
      storm.at(-1),
    );
    const downscale = pictures.map((lines) => lines.join("\n")).filter((picture) => picture.includes("a downscale"));
    assert.ok(
      downscale.some((picture) =>
        /^ downscale {5}db-zone-a from 2 to 1: [\s\S]*^ refused {7}downscale of /m.test(picture),
      ),
      downscale.at(-1),
    );
  });

  test("a downscale that no webhook reviews removes a pod that has not agreed: D1 is broken, and the demo exits 1", async () => {
    const { play, summary } = await run(({ stage: { world } }) => {
      const webhooks = "mutatingwebhookconfigurations";
      const { webhooks: known = [] } = world.store.get(webhooks, webhookConfiguration);
      world.store.patch(webhooks, webhookConfiguration, { webhooks: known.slice(0, 1) });
    });
    assert.equal(play.outcome, "broken promise");
    assert.equal(exitCodeOf(play), 1);
    assert.match(summary, /D1 IS BROKEN +db-zone-a-1 leaves, and has not said that it may/);
  });

  test("when Sluice's process dies, its last lines are shown and the exit code is 1", async () => {
    const { play, summary } = await run(({ sluice }) => void sluice.stop());
    assert.equal(play.outcome, "sluice ended");
    assert.equal(exitCodeOf(play), 1);
    assert.match(summary, /Sluice's process +exit code 0; its last lines:/);
    assert.match(summary, /SIGTERM: ending the queued work/);
  });

  test("with --page the page has all of the demo, stays at its end, and Ctrl-C ends it with 0", async (context) => {
    const { promise: lingers, resolve } = Promise.withResolvers<string>();
    const child = execFile(process.execPath, [script, ...small, "--page"], { timeout: 180_000 });
    context.after(() => child.kill("SIGKILL"));
    const seen = new Set<string>();
    let printed = "";
    child.stdout?.on("data", (text: string) => {
      printed += text;
      const [, url] = /^the page: (\S+)$/m.exec(printed) ?? [];
      if (/^The page stays at \S+ until Ctrl-C\.$/m.test(printed)) resolve(url ?? "");
      // Each line of the demo is a change.
      if (url !== undefined) void readTitle(url).then((title) => seen.add(title));
    });
    const url = await lingers;
    assert.match(printed, /^Sluice demo: rolled$/m);
    assert.ok(seen.has("1 group at work · Sluice"), [...seen].join("; "));
    // Its evictions were refused a moment ago, so that it is done, and idle only after two minutes.
    await eventually("the group done", 30_000, async () => ((await readState(url)) === "done" ? true : undefined));
    child.kill("SIGINT");
    const [code] = await once(child, "exit");
    assert.equal(code, 0);
    assert.equal(printed.match(/^Sluice demo: /gm)?.length, 1, printed);
  });

  test("Ctrl-C ends the demo with 130", async () => {
    const { code, stdout } = await runMain(small, { signal: "SIGINT", at: "Sluice is ready" });
    assert.equal(code, 130);
    assert.match(stdout, /Sluice demo: interrupted/);
  });

  test("a wrong flag ends the demo with 2, and a message says what to write", async () => {
    for (const args of [["--fast"], ["--pods", "0"], ["--pods", "many"], ["--drop", "1"], ["--seed", "-1"], ["more"]]) {
      const { code, stdout, stderr } = await runMain(args);
      assert.equal(code, 2, args.join(" "));
      assert.equal(stdout, "");
      assert.notEqual(stderr, "");
    }
    assert.deepEqual(readOptions(["--pods", "0"]).mistakes, ['--pods is "0", and must be a whole number from 1 to 60']);
  });

  test("--help prints the usage", async () => {
    const { code, stdout } = await runMain(["--help"]);
    assert.equal(code, 0);
    for (const flag of ["--headless", "--seed", "--pods", "--drop", "--page"]) assert.ok(stdout.includes(flag));
  });
});
