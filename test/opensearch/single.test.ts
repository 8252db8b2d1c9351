/**
 * A person marks a pod of a database, and its process restarts in place with the file that is mounted now: the shipped function
 * and process manager, a real API server, and a real OpenSearch.
 */
import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { packagesForTests } from "../support/packages.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { allocation } from "./nodes.ts";
import { asDatabase, Pods } from "./pods.ts";
import { openSearchForTests } from "./program.ts";

const home = await openSearchForTests();
const packages = await packagesForTests();
const skip = home === undefined || packages === undefined || (await skipWithoutControlPlane());
const name = "db-zone-a-0";

suite("a process of a real OpenSearch that restarts inside its pod", { skip }, () => {
  let pods: Pods;

  before(async () => {
    if (home === undefined || packages === undefined) return;
    const annotations = asDatabase;
    pods = await Pods.open({ home, packages, zones: 1, annotations });
    await pods.startFunction();
  });

  after(() => pods?.close());

  const attributes = async () => {
    const { body } = await pods.nodes.ask<{
      readonly nodes: Readonly<Record<string, { readonly attributes: object }>>;
    }>(name, "/_nodes/_local?filter_path=nodes.*.attributes");
    return JSON.stringify(body);
  };

  test("it runs with the new file in the same pod, the cluster is green with its documents and settings, and nothing is left", async () => {
    const { uid } = await pods.metadataOf(name);
    const index = { settings: { number_of_shards: 1, number_of_replicas: 0 } };
    assert.equal((await pods.nodes.ask(name, "/documents", "PUT", index)).status, 200);
    const written = await pods.nodes.ask(name, "/documents/_doc/1?refresh=true", "PUT", { text: "before" });
    assert.equal(written.status, 201);
    assert.doesNotMatch(await attributes(), /"x"/);
    assert.equal(await pods.nodes.set(name, { [allocation]: "all" }), 200);
    await pods.mount(["node.attr.x: after"]);
    await pods.mark(name, "schedule");
    const [metadata] = await pods.restarted([name]);
    assert.deepEqual([metadata?.uid, metadata?.annotations?.["sluice.dev/restart-id"]], [uid, undefined]);
    assert.deepEqual(await pods.journal(), [`start ${name}`, `stopping ${name}`, `stop ${name}`, `start ${name}`]);
    assert.equal(await pods.claims(), "");
    // As the user has set it, although it is the default, and without a marker.
    assert.deepEqual(await pods.nodes.settingsAt(name), { [allocation]: "all" });
    assert.equal((await pods.nodes.green(name)).status, "green");
    assert.match(await attributes(), /"x":"after"/);
    assert.equal((await pods.nodes.ask(name, "/documents/_doc/1")).status, 200);
  });
});
