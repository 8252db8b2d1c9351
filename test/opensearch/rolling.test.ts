/** All processes of a real OpenSearch restart in their turn, under load: one at a time, and no acknowledged write is lost. */
import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { packagesForTests } from "../support/packages.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { asDatabase, Pods, type ProcessEvent } from "./pods.ts";
import { openSearchForTests } from "./program.ts";
import { Traffic } from "./traffic.ts";

const home = await openSearchForTests();
const packages = await packagesForTests();
const skip = home === undefined || packages === undefined || (await skipWithoutControlPlane());

/** How many processes were down at most at the same time: from their stop on, until they start again. */
function mostDown(journal: readonly string[]): number {
  const down = new Set<string>();
  let most = 0;
  for (const [event, name = ""] of journal.map((line) => line.split(" "))) {
    if (event === "start") down.delete(name);
    else down.add(name);
    most = Math.max(most, down.size);
  }
  return most;
}

/** Where the time goes, from the marks to the end: until each process is asked to stop, and until the next one has started. */
function phasesOf(events: readonly ProcessEvent[], markedMs: number, endedMs: number): readonly string[] {
  const later = events.filter(({ atMs }) => atMs >= markedMs);
  const moments = [...later, { event: "all restarts have ended", name: "", atMs: endedMs }];
  return moments.map(({ event, name, atMs }, at) => {
    const [since, from] = [atMs - (moments[at - 1]?.atMs ?? markedMs), atMs - markedMs];
    return `${(from / 1_000).toFixed(1)} s: ${event} ${name}, after ${(since / 1_000).toFixed(1)} s`;
  });
}

suite("three processes of a real OpenSearch that restart in their turn", { skip }, () => {
  let pods: Pods;
  let traffic: Traffic;

  before(async () => {
    if (home === undefined || packages === undefined) return;
    pods = await Pods.open({ home, packages, zones: 3, annotations: asDatabase, drainSeconds: "2" });
    traffic = await Traffic.start(pods, 10_000);
    await pods.startFunction();
  });

  after(async () => {
    await traffic?.stop();
    await pods?.close();
  });

  test("each restarts once with the new file, never two are down, no write is lost, and a reader sees no error", async (context) => {
    const { nodes, names } = pods;
    const uids = (await Promise.all(names.map((name) => pods.metadataOf(name)))).map(({ uid }) => uid);
    await pods.mount(["node.attr.x: after"]);
    const markedMs = Date.now();
    await Promise.all(names.map((name) => pods.mark(name, "schedule-rolling")));
    const ended = await pods.restarted(names);
    for (const line of phasesOf(await pods.events(), markedMs, Date.now())) context.diagnostic(line);
    await traffic.stop();
    assert.deepEqual(
      ended.map(({ uid }) => uid),
      uids,
    );
    const journal = await pods.journal();
    for (const name of names) {
      const own = journal.filter((line) => line.endsWith(name)).map((line) => line.split(" ")[0]);
      assert.deepEqual(own, ["start", "stopping", "stop", "start"], name);
    }
    assert.equal(mostDown(journal.slice(names.length)), 1);
    assert.ok(traffic.fewestNodes >= 2, `${traffic.fewestNodes} members`);
    assert.deepEqual(await nodes.settingsAt(names[0] ?? ""), {});
    assert.equal((await nodes.green(names[0] ?? "")).number_of_nodes, 3);
    assert.deepEqual(await traffic.lost(names[0] ?? ""), []);
    assert.deepEqual(traffic.readErrors, []);
    assert.equal(await pods.claims(), "");
    for (const name of names) {
      const { body } = await nodes.ask(name, "/_nodes/_local?filter_path=nodes.*.attributes");
      assert.match(JSON.stringify(body), /"x":"after"/, name);
    }
  });
});
