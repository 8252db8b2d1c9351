/** What tests of a restart of all nodes have in common: a document with a copy on each, and what is there when all has ended. */
import assert from "node:assert/strict";
import { eventually } from "../controlplane/api.ts";
import { slowMs } from "./nodes.ts";
import { type Pods, phaseKey } from "./pods.ts";

/** Writes a document of which each node has a copy. */
export async function writeDocument({ nodes, names: [first = "", ...others] }: Pods): Promise<void> {
  const settings = { number_of_shards: 1, number_of_replicas: others.length };
  assert.equal((await nodes.ask(first, "/documents", "PUT", { settings })).status, 200);
  assert.equal((await nodes.ask(first, "/documents/_doc/1?refresh=true", "PUT", { text: "before" })).status, 201);
  await nodes.green(first);
}

/** Waits until all pods have no phase. Throws unless each process has started once, after all were down. */
export async function assertTogether(pods: Pods, since: () => Promise<readonly string[]>): Promise<void> {
  const { names } = pods;
  await pods.restarted(names);
  const journal = await since();
  const events = (event: string) => names.map((name) => `${event} ${name}`).sort();
  assert.deepEqual(journal.slice(0, 2 * names.length).sort(), [...events("stop"), ...events("stopping")]);
  assert.deepEqual(journal.slice(2 * names.length).sort(), events("start"), "each starts once, after all are down");
}

/** Throws unless allocation is as a user has it, all nodes have the document, and no claim, phase or id is left. */
export async function assertNothingLeft(pods: Pods): Promise<void> {
  const { nodes, names } = pods;
  const [first = ""] = names;
  assert.equal(await pods.claims(), "");
  assert.deepEqual(await nodes.settingsAt(first), {}, "allocation is as the user had it, without a marker");
  assert.equal((await nodes.green(first)).number_of_nodes, names.length);
  for (const name of names) {
    assert.equal((await nodes.ask(name, "/documents/_doc/1?preference=_local")).status, 200, name);
  }
  // The ids of StatefulSets go last.
  await eventually("no phase and no id", slowMs, async () => {
    const left = await pods.keys();
    return left.includes(phaseKey) || left.includes("sluice.dev/restart-id") ? undefined : true;
  });
}
