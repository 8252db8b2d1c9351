/** All processes of a real OpenSearch restart in their turn, under load: one at a time, and no acknowledged write is lost. */
import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { eventually } from "../controlplane/api.ts";
import type { ProcessEvent } from "./journal.ts";
import { type Health, slowMs } from "./nodes.ts";
import { skip, stage } from "./stage.ts";
import { Traffic } from "./traffic.ts";

/** The setting that bounds how fast copies are made. */
const recoveryRate = "indices.recovery.max_bytes_per_sec";

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
  let traffic: Traffic;

  after(() => traffic?.stop());

  const on = stage(() => ({
    drainSeconds: "2",
    async prepare(pods) {
      traffic = await Traffic.start(pods, 10_000);
    },
  }));

  test("each restarts once with the new file, never two are down, no write is lost, and a reader sees no error", async (context) => {
    const { pods } = on;
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

  test("a yellow database is waited for while copies move, and restarted in turn when it is yellow and nothing moves", async () => {
    const { pods } = on;
    const { nodes, names } = pods;
    const [first = ""] = names;
    const begun = (await pods.journal()).length;
    const since = async () => (await pods.journal()).slice(begun);
    // One copy more than there are nodes: it is never assigned.
    const settings = { number_of_shards: 1, number_of_replicas: names.length };
    assert.equal((await nodes.ask(first, "/spare", "PUT", { settings })).status, 200);
    assert.equal(await nodes.set(first, { [recoveryRate]: "30kb" }), 200);
    await nodes.ask(first, "/documents/_settings", "PUT", { number_of_replicas: 0 });
    await nodes.ask(first, "/documents/_settings", "PUT", { number_of_replicas: names.length - 1 });
    const logged = pods.log.length;
    await Promise.all(names.map((name) => pods.mark(name, "schedule-rolling")));
    // Whether the cluster still notes its tasks at that moment is a matter of chance.
    const waits = /the database is yellow, and (\d shards initialise|tasks of its cluster wait)/;
    await eventually("a wait for what moves", slowMs, async () => waits.test(pods.log.slice(logged)) || undefined);
    await eventually("copies that move", slowMs, async () => {
      const { body } = await nodes.ask<Health>(first, "/_cluster/health");
      return (body.status === "yellow" && body.initializing_shards > 0) || undefined;
    });
    assert.deepEqual(await since(), []);
    assert.equal(await nodes.set(first, { [recoveryRate]: null }), 200);
    await pods.restarted(names);
    const events = names.flatMap((name) => ["stopping", "stop", "start"].map((event) => `${event} ${name}`));
    assert.deepEqual((await since()).toSorted(), events.toSorted(), "each restarts once");
    assert.equal(mostDown(await since()), 1);
    assert.equal((await nodes.ask<Health>(first, "/_cluster/health")).body.status, "yellow");
    assert.deepEqual(await nodes.settingsAt(first), {});
    assert.equal(await pods.claims(), "");
  });

  test("database-settled: a red database is not touched, and its process restarts when the database is not red any more", async () => {
    const { pods } = on;
    const { nodes, names } = pods;
    const [first = "", other = ""] = names;
    const begun = (await pods.journal()).length;
    const since = async () => (await pods.journal()).slice(begun);
    // No node has this name, so that its only copy is nowhere.
    const settings = { number_of_shards: 1, number_of_replicas: 0, "routing.allocation.require._name": "none" };
    assert.equal((await nodes.ask(other, "/nowhere?wait_for_active_shards=0", "PUT", { settings })).status, 200);
    const logged = pods.log.length;
    await pods.mark(first, "schedule-rolling");
    const waits = /the database is red/;
    await eventually("a wait for a red database", slowMs, async () => waits.test(pods.log.slice(logged)) || undefined);
    assert.equal((await nodes.ask<Health>(other, "/_cluster/health")).body.status, "red");
    assert.deepEqual([await since(), await pods.claims()], [[], ""]);
    assert.equal((await nodes.ask(other, "/nowhere", "DELETE")).status, 200);
    await pods.restarted([first]);
    assert.deepEqual(await since(), [`stopping ${first}`, `stop ${first}`, `start ${first}`]);
  });
});
