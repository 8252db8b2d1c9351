/** What the restart of one process by a person does, on whatever database. */
import assert from "node:assert/strict";
import { allocation } from "./nodes.ts";
import type { Pods } from "./pods.ts";

/** Has the only pod restart with another file. Throws unless it is the same pod then, with its documents, and nothing is left. */
export async function assertRestartsAlone(pods: Pods): Promise<void> {
  const { nodes } = pods;
  const [name = ""] = pods.names;
  const attributes = async () => {
    const { body } = await nodes.ask(name, "/_nodes/_local?filter_path=nodes.*.attributes");
    return JSON.stringify(body);
  };
  const { uid } = await pods.metadataOf(name);
  const index = { settings: { number_of_shards: 1, number_of_replicas: 0 } };
  assert.equal((await nodes.ask(name, "/documents", "PUT", index)).status, 200);
  const written = await nodes.ask(name, "/documents/_doc/1?refresh=true", "PUT", { text: "before" });
  assert.equal(written.status, 201);
  assert.doesNotMatch(await attributes(), /"x"/);
  assert.equal(await nodes.set(name, { [allocation]: "all" }), 200);
  await pods.mount(["node.attr.x: after"]);
  await pods.mark(name, "schedule");
  const [metadata] = await pods.restarted([name]);
  assert.deepEqual([metadata?.uid, metadata?.annotations?.["sluice.dev/restart-id"]], [uid, undefined]);
  assert.deepEqual(await pods.journal(), [`start ${name}`, `stopping ${name}`, `stop ${name}`, `start ${name}`]);
  assert.equal(await pods.claims(), "");
  // As the user has set it, although it is the default, and without a marker.
  assert.deepEqual(await nodes.settingsAt(name), { [allocation]: "all" });
  assert.equal((await nodes.green(name)).status, "green");
  assert.match(await attributes(), /"x":"after"/);
  assert.equal((await nodes.ask(name, "/documents/_doc/1")).status, 200);
}
