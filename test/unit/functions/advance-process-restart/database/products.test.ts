/** One group, one database. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { blockedByProducts } from "../../../../../functions/advance-process-restart/database/decide-products.ts";
import type { DatabaseName } from "../../../../../functions/shared/annotations/restart.ts";
import { DatabaseStage } from "./stage.ts";

const zonesOf = (...products: readonly (DatabaseName | undefined)[]) =>
  products.map((product, index) => ({
    workload: { name: `db-${index}`, restart: product && { database: { product, urls: [], secret: undefined } } },
  })) as never;

test("databases-differ: the message names a StatefulSet of each database, and one without a database does not count", () => {
  assert.equal(blockedByProducts(zonesOf()), undefined);
  assert.equal(blockedByProducts(zonesOf("opensearch", undefined, "opensearch")), undefined);
  const several = zonesOf(undefined, "opensearch", "opensearch", "elasticsearch", "elasticsearch");
  assert.deepEqual(blockedByProducts(several), {
    guard: "databases-differ",
    message: "db-1 names OpenSearch, and db-3 names Elasticsearch: all StatefulSets of a group belong to one database",
  });
});

test("databases-differ: nothing of the group restarts", async () => {
  const stage = new DatabaseStage();
  const other = { "sluice.dev/restart-database": "elasticsearch", "sluice.dev/restart-database-url": "http://:9200" };
  const named = { "sluice.dev/restart-manager": "http://:9844", "sluice.dev/restart-manager-secret": "token" };
  stage.world.addGroup({ namespace: "db", group: "group", zones: ["b"], replicas: 1 });
  stage.world.settle();
  stage.world.annotate({ namespace: "db", name: "group-b" }, { ...named, ...other });
  await stage.begun();
  stage.write("group-a-1", "schedule");
  await stage.until("the guard", () => stage.guard === "databases-differ");
  for (let steps = 0; steps < 3; steps++) await stage.step();
  assert.deepEqual([stage.claims, stage.allocation], [[], [undefined, undefined]]);
});
