/** What real nodes do and answer: on this everything rests that restarts a process of a database. */
import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { eventually } from "../controlplane/api.ts";
import { StandInDatabase } from "../support/stand-in-database.ts";
import { allocation, type Health, marker, Nodes, slowMs } from "./nodes.ts";
import { openSearchForTests } from "./program.ts";

const home = await openSearchForTests();
const names = ["db-zone-a-0", "db-zone-b-0", "db-zone-c-0"];
const [first = "", second = "", third = ""] = names;

/** What a restart asks a database. */
const questions = [
  "/_nodes/http?filter_path=_nodes,nodes.*.name,nodes.*.host,nodes.*.ip,nodes.*.roles",
  "/_cluster/state/master_node,blocks?local=true",
  "/_cluster/settings?flat_settings=true",
];

/** The fields of a document with the types of their values; the id of a node counts as any. */
function leavesOf(document: unknown, path = ""): string[] {
  if (typeof document !== "object" || document === null || Array.isArray(document)) {
    return [`${path}: ${Array.isArray(document) ? "list" : typeof document}`];
  }
  const nameOf = (key: string) => (path === "/nodes" ? "*" : key);
  return Object.entries(document).flatMap(([key, value]) => leavesOf(value, `${path}/${nameOf(key)}`));
}

suite("three nodes of a real OpenSearch", { skip: home === undefined }, () => {
  let nodes: Nodes;

  before(async () => {
    if (home === undefined) return;
    nodes = await Nodes.make(home, names);
    await Promise.all(names.map((name) => nodes.start(name)));
  });

  after(() => nodes?.close());

  const members = async () => {
    const { body } = await nodes.ask<{ readonly nodes: object }>(first, "/_nodes/http?filter_path=nodes.*.name");
    return Object.keys(body.nodes).length;
  };

  test("they are one cluster, which is green with an index that has a copy on each", async () => {
    const index = { settings: { number_of_shards: 1, number_of_replicas: 2 } };
    assert.equal((await nodes.ask(first, "/documents", "PUT", index)).status, 200);
    assert.equal((await nodes.green(second)).number_of_nodes, 3);
  });

  test("each names all of them with addresses and roles, by the name of its pod", async () => {
    const filter = "filter_path=_nodes,nodes.*.name,nodes.*.host,nodes.*.ip,nodes.*.roles";
    const { body } = await nodes.ask<{
      readonly _nodes: object;
      readonly nodes: Readonly<
        Record<string, { readonly name: string; readonly ip: string; readonly roles: string[] }>
      >;
    }>(third, `/_nodes/http?${filter}`);
    assert.deepEqual(body._nodes, { total: 3, successful: 3, failed: 0 });
    const listed = Object.values(body.nodes).map(({ name, ip }) => [name, ip]);
    assert.deepEqual(
      listed.sort(),
      names.map((name) => [name, nodes.addressOf(name)]),
    );
    assert.ok(Object.values(body.nodes).every(({ roles }) => roles.includes("cluster_manager")));
    const known = new Set(Object.keys(body.nodes));
    for (const name of names) {
      const state = await nodes.ask<{ readonly master_node: string; readonly cluster_name: string }>(
        name,
        "/_cluster/state/master_node,blocks?local=true",
      );
      assert.ok(known.has(state.body.master_node), name);
    }
  });

  test("one write takes a setting and a free key of the cluster's metadata, and both are removed again", async () => {
    const changed = { [allocation]: "primaries", [marker]: "r1;previous=" };
    assert.equal(await nodes.set(first, changed), 200);
    assert.deepEqual(await nodes.settingsAt(second), changed);
    assert.equal(await nodes.set(first, { [allocation]: null, [marker]: null }), 200);
    assert.deepEqual(await nodes.settingsAt(second), {});
  });

  test("an unknown setting beside the key is refused, and then nothing is written", async () => {
    assert.equal(await nodes.set(first, { "cluster.no_such_setting": "x", [marker]: "r2;previous=" }), 400);
    assert.deepEqual(await nodes.settingsAt(second), {});
  });

  test("the stand-in for a database has no field that these nodes do not have", async () => {
    const standIn = new StandInDatabase(names);
    const put = { method: "PUT", path: "/_cluster/settings", headers: {} };
    standIn.answer(first, { ...put, body: JSON.stringify({ persistent: { [marker]: "r3;previous=" } }) });
    assert.equal(await nodes.set(first, { [marker]: "r3;previous=" }), 200);
    for (const path of questions) {
      const played = standIn.answer(first, { method: "GET", path, headers: {}, body: "" });
      assert.ok(played !== "break");
      const real = new Set(leavesOf((await nodes.ask(first, path)).body));
      const missing = leavesOf(JSON.parse(played.body)).filter((leaf) => !real.has(leaf));
      assert.deepEqual(missing, [], path);
    }
    assert.equal(await nodes.set(first, { [marker]: null }), 200);
  });

  test("a flush reports its shards", async () => {
    const { status, body } = await nodes.ask<{ readonly _shards: { readonly failed: number } }>(
      first,
      "/_flush",
      "POST",
    );
    assert.deepEqual([status, body._shards.failed], [200, 0]);
  });

  test("a node that stops is no member while it is away, and a member of a green cluster when it is back", async () => {
    const end = await nodes.stop(third);
    // By its own hook for SIGTERM, and not after its time limit of 10 s.
    assert.equal(end?.code, 143);
    await eventually("two members", slowMs, async () => ((await members()) === 2 ? true : undefined));
    // The shards of a node that has left are counted a moment later.
    await eventually("a copy that is missing", slowMs, async () => {
      const { body } = await nodes.ask<Health>(first, "/_cluster/health");
      return body.status === "yellow" ? true : undefined;
    });
    await nodes.start(third);
    assert.equal((await nodes.green(first)).number_of_nodes, 3);
  });

  test("a node that has no master answers 503 and knows itself alone", async () => {
    await Promise.all([nodes.stop(second), nodes.stop(third)]);
    await eventually("no master", slowMs, async () => {
      const { status } = await nodes.ask(first, "/_cluster/health?timeout=1s");
      return status === 503 ? true : undefined;
    });
    const state = await nodes.ask<{ readonly master_node: string | null }>(
      first,
      "/_cluster/state/master_node,blocks?local=true",
    );
    assert.deepEqual([state.status, state.body.master_node ?? ""], [200, ""]);
    assert.equal(await members(), 1);
  });
});
