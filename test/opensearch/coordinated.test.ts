/**
 * All processes of a real OpenSearch restart together, because nodes of the old name of the cluster and nodes of the new one do not
 * join each other. The function is killed while they stop, and again while they start.
 */
import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { eventually } from "../controlplane/api.ts";
import { packagesForTests } from "../support/packages.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { slowMs } from "./nodes.ts";
import { asDatabase, Pods, phaseKey } from "./pods.ts";
import { openSearchForTests } from "./program.ts";

const home = await openSearchForTests();
const packages = await packagesForTests();
const skip = home === undefined || packages === undefined || (await skipWithoutControlPlane());

suite("three processes of a real OpenSearch that restart together", { skip }, () => {
  let pods: Pods;

  before(async () => {
    if (home === undefined || packages === undefined) return;
    pods = await Pods.open({ home, packages, zones: 3, annotations: asDatabase, hasSecrets: true });
    await pods.startFunction();
  });

  after(() => pods?.close());

  test("none starts before all are down, the function may be killed, and documents and allocation are as before", async () => {
    const { nodes, names } = pods;
    const [first = "", , last = ""] = names;
    const copies = { settings: { number_of_shards: 1, number_of_replicas: names.length - 1 } };
    assert.equal((await nodes.ask(first, "/documents", "PUT", copies)).status, 200);
    assert.equal((await nodes.ask(first, "/documents/_doc/1?refresh=true", "PUT", { text: "before" })).status, 201);
    await nodes.green(first);
    const begun = (await pods.journal()).length;
    const since = async () => (await pods.journal()).slice(begun);
    const noted = (event: string) =>
      eventually(`a process with ${event}`, slowMs, async () =>
        (await since()).some((line) => line.startsWith(`${event} `)) ? true : undefined,
      );
    await pods.setBusy(last, true);
    await pods.expect(["cluster.name: renamed"]);
    await pods.markSets("schedule-coordinated");
    await noted("stop");
    await pods.startFunction();
    const waits = `none starts before: ${last}`;
    await eventually("what the next function does", slowMs, async () => {
      return pods.log.includes(waits) || (await since()).some((line) => line.startsWith("start ")) || undefined;
    });
    assert.ok(pods.log.includes(waits), "none starts while the last one is stopping");
    await pods.setBusy(last, false);
    await noted("start");
    await pods.startFunction();
    const ended = await pods.restarted(names);
    const journal = await since();
    const events = (event: string) => names.map((name) => `${event} ${name}`).sort();
    assert.deepEqual(journal.slice(0, 2 * names.length).sort(), [...events("stop"), ...events("stopping")]);
    assert.deepEqual(journal.slice(2 * names.length).sort(), events("start"), "each starts once, after all are down");
    assert.deepEqual(await nodes.settingsAt(first), {}, "allocation is as the user had it, without a marker");
    assert.equal((await nodes.green(first)).number_of_nodes, names.length);
    for (const name of names) {
      const { body } = await nodes.ask<{ readonly cluster_name: string }>(name, "/");
      assert.equal(body.cluster_name, "renamed", name);
      const found = await nodes.ask(name, "/documents/_doc/1?preference=_local");
      assert.equal(found.status, 200, name);
    }
    assert.equal(await pods.claims(), "");
    const keys = ended.flatMap(({ annotations = {} }) => Object.keys(annotations));
    assert.ok(!keys.includes("sluice.dev/restart-id"), "pods have no id");
    // The ids of StatefulSets go last.
    await eventually("StatefulSets without a phase and an id", slowMs, async () => {
      const left = await pods.keysOfSets();
      return left.includes(phaseKey) || left.includes("sluice.dev/restart-id") ? undefined : true;
    });
  });
});
