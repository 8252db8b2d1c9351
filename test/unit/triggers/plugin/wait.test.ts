/** How kubectl sluice wait ends, and what it prints meanwhile. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ClusterError } from "../../../../functions/shared/kubernetes/cluster.ts";
import { wrapCluster } from "../../../../functions/shared/kubernetes/wrap-cluster.ts";
import { Harness, key, namespace, refused } from "../../shared/reconcile/harness.ts";
import { sluice, writes } from "./terminal.ts";

/** Lets the function reconcile once a second, until `over` resolves. */
async function whileRolling<T>(harness: Harness, over: Promise<T>): Promise<T> {
  let isOver = false;
  void over.finally(() => {
    isOver = true;
  });
  while (!isOver) {
    await harness.run();
    await harness.goOn(1_000);
  }
  return over;
}

function addEvent(harness: Harness, reason: string, name: string, lastTimestamp: string): void {
  harness.world.store.create("events", namespace, { metadata: { name }, reason, lastTimestamp });
}

test("wait ends with 0 when the last pod is ready at the wanted revision, and prints each message once", async () => {
  const harness = await new Harness().prepare();
  const { code, out, err } = await whileRolling(harness, sluice(harness, "wait group"));
  assert.equal(code, 0);
  assert.match(out, /^group is done: 4 of 4 pods ready at the wanted revision, after \d+ s\n$/);
  const pods = harness.world.store.list("pods").items;
  assert.ok(pods.every(({ spec }) => spec?.containers?.[0]?.image === "app:2"));
  assert.match(err[0] ?? "", /^waiting: group-a: 2 outdated of 2 pods; group-b: 2 outdated of 2 pods; rolling: /);
  assert.equal(new Set(err).size, err.length);
});

test("a StatefulSet whose status is older than its spec is not done, although all of its pods are ready", async () => {
  const harness = await new Harness().prepare();
  await whileRolling(harness, sluice(harness, "wait group"));
  const cluster = wrapCluster(harness.cluster, {
    async list(resource, query, options) {
      const list = await harness.cluster.list(resource, query, options);
      if (resource === "statefulsets")
        for (const { metadata } of list.items) Object.assign(metadata, { generation: (metadata.generation ?? 0) + 1 });
      return list;
    },
  });
  const { code, err } = await sluice(harness, "wait group --timeout 0", cluster);
  assert.equal(code, 1);
  assert.match(
    err[1] ?? "",
    /^group is not done after 0 s: group-a: its controller has not seen the last change yet; /,
  );
});

test("wait ends with 1 at its time-out, with the last message, after one read if that is 0, and writes nothing", async () => {
  const harness = await new Harness().prepare();
  const beganMs = harness.cluster.monotonicMs();
  const { code, out, err } = await sluice(harness, "wait group --timeout 31s");
  assert.deepEqual([code, out], [1, ""]);
  const tookMs = harness.cluster.monotonicMs() - beganMs;
  assert.ok(tookMs >= 31_000 && tookMs < 31_500, `${tookMs} ms`);
  assert.match(err.at(-1) ?? "", /^group is not done after 31 s: group-a: 2 outdated of 2 pods; group-b: /);
  assert.deepEqual(writes(harness), []);
  harness.forget();
  assert.equal((await sluice(harness, "wait group --timeout 0")).code, 1);
  assert.equal(harness.count("list statefulsets"), 1);
});

test("wait ends with 1 for a group that is not there, that is deleted meanwhile, or that is being deleted", async () => {
  const harness = await new Harness().prepare();
  const missing = await sluice(harness, "wait other");
  assert.deepEqual([missing.code, missing.out], [1, ""]);
  assert.match(missing.err[0] ?? "", /^there is no group "other" in namespace db/);
  const remove = () => {
    for (const { metadata } of harness.world.store.list("statefulsets").items)
      harness.world.store.delete("statefulsets", { namespace, name: metadata.name });
  };
  harness.timeline.after(5_000, remove);
  const deleted = await sluice(harness, "wait group");
  assert.equal(deleted.code, 1);
  assert.match(deleted.err.at(-1) ?? "", /^group is gone: no StatefulSet is in it any more$/);
});

test("wait ends with 3 when a guard that only a person ends has held for a minute, and not before", async () => {
  const harness = await new Harness().prepare();
  harness.interfere = ({ verb, resource }) => {
    if (verb === "delete" && resource === "pods") throw refused(403, "no");
  };
  const beganMs = harness.cluster.monotonicMs();
  const { code, out, err } = await whileRolling(harness, sluice(harness, "wait group"));
  assert.deepEqual([code, out], [3, ""]);
  assert.ok(harness.cluster.monotonicMs() - beganMs >= 60_000);
  assert.match(
    err.at(-1) ?? "",
    /^group is not done, and needs a person: advance-zone-rollout says delete-refused, for /,
  );
  assert.match(err.at(-1) ?? "", /To do: find what refuses, such as a webhook or a missing right$/);
});

