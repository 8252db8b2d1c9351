/** Evictions that pin no uid may take any pod that has the name when they arrive (rule R11). */
import assert from "node:assert/strict";
import { test } from "node:test";
import { pinningPath, plainPaths } from "../../../../functions/evaluate-eviction/observe.ts";
import type { AdmissionAnswer } from "../../../../functions/shared/admission/definition.ts";
import { formatTime } from "../../../../functions/shared/clock/durations.ts";
import type { Cluster } from "../../../../functions/shared/kubernetes/cluster.ts";
import { dropAfterMs, finishAfterMs } from "../../../../functions/shared/ledger/reservation.ts";
import { type Harness, namespace, played, refused } from "../../shared/reconcile/harness.ts";
import { nowMs, reservation, zone } from "../advance-zone-rollout/given.ts";
import { guards, refusal } from "./given-evictions.ts";
import { governedGroup, Replica, reservationOf } from "./group-commit/reviews.ts";

const whole = [zone("a", "ooo"), zone("b", "ooo")];

test("pod-unseen: a pod that goes by its name alone, without a reservation, was read at most a second ago (R11)", async () => {
  for (const [path, delayMs, guard] of [
    [pinningPath, 1_500, "exempt"],
    [plainPaths[0], 900, "exempt"],
    [plainPaths[0], 1_100, "pod-unseen"],
  ] as const) {
    const harness = await governedGroup();
    const found = await played(harness.timeline, harness.context.cache.pod({ namespace, name: "group-a-0" }));
    const going = { ...(found ?? assert.fail()), finished: true };
    const cache = (cluster: Cluster) => ({
      ...harness.context.cache,
      pod: async () => going,
      // A process that was paused, or an API server that is slow, with the pod read before.
      ownerOf: async () => void (await cluster.sleep(delayMs)),
    });
    const replica = new Replica(harness, (cluster) => ({ cache: cache(cluster) }));
    const { name } = going;
    harness.world.store.putStatus("pods", harness.world.store.get("pods", { namespace, name }), { phase: "Succeeded" });
    const answer = await replica.answer(replica.review(name, { path }));
    assert.deepEqual(
      [answer.guard, answer.allowed ? 200 : answer.code],
      [guard, guard === "exempt" ? 200 : 429],
      `${path} after ${delayMs} ms`,
    );
  }
});

/** A process whose cache no longer changes. */
async function frozen(harness: Harness): Promise<Replica> {
  const { cache } = harness.context;
  const pod = await played(harness.timeline, cache.pod({ namespace, name: "group-a-0" }));
  const need = { settledThrough: undefined, permitSinceMs: undefined, consistent: false };
  const view = await played(harness.timeline, cache.read({ namespace, group: "group" }, need));
  return new Replica(harness, () => ({ cache: { ...cache, pod: async () => pod, read: async () => view } }));
}

test("pod-unseen: by its name alone no pod is allowed again that an eviction has taken since, even if the cache still shows it (R11, R12)", async () => {
  for (const [path, guard] of [
    [pinningPath, "allowed"],
    [plainPaths[0], "pod-unseen"],
  ] as const) {
    const harness = await governedGroup();
    const replica = await frozen(harness);
    assert.deepEqual(await replica.guards(replica.review("group-a-0", { path })), ["allowed"]);
    const before = reservationOf(harness, "group-a-0");
    harness.world.store.delete("pods", { namespace, name: "group-a-0" }, { gracePeriodSeconds: 0 });
    await harness.goOn(finishAfterMs);
    const answer = await replica.answer(replica.review("group-a-0", { path }));
    assert.deepEqual([answer.guard, answer.allowed ? 200 : answer.code], [guard, answer.allowed ? 200 : 429], path);
    assert.equal(reservationOf(harness, "group-a-0")?.uid, before?.uid, "the place counts until its pod is ready");
  }
});

test("by its name alone no pod is allowed unless the API server confirms that it exists: its reservation is withdrawn", async () => {
  for (const [code, guard] of [
    [500, "api-server-away"],
    [429, "api-server-away"],
    [403, "right-missing"],
    [409, "right-missing"],
    [422, "right-missing"],
    [401, "credentials-refused"],
    [404, "pod-unseen"],
  ] as const) {
    const harness = await governedGroup();
    const replica = new Replica(harness);
    let isReserved = false;
    replica.interfere = ({ verb, resource }) => {
      if (verb === "patch" && resource === "leases") isReserved = true;
      if (verb === "get" && resource === "pods" && isReserved) throw refused(code);
    };
    const answer = await replica.answer(replica.review("group-a-0", { path: plainPaths[0] }));
    assert.deepEqual([answer.guard, answer.allowed || answer.code], [guard, 429], String(code));
    replica.interfere = () => {};
    assert.deepEqual(await replica.guards(replica.review("group-b-0", { path: plainPaths[0] })), ["allowed"]);
  }
});

