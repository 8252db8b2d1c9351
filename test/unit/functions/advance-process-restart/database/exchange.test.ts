/** Questions to a database over HTTP: which pod is asked, with which password, and what an odd answer means. */
import assert from "node:assert/strict";
import type { LookupFunction } from "node:net";
import { after, before, test } from "node:test";
import {
  type Answered,
  askDatabase,
  type Database,
  databaseOf,
  type Question,
} from "../../../../../functions/advance-process-restart/database/exchange.ts";
import { askNodes, nodeOf, readNodes } from "../../../../../functions/advance-process-restart/database/nodes.ts";
import { waitingTime as clock } from "../../../../../functions/shared/clock/process-clock.ts";
import type { Context } from "../../../../../functions/shared/contract/context.ts";
import { connectPods } from "../../../../../functions/shared/http/connections.ts";
import { parsePod } from "../../../../../functions/shared/workloads/pods.ts";
import { parseStatefulSet } from "../../../../../functions/shared/workloads/statefulsets.ts";
import { StandInDatabase } from "../../../../support/stand-in-database.ts";

const names = ["os-0", "os-1", "os-2"];
const lookup: LookupFunction = (_host, _options, callback) =>
  (callback as (error: null, found: readonly unknown[]) => void)(null, [{ address: "127.0.0.1", family: 4 }]);
let pods: ReturnType<typeof connectPods>;
const databases: StandInDatabase[] = [];
// The mutation run calls these around each test.
before(() => {
  pods = connectPods({ clock, userAgent: "sluice/0.0.0 (test)", lookup });
});
after(async () => {
  for (const database of databases.splice(0)) database.close();
  await pods.close();
});

const settings: Question<object> = {
  method: "GET",
  path: "/_cluster/settings?flat_settings=true",
  read: (document) => (typeof document === "object" && document !== null ? document : undefined),
};

interface Scene {
  readonly url?: (port: number) => string;
  readonly secret?: Readonly<Record<string, string>>;
  readonly product?: string;
  readonly unready?: readonly string[];
  readonly last?: string;
}

async function scene(options: Scene = {}): Promise<{ readonly standIn: StandInDatabase; readonly database: Database }> {
  const { url = (port: number) => `http://:${port}`, secret, product = "opensearch", unready = [], last } = options;
  const standIn = new StandInDatabase(names);
  databases.push(standIn);
  const port = await standIn.serve();
  const annotations = {
    ...{ "sluice.dev/restart-manager": "http://:9844", "sluice.dev/restart-manager-secret": "token" },
    ...{ "sluice.dev/restart-database": product, "sluice.dev/restart-database-url": url(port) },
    ...(secret && { "sluice.dev/restart-database-secret": "login" }),
  };
  const metadata = { name: "os", namespace: "data", uid: "u", resourceVersion: "1", annotations };
  const workload = parseStatefulSet({ metadata, spec: { serviceName: "os" } });
  const members = names.map((name) => {
    const status = unready.includes(name) ? "False" : "True";
    const conditions = [{ type: "Ready", status, lastTransitionTime: "2026-01-01T00:00:00Z" }];
    const own = { name, namespace: "data", uid: `uid-${name}`, resourceVersion: "1" };
    return parsePod({ metadata: own, status: { phase: "Running", conditions } });
  });
  const data = Object.fromEntries(Object.entries(secret ?? {}).map(([field, text]) => [field, btoa(text)]));
  const cluster = { ...clock, get: () => Promise.resolve({ metadata, data }) };
  const context = { cluster, pods } as unknown as Context;
  const database = databaseOf(context, [{ workload, pods: members }], last) ?? assert.fail("no database is named");
  return { standIn, database };
}

const unknownOf = (answered: Answered<unknown>): string => ("unknown" in answered ? answered.unknown : "none");
const isLost = (answered: Answered<unknown>): boolean => "unknown" in answered && answered.isLost === true;
const login = { username: "sluice", password: "secret" };