test("a ledger that cannot be read needs a person once the command has seen it for a minute", async () => {
  const harness = await new Harness().prepare();
  harness.writeLedger({ "sluice.dev/reservations": "no JSON" });
  const { code, err } = await sluice(harness, "wait group");
  assert.equal(code, 3);
  assert.match(
    err.at(-1) ?? "",
    /advance-zone-rollout says ledger-unreadable, for 6\d s: .+ after 10 s\. To do: correct /,
  );
});

test("idle waits for what is reserved, and until two minutes after the minute of the last refused eviction", async () => {
  const harness = new Harness();
  await harness.run(true);
  assert.match((await sluice(harness, "wait group --for idle --timeout 0")).out, /^group is idle: 4 of 4 pods ready/);
  const stampMs = harness.cluster.serverTimeMs();
  const { uid } = harness.world.store.get("pods", { namespace, name: "group-a-0" }).metadata;
  const entry = [uid, "evaluate-eviction", stampMs];
  harness.writeLedger({ "sluice.dev/reservations": JSON.stringify({ "group-a": { 0: entry } }) });
  const reserved = await sluice(harness, "wait group --for idle --timeout 0");
  assert.match(
    reserved.err.at(-1) ?? "",
    /^group is not idle after 0 s: group-a-0 is reserved by evaluate-eviction; zone-settling: /,
  );
  assert.equal((await sluice(harness, "wait group --timeout 0")).code, 0);
  harness.writeLedger({ "sluice.dev/reservations": "{}" });
  const at = new Date(stampMs).toISOString();
  addEvent(harness, "EvictionRefused", "other-a.0123456789abcdef", at);
  addEvent(harness, "RolloutWaiting", "group-a.1123456789abcdef", at);
  assert.equal((await sluice(harness, "wait group --for idle --timeout 0")).code, 0);
  addEvent(harness, "EvictionRefused", "group-b.2123456789abcdef", at);
  const { code, err } = await sluice(harness, "wait group --for idle");
  assert.equal(code, 0);
  assert.match(err[0] ?? "", /^waiting: an eviction was held or refused until /);
  const endMs = (Math.floor(stampMs / 60_000) + 3) * 60_000;
  assert.ok(Math.abs(harness.cluster.serverTimeMs() - endMs) <= 2_000);
});

test("without the right to list Events idle is decided without them, and says so", async () => {
  const harness = new Harness();
  await harness.run(true);
  addEvent(
    harness,
    "EvictionRefused",
    "group-a.0123456789abcdef",
    new Date(harness.cluster.serverTimeMs()).toISOString(),
  );
  harness.interfere = ({ verb, resource }) => {
    if (verb === "list" && resource === "events") throw refused(403, 'User "u" cannot list resource "events"');
  };
  const { code, err } = await sluice(harness, "wait group --for idle --timeout 0");
  assert.equal(code, 0);
  assert.match(err[0] ?? "", /^evictions that are held or refused do not count: a right is missing: /);
});

test("an API server that is away is waited for, but not by the first read", async () => {
  const harness = await new Harness().prepare();
  let reads = 0;
  const away = new ClusterError({ code: 0, reason: "Timeout", message: "away", verb: "list", resource: "pods" });
  const cluster = wrapCluster(harness.cluster, {
    list: (...given) => (reads++ > 20 && reads < 30 ? Promise.reject(away) : harness.cluster.list(...given)),
  });
  const { code, err } = await whileRolling(harness, sluice(harness, "wait group", cluster));
  assert.equal(code, 0);
  assert.ok(err.includes("waiting: the API server does not answer: away"), err.join("\n"));
  reads = 21;
  const first = await sluice(harness, `wait ${key.group}`, cluster);
  assert.deepEqual([first.code, first.err], [1, ["the API server does not answer: away"]]);
});

test("names of 253 characters are shown whole, and control characters as escapes", async () => {
  const harness = new Harness();
  const name = "x".repeat(253);
  assert.match((await sluice(harness, `wait ${name}`)).err[0] ?? "", new RegExp(`^there is no group "${name}"`));
  assert.match(
    (await sluice(harness, "wait \u001b[31m\u202e")).err[0] ?? "",
    /^there is no group "\\\\?u001b\[31m\\u202e"/,
  );
});
