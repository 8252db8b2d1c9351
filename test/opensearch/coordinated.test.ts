/**
 * All processes of a real OpenSearch restart together, because nodes of the old name of the cluster and nodes of the new one do
 * not join each other. The function is killed while they stop, and again while they start.
 */
import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { eventually } from "../controlplane/api.ts";
import { packagesForTests } from "../support/packages.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { slowMs } from "./nodes.ts";
import { asDatabase, Pods } from "./pods.ts";
import { openSearchForTests } from "./program.ts";
import { assertNothingLeft, assertTogether, writeDocument } from "./together.ts";

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
    const last = names.at(-1) ?? "";
    await writeDocument(pods);
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
    await assertTogether(pods, since);
    await assertNothingLeft(pods);
    for (const name of names) {
      const { body } = await nodes.ask<{ readonly cluster_name: string }>(name, "/");
      assert.equal(body.cluster_name, "renamed", name);
    }
  });
});
