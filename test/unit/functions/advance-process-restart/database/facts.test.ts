/** What a database reports of itself: real answers of OpenSearch 2.19.1, and what becomes of all others. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  readAllocation,
  readCopies,
  readFacts,
  readHealth,
} from "../../../../../functions/advance-process-restart/database/facts.ts";
import type { Context } from "../../../../../functions/shared/contract/context.ts";
import { managed } from "../given.ts";

/** One node, and an index with a replica that finds no place. */
const health = {
  ...{ cluster_name: "sluice", status: "yellow", timed_out: false, number_of_nodes: 1, number_of_data_nodes: 1 },
  ...{ active_primary_shards: 1, active_shards: 1, relocating_shards: 0, initializing_shards: 0, unassigned_shards: 1 },
  ...{ delayed_unassigned_shards: 0, number_of_pending_tasks: 0, number_of_in_flight_fetch: 0 },
};
const enabled = (enable: string) => ({ cluster: { routing: { allocation: { enable } } } });
const table = {
  cluster_name: "sluice",
  routing_table: {
    indices: {
      logs: {
        shards: {
          "0": [
            { state: "STARTED", primary: true, node: "GX5g" },
            { state: "UNASSIGNED", primary: false, node: null },
          ],
        },
      },
    },
  },
};
const nodes = {
  _nodes: { total: 2, successful: 2, failed: 0 },
  nodes: {
    GX5g: { name: "a-0", host: "10.0.0.1", ip: "10.0.0.1", roles: ["cluster_manager", "data"] },
    HY6h: { name: "elsewhere", host: "10.0.0.9", ip: "10.0.0.9", roles: ["ingest"] },
  },
};
const replies: Readonly<Record<string, unknown>> = {
  "/_cluster/state/master_node,blocks": { cluster_name: "sluice", master_node: "GX5g" },
  "/_nodes/http": nodes,
  "/_cluster/health": health,
  "/_cluster/settings": { defaults: enabled("all") },
  "/_cluster/state/routing_table": table,
};

const database = { product: "opensearch", urls: [{ scheme: "http", port: 9200 }], secret: undefined } as const;

/** What is read where these paths have other answers. */
async function factsOf(others: Readonly<Record<string, unknown>> = {}, zones = [managed("a", "n", { database })]) {
  const send = (_to: unknown, { path }: { readonly path: string }) => {
    const at = path.replace(/\?.*$/, "");
    const body = { ...replies, ...others }[at];
    return Promise.resolve(
      typeof body === "number" ? { status: body, body: "no" } : { status: 200, body: JSON.stringify(body) },
    );
  };
  const context = { cluster: { monotonicMs: () => 0 }, pods: { send } } as unknown as Context;
  return readFacts(context, zones);
}

test("health, allocation, members and copies are read, and a node belongs to its pod", async () => {
  assert.deepEqual(await factsOf(), {
    kind: "known",
    facts: {
      ...{
        health: "yellow",
        isBusy: false,
        relocating: 0,
        initializing: 0,
        delayed: 0,
        inFlight: 0,
        allocation: "all",
      },
      nodes: [
        { name: "GX5g", pod: "a-0", roles: ["cluster_manager", "data"] },
        { name: "HY6h", pod: undefined, roles: ["ingest"] },
      ],
      copies: [
        { shard: "logs 0", isPrimary: true, state: "STARTED", node: "GX5g" },
        { shard: "logs 0", isPrimary: false, state: "UNASSIGNED", node: undefined },
      ],
    },
  });
});

test("a group that names no database has no facts, and one that names several has none that are known", async () => {
  assert.deepEqual(await factsOf({}, [managed("a", "n")]), { kind: "none" });
  const mixed = await factsOf({}, [managed("a", "n", { database }), managed("b", "n")]);
  assert.match("why" in mixed ? mixed.why : "", /name several \(opensearch, none\) in sluice.dev\/restart-database/);
});

test("whichever question has another answer than the expected one, nothing is known, and a message says which it was", async () => {
  for (const path of Object.keys(replies)) {
    for (const odd of [503, null, [], "text", {}]) {
      const found = await factsOf({ [path]: odd });
      assert.equal(found.kind, "unknown", `${path}: ${JSON.stringify(odd)}`);
      assert.match("why" in found ? found.why : "", path.endsWith("master_node") ? /./ : new RegExp(`GET ${path}`));
    }
  }
  const silent = await factsOf({ "/_nodes/http": { ...nodes, _nodes: { failed: 1 } } });
  assert.match("why" in silent ? silent.why : "", /^1 of its nodes report nothing/);
});

test("a database is busy while tasks wait or the answer came too late, and each number of its health is needed", () => {
  assert.equal(readHealth({ ...health, number_of_pending_tasks: 1 })?.isBusy, true);
  assert.equal(readHealth({ ...health, timed_out: true })?.isBusy, true);
  const moving = {
    relocating_shards: 1,
    initializing_shards: 2,
    delayed_unassigned_shards: 3,
    number_of_in_flight_fetch: 4,
  };
  const { relocating, initializing, delayed, inFlight } = readHealth({ ...health, ...moving }) ?? assert.fail("unread");
  assert.deepEqual([relocating, initializing, delayed, inFlight], [1, 2, 3, 4]);
  const needed = ["status", "timed_out", "number_of_pending_tasks", ...Object.keys(moving)];
  for (const field of needed) {
    for (const odd of [undefined, "0", -1, 0.5, null])
      assert.equal(readHealth({ ...health, [field]: odd }), undefined, `${field}: ${odd}`);
  }
  assert.equal(readHealth({ ...health, status: "blue" }), undefined);
});

test("a transient setting counts before a persistent one, and both before the default", () => {
  const [transient, persistent, defaults] = [enabled("none"), enabled("PRIMARIES"), enabled("all")];
  assert.equal(readAllocation({ transient, persistent, defaults }), "none");
  assert.equal(readAllocation({ transient: {}, persistent, defaults }), "primaries");
  assert.equal(readAllocation({ defaults }), "all");
  assert.equal(readAllocation({}), undefined, "a filter that has found nothing");
  assert.equal(readAllocation({ persistent: { cluster: { routing: { allocation: { enable: true } } } } }), undefined);
});

test("a database without indices has no shards, and a copy that is not understood makes all of them unknown", () => {
  assert.deepEqual(readCopies({ cluster_name: "sluice" }), []);
  assert.deepEqual(readCopies({ cluster_name: "sluice", routing_table: {} }), []);
  const withCopy = (copy: unknown) => ({
    cluster_name: "sluice",
    routing_table: { indices: { logs: { shards: { "0": [{ state: "STARTED", primary: true, node: "a" }, copy] } } } },
  });
  assert.equal(readCopies(withCopy({ state: "STARTED", primary: false }))?.[1]?.node, undefined);
  for (const copy of [
    null,
    {},
    { state: "STARTED" },
    { state: 1, primary: true },
    { state: "STARTED", primary: true, node: 7 },
  ])
    assert.equal(readCopies(withCopy(copy)), undefined, JSON.stringify(copy));
  for (const odd of [{ logs: [] }, { logs: { shards: [] } }, { logs: { shards: { "0": {} } } }])
    assert.equal(readCopies({ cluster_name: "sluice", routing_table: { indices: odd } }), undefined);
  assert.equal(readCopies({ cluster_name: "sluice", routing_table: { indices: [] } }), undefined);
  assert.equal(readCopies({ routing_table: {} }), undefined);
});
