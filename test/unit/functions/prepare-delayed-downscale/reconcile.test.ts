/** Reconciles in a fake cluster: what the pods are told, when a zone is made smaller, and what happens to the claim. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { prepareDelayedDownscale } from "../../../../functions/prepare-delayed-downscale/function.ts";
import { changeClaim, formatClaims } from "../../../../functions/shared/ledger/claim.ts";
import { key, namespace, played, refused } from "../../shared/reconcile/harness.ts";
import { delayMs, Ingesters } from "./ingesters.ts";

test("pods of all zones are told at once, and the zones go one after the other when the delay is over", async () => {
  const on = await Ingesters.of();
  on.want(2);
  await on.run();
  assert.deepEqual(
    on.requests.filter((word) => word.startsWith("POST")),
    ["POST group-a-2", "POST group-a-3", "POST group-b-2", "POST group-b-3"],
  );
  assert.equal(on.guard, "delay-running");
  await on.goOn(delayMs - 2_000);
  assert.deepEqual([on.size("a"), on.size("b")], [4, 4]);
  await on.goOn(5_000);
  assert.deepEqual([on.size("a"), on.size("b"), on.claims], [2, 4, ["scale-down group-a"]]);
  assert.ok(on.harness.verdicts.some(({ guard }) => guard === "lowering"));
  await on.goOn(30_000);
  assert.deepEqual([on.size("a"), on.size("b"), on.claims, on.guard], [2, 2, [], "done"]);
  assert.deepEqual([...on.disks.keys()].sort(), ["group-a-2", "group-a-3", "group-b-2", "group-b-3"]);
});

test("between sweeps only pods that were not told yet are called; a sweep calls all pods, and finds what another client prepared", async () => {
  const on = await Ingesters.of();
  on.forget();
  await on.run();
  assert.deepEqual(on.requests, []);
  on.disks.set("group-b-0", 1);
  await on.run();
  assert.ok(on.disks.has("group-b-0"));
  await on.run(true);
  assert.equal(on.asked.length, 8);
  assert.ok(!on.disks.has("group-b-0"));
});

test("a pod that is wanted again is told so at once", async () => {
  const on = await Ingesters.of();
  on.want(2);
  await on.run();
  on.forget();
  on.want(3);
  await on.run();
  assert.deepEqual(on.requests, ["DELETE group-a-2", "DELETE group-b-2"]);
  on.want(6);
  on.forget();
  await on.run();
  assert.deepEqual(on.requests, ["DELETE group-a-3", "DELETE group-b-3"]);
  assert.deepEqual([on.disks.size, on.size("a"), on.guard], [0, 4, "done"]);
});

test("a pod that replaces a prepared one is prepared for the whole delay again, whatever is on its disk", async () => {
  const on = await Ingesters.of();
  on.want(3);
  await on.goOn(delayMs / 2);
  on.harness.world.store.delete("pods", { namespace, name: "group-a-3" }, { gracePeriodSeconds: 0 });
  await on.harness.goOn(5_000);
  const again = on.harness.timeline.nowMs();
  await on.goOn(delayMs / 2 + 5_000);
  assert.deepEqual([on.size("a"), on.size("b")], [4, 3]);
  await on.goOn(again + delayMs - on.harness.timeline.nowMs() - 5_000);
  assert.equal(on.size("a"), 4);
  await on.goOn(30_000);
  assert.equal(on.size("a"), 3);
});

test("a pod that is replaced during the calls does not leave by the answer of the previous pod", async () => {
  const on = await Ingesters.of();
  on.want(3);
  await on.goOn(delayMs - 5_000);
  let isReplaced = false;
  on.answer = ({ metadata: { name } }, method) => {
    if (name === "group-a-3" && method === "POST" && !isReplaced) {
      isReplaced = true;
      on.harness.timeline.after(0, () => {
        on.harness.world.store.delete("pods", { namespace, name }, { gracePeriodSeconds: 0 });
        on.harness.world.settle();
      });
    }
    return undefined;
  };
  await on.goOn(20_000);
  assert.ok(isReplaced);
  assert.equal(on.size("a"), 4);
  assert.equal(on.size("b"), 3);
});

test("another client's call counts if it is the last: a pod that was told to stay begins its delay again", async () => {
  const on = await Ingesters.of();
  on.want(3);
  await on.goOn(delayMs - 5_000);
  on.disks.delete("group-a-3");
  await on.goOn(20_000);
  assert.deepEqual([on.size("a"), on.size("b")], [4, 3]);
});

test("a pod that answers 409, fails, is silent or answers too much blocks the pods below it, and is named", async () => {
  for (const [reply, why] of [
    [{ status: 409 }, /it answered 409/],
    [{ status: 500 }, /it answered 500/],
    [{ status: 200, body: "<html>" }, /no JSON/],
    [{ status: 200, body: '{"timestamp":1}'.padEnd(70_000) }, /65536 bytes/],
    ["break", /the connection ended/],
    ["hang", /no answer within 5000 ms/],
  ] as const) {
    const on = await Ingesters.of();
    on.answer = ({ metadata: { name } }, method) => (name === "group-a-3" && method === "POST" ? reply : undefined);
    on.want(2);
    await on.goOn(delayMs + 40_000);
    assert.deepEqual([on.size("a"), on.size("b")], [4, 2]);
    assert.equal(on.guard, "pod-not-prepared");
    assert.match(on.harness.verdicts.at(-1)?.message ?? "", why);
  }
});

test("at most 8 calls are under way, however many and however slow the pods are, and each pod is told in the end", async () => {
  const on = await Ingesters.of(80);
  on.answer = () => "hang";
  on.want(2);
  on.forget();
  await on.run();
  assert.equal(on.mostAtOnce, 8);
  on.answer = () => undefined;
  await on.goOn(10_000);
  assert.equal(on.disks.size, 156);
});

test("if the API server refuses a change, the claim is removed at once, the pods stay prepared, and the change is tried again", async () => {
  const on = await Ingesters.of();
  on.want(3);
  on.harness.interfere = ({ verb, resource }) => {
    if (verb === "patch" && resource === "statefulsets") throw refused(403, "a webhook says no");
  };
  await on.goOn(delayMs + 10_000);
  assert.equal(on.guard, "downscale-refused");
  assert.match(on.harness.verdicts.at(-1)?.message ?? "", /group-a go to 3 replicas: a webhook says no/);
  assert.deepEqual([on.claims, on.disks.size], [[], 2]);
  on.harness.interfere = () => {};
  await on.goOn(60_000);
  assert.deepEqual([on.size("a"), on.size("b")], [3, 3]);
});

test("a refused change keeps its claim if a review has joined it, because another client's change may be under way (R19)", async () => {
  const on = await Ingesters.of();
  on.want(3);
  on.harness.interfere = ({ verb, resource }) => {
    if (verb !== "patch" || resource !== "statefulsets") return;
    const claims = on.harness.ledger.claims.map((claim) =>
      claim.isKnown ? changeClaim(claim, { sinceMs: claim.sinceMs ?? claim.stampMs }) : claim,
    );
    on.harness.writeLedger({ "sluice.dev/claims": formatClaims(claims) });
    throw refused(403, "another webhook says no");
  };
  while (on.harness.acts.length === 0) await on.goOn(1_000);
  await on.goOn(20_000);
  assert.deepEqual([on.claims, on.guard], [["scale-down group-a"], "zone-scaling-down"]);
});

test("a change without an answer keeps its claim for 90 s; then pods that are wanted are told so, and the claim is removed (R20)", async () => {
  for (const [wanted, deletes] of [
    [4, ["DELETE group-a-2", "DELETE group-a-3"]],
    [3, ["DELETE group-a-2"]],
    [2, []],
  ] as const) {
    const on = await Ingesters.of();
    on.want(2);
    let isLost = false;
    on.harness.interfere = ({ verb, resource }) => {
      if (verb !== "patch" || resource !== "statefulsets") return;
      isLost = true;
      throw refused(0, "no answer");
    };
    while (!isLost) await on.goOn(1_000);
    const lostMs = on.harness.timeline.nowMs();
    on.restart();
    on.want(wanted);
    on.answer = ({ metadata: { name } }) => {
      const isMember = name === "group-a-2" || name === "group-a-3";
      assert.ok(!isMember || on.harness.timeline.nowMs() - lostMs >= 85_000 || wanted === 2, "no member is called");
      return undefined;
    };
    on.forget();
    await on.goOn(80_000);
    assert.equal(on.guard, "zone-scaling-down");
    assert.deepEqual(on.claims, ["scale-down group-a"]);
    on.forget();
    await on.run();
    on.harness.interfere = ({ verb, resource }) => {
      if (verb === "patch" && resource === "statefulsets") throw refused(403, "no");
    };
    while (on.claims.length > 0) await on.goOn(1_000);
    const notified = on.asked.filter(({ pod, method }) => pod.startsWith("group-a") && method === "DELETE");
    const members = notified.map(({ pod, method }) => `${method} ${pod}`).filter((word) => / group-a-[23]$/.test(word));
    assert.deepEqual([...new Set(members)].sort(), deletes);
  }
});

test("a size is not written if the wanted size or the StatefulSet has changed since the claim was written", async () => {
  const replace = ({ harness: { world } }: Ingesters) => {
    world.store.delete("pods", { namespace, name: "group-a-3" }, { gracePeriodSeconds: 0 });
    world.settle();
  };
  const begin = ({ harness: { world } }: Ingesters) =>
    world.store.patch("statefulsets", zoneA, { spec: { ordinals: { start: 1 } } });
  const changes = [(on: Ingesters) => on.want(4), (on: Ingesters) => on.harness.world.scale(zoneA, 5), begin, replace];
  for (const change of changes) {
    const on = await Ingesters.of();
    on.want(3);
    let isChanged = false;
    on.harness.interfere = ({ verb, resource, given }) => {
      if (isChanged || verb !== "patch" || resource !== "leases" || !JSON.stringify(given).includes("scale-down"))
        return;
      isChanged = true;
      change(on);
    };
    while (!isChanged) await on.goOn(1_000);
    assert.ok((on.size("a") ?? 0) >= 4);
    assert.equal(on.harness.acts.at(-1)?.result, "changed");
    await on.goOn(5_000);
    assert.deepEqual(on.claims.includes("scale-down group-a"), false);
  }
});

test("the members of another process's claim are not called, even if this process has not read that claim yet (R20)", async () => {
  const on = await Ingesters.of();
  on.want(3);
  await on.goOn(delayMs - 5_000);
  const { context, timeline } = on.harness;
  on.restart();
  const other = on.harness.context;
  on.harness.interfere = ({ verb, resource }) => {
    if (verb === "patch" && resource === "statefulsets") throw refused(0, "no answer");
  };
  while (on.harness.acts.length === 0) await on.goOn(1_000);
  on.want(4);
  on.forget();
  const { pendingActs } = await played(timeline, prepareDelayedDownscale.reconcile(context, key, { sweep: false }));
  if (pendingActs !== undefined) await played(timeline, pendingActs);
  assert.ok(other !== context && on.claims.includes("scale-down group-a"));
  assert.deepEqual(on.requests, ["DELETE group-b-3"]);
});

test("a member that cannot be told to stay keeps its claim until it is told, and for at most ten minutes", async () => {
  for (const isMended of [true, false]) {
    const on = await Ingesters.of();
    on.want(3);
    on.harness.interfere = ({ verb, resource }) => {
      if (verb === "patch" && resource === "statefulsets") throw refused(0, "no answer");
    };
    while (on.harness.acts.length === 0) await on.goOn(1_000);
    on.want(4);
    on.answer = ({ metadata: { name } }) => (name === "group-a-3" ? { status: 500 } : undefined);
    await on.goOn(300_000);
    assert.deepEqual(on.claims, ["scale-down group-a"]);
    if (isMended) on.answer = () => undefined;
    await on.goOn(isMended ? 100_000 : 500_000);
    assert.deepEqual([on.claims, on.disks.has("group-a-3")], [[], !isMended]);
  }
});

const zoneA = { namespace, name: "group-a" };

test("a zone waits while another zone has pods down, and while a pod of its own that stays is not ready", async () => {
  const on = await Ingesters.of();
  on.want(3);
  on.harness.world.kubelet.breakPod({ namespace, name: "group-b-0" }, "Unready");
  await on.goOn(delayMs + 20_000);
  assert.deepEqual([on.size("a"), on.size("b"), on.claims], [4, 4, []]);
  assert.equal(on.guard, "zones-down");
  on.harness.world.kubelet.healPod({ namespace, name: "group-b-0" });
  await on.goOn(60_000);
  assert.deepEqual([on.size("a"), on.size("b")], [3, 3]);
});

test("two processes at once lower each zone once, and never two zones at a time", async () => {
  const on = await Ingesters.of();
  const { timeline, context } = on.harness;
  on.want(2);
  await on.goOn(delayMs - 1_000);
  await on.harness.goOn(3_000);
  on.forget();
  on.restart();
  const other = on.harness.context;
  const both = [context, other].map((one) => prepareDelayedDownscale.reconcile(one, key, { sweep: false }));
  const outcomes = await played(timeline, Promise.all(both));
  for (const { pendingActs } of outcomes) if (pendingActs !== undefined) await played(timeline, pendingActs);
  assert.deepEqual([on.size("a"), on.size("b")], [2, 4]);
  assert.equal(on.claims.length, 1);
});

test("shadow mode calls no pod and writes nothing", async () => {
  const on = await Ingesters.of();
  on.restart("shadow");
  on.want(2);
  await on.run(true);
  assert.deepEqual([on.requests, on.guard], [[], "pods-not-told"]);
  assert.ok(on.harness.calls.every(({ verb }) => ["get", "list", "resourceOf"].includes(verb)));
});

test("a setting that Sluice cannot read is reported, blocks the downscale, and has no pod called", async () => {
  for (const [changes, guard] of [
    [{ "grafana.com/rollout-delayed-downscale": "1.5h" }, "delay-malformed"],
    [{ "grafana.com/rollout-delayed-downscale": "1h1d" }, "delay-malformed"],
    [{ "grafana.com/rollout-prepare-delayed-downscale-url": "pod/prepare" }, "delay-malformed"],
    [{ "grafana.com/rollout-mirror-replicas-from-resource-name": "nothing" }, "mirror-missing"],
    [{ "grafana.com/rollout-mirror-replicas-from-resource-kind": "Nothing" }, "mirror-missing"],
    [{ "grafana.com/rollout-mirror-replicas-from-resource-kind": "ControllerRevision" }, "mirror-missing"],
    [{ "grafana.com/rollout-mirror-replicas-from-resource-api-version": "a/b/c" }, "mirror-malformed"],
    [{ "grafana.com/rollout-downscale-leader": "absent" }, "leader-missing"],
  ] as const) {
    const on = await Ingesters.of(4, changes);
    on.want(2);
    await on.run(true);
    assert.deepEqual([on.guard, on.requests], [guard, []], JSON.stringify(changes));
  }
});

test("nothing is done without a delay, or without an object that sets the size", async () => {
  for (const changes of [
    { "grafana.com/rollout-delayed-downscale": "0s" },
    { "grafana.com/rollout-delayed-downscale": "" },
    { "grafana.com/rollout-prepare-delayed-downscale-url": "" },
    { "grafana.com/rollout-mirror-replicas-from-resource-kind": "" },
  ]) {
    const on = await Ingesters.of(4, changes);
    on.want(2);
    await on.run(true);
    await on.goOn(delayMs + 10_000);
    assert.deepEqual([on.requests, on.size("a")], [[], 4], JSON.stringify(changes));
  }
});

test("calls carry the user and the password of the URL, and a forced size counts before any other", async () => {
  const on = await Ingesters.of(4, { "grafana.com/rollout-force-replicas": "3" });
  on.want(1);
  await on.run(true);
  assert.deepEqual(
    on.requests.filter((word) => word.startsWith("POST")),
    ["POST group-a-3", "POST group-b-3"],
  );
  const basic = `Basic ${Buffer.from("user:secret").toString("base64")}`;
  for (const { headers, path, host } of on.deliveries) {
    assert.deepEqual([headers.authorization, headers["x-cluster"], path], [basic, namespace, "/ingester/prepare"]);
    assert.match(host, /^group-[ab]-\d\.[a-z-]+\.db\.svc\.cluster\.local\.$/);
  }
  assert.equal(on.deliveries.length, 8 + 8);
});

const leading = (leader: string) => ({
  "grafana.com/rollout-mirror-replicas-from-resource-name": null,
  "grafana.com/rollout-downscale-leader": leader,
});

test("a zone that must wait for the time between zones tells its pods meanwhile, and is made smaller when the time has passed", async () => {
  const on = await Ingesters.of(4, {});
  const { world, timeline } = on.harness;
  const at = new Date(timeline.nowMs()).toISOString();
  world.annotate({ namespace, name: "group-a" }, { "grafana.com/last-downscale": at });
  world.annotate({ namespace, name: "group-b" }, leading("group-a"));
  const labels = { "grafana.com/min-time-between-zones-downscale": "10m" };
  world.store.patch("statefulsets", { namespace, name: "group-b" }, { metadata: { labels } });
  world.annotate({ namespace, name: "group-a" }, { "grafana.com/rollout-delayed-downscale": null });
  world.scale({ namespace, name: "group-a" }, 2);
  world.settle();
  await on.goOn(delayMs + 40_000);
  assert.deepEqual([on.size("b"), on.guard], [4, "min-time-between-zones"]);
  assert.deepEqual([...on.disks.keys()].sort(), ["group-b-2", "group-b-3"]);
  await on.goOn(600_000 - delayMs);
  assert.equal(on.size("b"), 2);
});

test("leaders that follow each other in a circle keep their sizes, and none of their pods is called", async () => {
  const on = await Ingesters.of(4, {});
  const { world } = on.harness;
  world.annotate({ namespace, name: "group-a" }, leading("group-b"));
  world.annotate({ namespace, name: "group-b" }, leading("group-a"));
  world.scale({ namespace, name: "group-a" }, 2);
  world.settle();
  on.forget();
  await on.goOn(delayMs + 40_000);
  assert.deepEqual([on.size("a"), on.size("b"), on.guard, on.requests], [2, 4, "leader-circle", []]);
});

test("a pod that answers 409 to its DELETE is locked, which is no error; any other failure is reported", async () => {
  for (const [status, isReported] of [
    [409, false],
    [500, true],
  ] as const) {
    const on = await Ingesters.of();
    on.answer = (_pod, method) => (method === "DELETE" ? { status } : undefined);
    await on.run(true);
    const problems = on.harness.problems.filter((message) => /could not be told that it stays/.test(message));
    assert.deepEqual([problems.length > 0, on.guard], [isReported, "done"]);
  }
});
