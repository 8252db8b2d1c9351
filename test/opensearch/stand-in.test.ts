/** The stand-in of a database answers as a real OpenSearch does: the shipped requests have the same results with both. */
import assert from "node:assert/strict";
import type { LookupFunction } from "node:net";
import { after, before, suite, test } from "node:test";
import {
  askAllocation,
  flush,
  releaseAllocation,
  restrictAllocation,
} from "../../functions/advance-process-restart/database/allocation.ts";
import { askDatabase, type Database, databaseOf } from "../../functions/advance-process-restart/database/exchange.ts";
import { askNodes } from "../../functions/advance-process-restart/database/nodes.ts";
import { waitingTime as clock } from "../../functions/shared/clock/process-clock.ts";
import type { Context } from "../../functions/shared/contract/context.ts";
import { type ConnectedPods, connectPods } from "../../functions/shared/http/connections.ts";
import { parsePod } from "../../functions/shared/workloads/pods.ts";
import { parseStatefulSet } from "../../functions/shared/workloads/statefulsets.ts";
import { StandInDatabase } from "../support/stand-in-database.ts";
import { Nodes } from "./nodes.ts";
import { openSearchForTests } from "./program.ts";

const home = await openSearchForTests();
const name = "db-zone-a-0";
const allocation = "cluster.routing.allocation.enable";

suite("one node of a real OpenSearch, and of the stand-in", { skip: home === undefined }, () => {
  let nodes: Nodes;
  const standIn = new StandInDatabase([name]);
  const connected: ConnectedPods[] = [];

  before(async () => {
    if (home === undefined) return;
    nodes = await Nodes.make(home, [name]);
    await nodes.start(name);
    await nodes.green(name);
  });

  after(async () => {
    standIn.close();
    for (const pods of connected) await pods.close();
    await nodes?.close();
  });

  /** The database as the function sees it whose only pod has this address. */
  function at(address: string, port: number): Database {
    const lookup: LookupFunction = (_host, _options, callback) =>
      (callback as (error: null, found: readonly unknown[]) => void)(null, [{ address, family: 4 }]);
    const pods = connectPods({ clock, userAgent: "sluice/0.0.0 (test)", lookup });
    connected.push(pods);
    const annotations = {
      ...{ "sluice.dev/restart-manager": "http://:9844", "sluice.dev/restart-manager-secret": "token" },
      ...{ "sluice.dev/restart-database": "opensearch", "sluice.dev/restart-database-url": `http://:${port}` },
    };
    const metadata = { name: "db-zone-a", namespace: "data", uid: "u", resourceVersion: "1", annotations };
    const workload = parseStatefulSet({ metadata, spec: { serviceName: "db" } });
    const pod = parsePod({ metadata: { name, namespace: "data", uid: "p", resourceVersion: "1" } });
    return databaseOf({ cluster: clock, pods } as never as Context, [{ workload, pods: [pod] }]) ?? assert.fail();
  }

  /** What the requests of one restart result in. */
  async function restart(database: Database): Promise<readonly unknown[]> {
    const soon = () => clock.monotonicMs() + 4_000;
    const set = (value: string | null) => {
      const body = { persistent: { [allocation]: value } };
      return askDatabase(database, { method: "PUT", path: "/_cluster/settings", body, read: () => true });
    };
    const listed = await askNodes(database);
    const eligible =
      "value" in listed && listed.value.nodes.map((node) => [node.name, node.isMasterEligible, node.addresses.length]);
    const results: unknown[] = [eligible, await askAllocation(database), await set("new_primaries")];
    results.push(await restrictAllocation(database, "r1", soon()), await askAllocation(database));
    results.push(await restrictAllocation(database, "r1", soon()), await flush(database, soon()));
    results.push(await releaseAllocation(database, "r1"), await askAllocation(database));
    results.push(await restrictAllocation(database, "r2", soon()), await set("none"));
    results.push(await releaseAllocation(database, "r2"), await askAllocation(database), await set(null));
    const odd = await askDatabase(database, { method: "GET", path: "/_no/such/path", read: () => true });
    results.push("unknown" in odd && /answered \d+/.exec(odd.unknown)?.[0]);
    return results;
  }

  test("a restart has the same results, and the user's setting stands afterwards", async () => {
    const real = await restart(at(nodes.addressOf(name), nodes.port));
    const played = await restart(at("127.0.0.1", await standIn.serve()));
    assert.deepEqual(played, real);
    const done = { value: true };
    const marker = { id: "r1", previous: "new_primaries" };
    assert.deepEqual(real.slice(0, 9), [
      [[name, true, 1]],
      { value: { value: undefined, marker: undefined } },
      ...[done, done, { value: { value: "primaries", marker } }, done, undefined, done],
      { value: { value: "new_primaries", marker: undefined } },
    ]);
    assert.deepEqual(real.slice(12, 13), [{ value: { value: "none", marker: undefined } }]);
  });
});