test("a ready pod answers before one that is not, and the pod that is restarted is asked last", async () => {
  const { standIn, database } = await scene({ unready: ["os-0"], last: "uid-os-1" });
  assert.deepEqual(
    database.members.map(({ pod }) => pod.name),
    ["os-2", "os-0", "os-1"],
  );
  assert.ok("value" in (await askDatabase(database, settings)));
  assert.deepEqual(standIn.requests, ["os-2 GET /_cluster/settings?flat_settings=true"]);
});

test("the pods that are asked are of different StatefulSets, because all nodes of one may be down", async () => {
  const { database } = await scene();
  const [{ statefulSet } = assert.fail("no member")] = database.members;
  const zoneOf = (name: string) => {
    const pods = database.members.map(({ pod }) => ({
      ...pod,
      name: pod.name.replace("os", name),
      uid: `${name} ${pod.uid}`,
    }));
    return { workload: { ...statefulSet, name }, pods };
  };
  assert.deepEqual(
    databaseOf(database.context, [zoneOf("a"), zoneOf("b")], "a uid-os-0")?.members.map(({ pod }) => pod.name),
    ["b-0", "a-1", "b-1", "a-2", "b-2", "a-0"],
  );
});

test("a pod that does not answer, or answers something else, is passed over for the next one", async () => {
  const { standIn, database } = await scene();
  standIn.node("os-0").isUp = false;
  standIn.node("os-1").isMember = false;
  assert.ok("value" in (await askDatabase(database, settings)));
  assert.deepEqual(
    standIn.requests.map((one) => one.slice(0, 4)),
    ["os-1", "os-2"],
  );
});

test("an answer that is not the expected one is unknown, and a message says which it was", async () => {
  const odd: readonly (readonly [{ status: number; body: string }, RegExp])[] = [
    [{ status: 401, body: "Unauthorized" }, /os-0: GET \/_cluster\/settings is answered 401: Unauthorized/],
    [{ status: 500, body: "{}" }, /is answered 500/],
    [{ status: 202, body: "{}" }, /is answered 202/],
    [{ status: 200, body: "<html>" }, /has an answer that is none of OpenSearch: <html>/],
    [{ status: 200, body: "null" }, /has an answer that is none of OpenSearch: null/],
    [{ status: 200, body: `{"a":"${"x".repeat(2 ** 20)}"}` }, /more than 1048576 bytes/],
  ];
  for (const [reply, message] of odd) {
    const { standIn, database } = await scene();
    standIn.interfere = () => reply;
    const answered = await askDatabase(database, settings);
    assert.match(unknownOf(answered), message);
    assert.ok(!isLost(answered), "it is there");
    assert.equal(standIn.requests.length, 3, "three members are asked at most");
  }
});

test("a database is lost when no pod that was asked answers, or each says that it knows no master, and a Secret that is missing is another matter", async () => {
  const { standIn, database } = await scene();
  for (const name of ["os-0", "os-1", "os-2"]) standIn.node(name).isUp = false;
  assert.ok(isLost(await askDatabase(database, settings)));
  const [first] = database.members;
  assert.ok(!isLost(await askDatabase({ ...database, members: [] }, settings)), "none was asked");
  assert.ok(isLost(await askDatabase({ ...database, members: first ? [first] : [] }, settings)));
  standIn.node("os-1").isUp = true;
  standIn.node("os-1").isMember = false;
  assert.ok(isLost(await askDatabase(database, settings)), "one knows no master");
  const other = JSON.stringify({ error: { type: "master_not_discovered_exception" }, status: 503 });
  standIn.interfere = () => ({ status: 503, body: other });
  assert.ok(isLost(await askDatabase(database, settings)), "Elasticsearch names it otherwise");
  standIn.interfere = () => ({ status: 500, body: other });
  assert.ok(!isLost(await askDatabase(database, settings)));
  standIn.interfere = () => ({ status: 503, body: JSON.stringify({ error: { type: "cluster_block_exception" } }) });
  assert.ok(!isLost(await askDatabase(database, settings)), "it has a master");
  standIn.interfere = () => ({ status: 503, body: "" });
  assert.ok(!isLost(await askDatabase(database, settings)), "one refuses");
  const unnamed = await scene({ secret: { username: "sluice" } });
  assert.ok(!isLost(await askDatabase(unnamed.database, settings)));
});