test("replacement-reserved: without a pinned uid, the pod that replaced a reserved one stays until that reservation ends (R11)", () => {
  const before = (stampMs: number) => [reservation("a-0", { uid: "before", stampMs })];
  const zones = (stampMs: number) => [zone("a", "xoo", { reserved: before(stampMs) }), zone("b", "ooo")];
  const question = { name: "a-0", isPinned: false };
  const answer = refusal(zones(nowMs - 1_000), question);
  assert.deepEqual([answer.guard, answer.code, answer.zone], ["replacement-reserved", 429, "a"]);
  assert.deepEqual(guards(zones(nowMs - dropAfterMs + 1), [question]), ["replacement-reserved"]);
  assert.deepEqual(guards(zones(nowMs - dropAfterMs), [question]), ["allowed"]);
  assert.deepEqual(guards(zones(nowMs), ["a-0"]), ["allowed"], "a pinned one cannot hit the wrong pod");
});

test("replacement-reserved: by its name alone a pod is allowed again only when the earlier eviction can no longer be under way (R11, R12)", () => {
  const own = (stampMs: number) => [reservation("a-0", { by: "evaluate-eviction", stampMs, sinceMs: stampMs })];
  const zones = (agoMs: number) => [zone("a", "ooo", { reserved: own(nowMs - agoMs) }), zone("b", "ooo")];
  const question = { name: "a-0", isPinned: false };
  const { guard, code, message, curedInMs } = refusal(zones(finishAfterMs - 2_000), question);
  assert.deepEqual([guard, code, curedInMs], ["replacement-reserved", 429, 2_000]);
  assert.match(message, /^a-0 was allowed to go a moment ago, .+ if a-0 is still there it may go in 2 s$/);
  assert.deepEqual(guards(zones(finishAfterMs - 1), [question]), ["replacement-reserved"]);
  assert.deepEqual(guards(zones(finishAfterMs), [question]), ["allowed"]);
  assert.deepEqual(guards(zones(0), ["a-0"]), ["allowed"], "a pinned one cannot hit the replacement");
  for (const first of ["a-0", question] as const) {
    assert.deepEqual(guards(whole, [first, question, "a-0"]), ["allowed", "replacement-reserved", "allowed"]);
  }
  assert.deepEqual(guards(whole, [{ ...question, dryRun: true }, question]), ["allowed", "allowed"]);
});

test("replacement-reserved: a pod that another function has reserved is evicted by its uid, but not by its name alone (R11)", () => {
  for (const by of ["advance-zone-rollout", "a-later-function"]) {
    const reserved = (stampMs: number) => [reservation("a-0", { by, stampMs })];
    const zones = (stampMs: number) => [zone("a", "ooo", { reserved: reserved(stampMs) }), zone("b", "ooo")];
    const question = { name: "a-0", isPinned: false };
    const answer = refusal(zones(nowMs - 1_000), question);
    assert.deepEqual([answer.guard, answer.code, answer.zone], ["replacement-reserved", 429, "a"]);
    assert.match(answer.message, new RegExp(`^a-0 is reserved by ${by}, whose deletion may be on its way`));
    assert.ok(
      answer.message.includes(` ${formatTime(nowMs - 1_000 + dropAfterMs)} `),
      "when no deletion can come any more",
    );
    assert.deepEqual(guards(zones(nowMs - dropAfterMs), [question]), ["replacement-reserved"], "as long as it is open");
    assert.deepEqual(guards(zones(nowMs - 1_000), ["a-0"]), ["allowed"], "a pinned one cannot hit the replacement");
  }
});

test("pod-leaving: a terminating pod is not evicted by its name alone; when it is gone, nothing is left to do (R11)", async () => {
  for (const [path, first, second] of [
    [pinningPath, ["exempt", 200], undefined],
    [plainPaths[0], ["pod-leaving", 429], ["pod-gone", 404]],
  ] as const) {
    const harness = await governedGroup();
    const { store } = harness.world;
    const pods = store.get("pods", { namespace, name: "group-a-0" });
    store.delete("pods", pods.metadata, { gracePeriodSeconds: 30 });
    const settings = { evictionWaitMs: 8_000 };
    const cache = await harness.watch();
    const replica = new Replica(harness, () => ({ settings, cache }));
    const codeOf = (answer: AdmissionAnswer) => [answer.guard, answer.allowed ? 200 : answer.code];
    const dry = await replica.answer(replica.review("group-a-0", { path, dryRun: true }));
    assert.deepEqual(codeOf(dry), first, path);
    const asked = replica.review("group-a-0", { path });
    if (path === pinningPath) assert.deepEqual(codeOf(await replica.answer(asked)), first);
    else {
      await harness.goOn(100);
      store.delete("pods", pods.metadata, { gracePeriodSeconds: 0, preconditions: { uid: pods.metadata.uid } });
      assert.deepEqual(codeOf(await replica.answer(asked)), second);
    }
    await cache.stop();
  }
});

test("pod-leaving: a pod that was on its way out when it was read is not evicted by its name, although the view shows it whole", () => {
  for (const [isPinned, guard] of [
    [true, "allowed"],
    [false, "pod-leaving"],
  ] as const) {
    assert.deepEqual(guards(whole, [{ name: "a-0", isPinned, isLeaving: true }]), [guard]);
  }
});

test("exempt: a pod that no budget governs is allowed by its name even while it terminates", async () => {
  const harness = await governedGroup({ selector: { matchLabels: { app: "another" } }, maxUnavailable: 1 });
  const { store } = harness.world;
  store.delete("pods", { namespace, name: "group-a-0" }, { gracePeriodSeconds: 30 });
  const replica = new Replica(harness);
  assert.deepEqual(await replica.guards(replica.review("group-a-0", { path: plainPaths[0] })), ["exempt"]);
});
