/** The nodes of evictions that wait: each pod is read once, and at most 64 of them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { ParkedEviction, StatusContext } from "../../../../functions/shared/contract/definition.ts";
import { showStatus } from "../../../../functions/show-status/function.ts";
import { guards } from "./given.ts";
import { answeredBy } from "./started.ts";

const key = { namespace: "db", group: "db" };

/** The eviction of the pod of that number. Each pod is on a node of its number, and its uid is `uid-` and the number. */
function evictionOf(number: number, changes: Partial<ParkedEviction> = {}): ParkedEviction {
  const rest = { key, place: number, sinceMs: 0, guard: "zone-budget", message: "wait" };
  return { pod: `pod-${number}`, uid: `uid-${number}`, ...rest, ...changes };
}

/** A process that parks these evictions, by the clock of the test. */
function scene(parked: readonly ParkedEviction[]) {
  const asked: string[] = [];
  let atMs = 0;
  const get = (async (_resource: string, { name }: { readonly name: string }) => {
    asked.push(name);
    const number = name.replace("pod-", "");
    return { metadata: { name, uid: `uid-${number}` }, spec: { nodeName: `node-${number}` } };
  }) as unknown as StatusContext["cluster"]["get"];
  const list = (async () => ({ items: [], resourceVersion: "1" })) as unknown as StatusContext["cluster"]["list"];
  const sleep = () => new Promise<void>(() => {});
  const read = showStatus.open({
    cluster: { get, list, monotonicMs: () => atMs, serverTimeMs: () => 1_000_000 + atMs, sleep },
    ...{ cache: { read: () => assert.fail("there is no group") }, groups: () => [], guards, answeredBy },
    parked: () => parked,
  });
  const nodesAt = async (seconds: number) => {
    atMs = seconds * 1_000;
    return (await read())?.parked.map(({ node }) => node);
  };
  return { asked, nodesAt };
}

test("a pod that waits is read once, and one of its name with another uid has no node", async () => {
  const { asked, nodesAt } = scene([evictionOf(1), evictionOf(2, { uid: "before" })]);
  for (const seconds of [0, 2, 4]) assert.deepEqual(await nodesAt(seconds), ["node-1", null]);
  assert.deepEqual(asked, ["pod-1", "pod-2"]);
});

test("no more than 64 pods are read for one status, and the others for the next", async () => {
  const { asked, nodesAt } = scene(Array.from({ length: 70 }, (_, index) => evictionOf(index)));
  const nodes = await nodesAt(0);
  assert.deepEqual([asked.length, nodes?.filter((node) => node === null).length], [64, 6]);
  assert.equal((await nodesAt(2))?.includes(null), false);
  assert.equal(asked.length, 70);
});