test("the password goes to the only address, and over http to none where https is named beside it", async () => {
  const alone = await scene({ secret: login });
  alone.standIn.password = "sluice:secret";
  assert.ok("value" in (await askDatabase(alone.database, settings)));
  const certificate = { ...login, "ca.crt": "none" };
  const beside = await scene({ secret: certificate, url: (port) => `https://:${port} http://:${port}` });
  const seen: unknown[] = [];
  beside.standIn.interfere = (_node, { headers }) => void seen.push(headers.authorization);
  assert.ok("value" in (await askDatabase(beside.database, settings)));
  assert.deepEqual(seen, [undefined]);
});

test("a Secret that lacks a field is unknown, and the message says what to write", async () => {
  const { standIn, database } = await scene({ secret: { username: "sluice" } });
  assert.match(unknownOf(await askDatabase(database, settings)), /Secret login has no username and password/);
  assert.deepEqual(standIn.requests, []);
});

test("the members are listed with roles and addresses, by a node that has a master", async () => {
  const { standIn, database } = await scene();
  standIn.node("os-0").isMember = false;
  standIn.node("os-2").roles = ["data"];
  const answered = await askNodes(database);
  assert.ok("value" in answered, unknownOf(answered));
  assert.deepEqual(
    answered.value.nodes.map(({ name, addresses, isMasterEligible }) => [name, addresses, isMasterEligible]),
    [
      ["os-1", ["10.0.0.2"], true],
      ["os-2", ["10.0.0.3"], false],
    ],
  );
  for (const name of names) standIn.node(name).isMember = false;
  assert.match(unknownOf(await askNodes(database)), /has no master/);
});

test("a node belongs to a pod by its name, or by an address that no other node has", () => {
  const node = (name: string, ...addresses: string[]) => {
    return { id: name, name, addresses, roles: [], isMasterEligible: false };
  };
  const [one, other, third] = [node("os-0", "10.0.0.1"), node("x", "10.0.0.2", "h"), node("y", "10.0.0.2")] as const;
  const find = (name: string, address: string | undefined, nodes: readonly ReturnType<typeof node>[]) =>
    nodeOf({ name, ...(address === undefined ? {} : { address }) }, { nodes, silent: 0 })?.id;
  assert.equal(find("os-0", "10.0.0.2", [one, other]), "os-0");
  assert.equal(find("os-1", "10.0.0.2", [one, other]), "x");
  assert.equal(find("os-1", "10.0.0.2", [one, other, third]), undefined);
  assert.equal(find("os-1", undefined, [one, other]), undefined);
  assert.equal(find("os-1", "10.0.0.9", [one, other]), undefined);
});

test("Elasticsearch calls the role master, and what is no list of nodes is none", () => {
  const list = (roles: unknown, failed: unknown = 1) => ({
    _nodes: { failed },
    nodes: { a: { name: "a", ip: "i", roles } },
  });
  const masters = new Set(["master"]);
  const { nodes, silent } = readNodes(list(["master", "data"]), masters) ?? assert.fail("no list");
  assert.deepEqual([nodes[0]?.isMasterEligible, nodes[0]?.roles, silent], [true, ["master", "data"], 1]);
  assert.equal(readNodes(list(["cluster_manager"]), masters)?.nodes[0]?.isMasterEligible, false);
  assert.deepEqual(readNodes(list(undefined), masters)?.nodes[0]?.roles, []);
  for (const odd of [
    list("master"),
    list([], "0"),
    { _nodes: { failed: 0 } },
    { _nodes: { failed: 0 }, nodes: { a: {} } },
    [],
  ])
    assert.equal(readNodes(odd, masters), undefined);
});
