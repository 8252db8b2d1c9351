/** What is reported of a verdict, where, and how often. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { askAgain } from "../../../../functions/shared/admission/answers.ts";
import { recordRefusal } from "../../../../functions/shared/admission/refusal-events.ts";
import { parseStatefulSet } from "../../../../functions/shared/workloads/statefulsets.ts";
import { Harness, namespace, refused } from "./harness.ts";

const by = "advance-zone-rollout";
const podKey = (name: string) => ({ namespace, name });

/** Both zones are paused: the group waits behind `paused`, or behind `paused-zone-down` while a pod is broken. */
async function pausedGroup(): Promise<Harness> {
  const harness = await new Harness({ paused: true }).prepare();
  await harness.run();
  await harness.goOn(6_000);
  return harness;
}

const flip = (harness: Harness, broken: boolean) =>
  harness.world.kubelet[broken ? "breakPod" : "healPod"](podKey("group-a-0"));

test("a verdict is written to the ledger when it changes, with its guard, zone, message and since when", async () => {
  const harness = await pausedGroup();
  const record = harness.ledger.verdicts[by];
  assert.equal(record?.guard, "paused");
  assert.equal(record?.zone, "group-a");
  assert.match(record?.sentence ?? "", /^group-a is paused with 2 outdated pods/);
  assert.ok((record?.since ?? 0) > 0 && record?.at === record?.since);
});

test("a verdict alone is written at most once in 5 s, and a later reconcile is requested", async () => {
  const harness = await pausedGroup();
  harness.forget();
  flip(harness, true);
  await harness.run();
  assert.equal(harness.ledger.verdicts[by]?.guard, "paused-zone-down");
  flip(harness, false);
  const requeueAfterMs = await harness.run();
  assert.equal(harness.guard, "paused");
  assert.ok(requeueAfterMs !== undefined && requeueAfterMs > 0 && requeueAfterMs <= 5_000, String(requeueAfterMs));
  await harness.goOn(3_000);
  await harness.run();
  assert.equal(harness.count("patch leases"), 1);
  assert.equal(harness.ledger.verdicts[by]?.guard, "paused-zone-down");
  await harness.goOn(2_500);
  await harness.run();
  assert.equal(harness.count("patch leases"), 2);
  assert.equal(harness.ledger.verdicts[by]?.guard, "paused");
});

test("a second process does not write sooner either, because the ledger has the time of each verdict", async () => {
  const harness = await pausedGroup();
  flip(harness, true);
  await harness.run();
  harness.forget();
  harness.restart();
  flip(harness, false);
  await harness.run();
  assert.equal(harness.count("patch leases"), 0);
});

test("a wait that stays is written again every four minutes, and keeps its `since` through a restart", async () => {
  const harness = await pausedGroup();
  const { since } = harness.ledger.verdicts[by] ?? {};
  harness.forget();
  for (let turn = 0; turn < 20; turn++) {
    await harness.goOn(10_000);
    await harness.run(turn % 3 === 0);
  }
  assert.equal(harness.count("patch leases"), 0);
  assert.ok(harness.verdicts.every(({ sinceMs }) => sinceMs === since));
  harness.restart();
  await harness.goOn(45_000);
  await harness.run();
  assert.equal(harness.verdicts.at(-1)?.sinceMs, since);
  assert.equal(harness.count("patch leases"), 1);
  assert.equal(harness.ledger.verdicts[by]?.since, since);
  await harness.goOn(235_000);
  await harness.run();
  assert.equal(harness.count("patch leases"), 1);
});

test("a message in which only numbers differ is written after 30 s, and no sooner", async () => {
  const harness = await pausedGroup();
  harness.world.scale(podKey("group-a"), 3);
  await harness.goOn(2_000);
  harness.world.store.delete("pods", podKey("group-a-1"), { gracePeriodSeconds: 0 });
  await harness.goOn(2_000);
  harness.forget();
  await harness.run();
  assert.match(harness.verdicts[0]?.message ?? "", /1 outdated pods/);
  assert.equal(harness.count("patch leases"), 0);
  await harness.goOn(25_000);
  await harness.run();
  assert.equal(harness.count("patch leases"), 1);
  assert.match(harness.ledger.verdicts[by]?.sentence ?? "", /1 outdated pods/);
});

test("a group that never had any work is written once, when its ledger is old enough (R4), and never again", async () => {
  const harness = new Harness();
  await harness.run();
  await harness.goOn(11_000);
  await harness.run();
  await harness.goOn(60_000);
  await harness.run(true);
  assert.equal(harness.guard, "done");
  assert.equal(harness.count("patch leases"), 1);
  assert.deepEqual(harness.events, []);
});

test("an Event is sent only on a change, with guard and message", async () => {
  const harness = await pausedGroup();
  assert.equal(harness.events.length, 1);
  assert.match(harness.events[0] ?? "", /^RolloutWaiting group-a: paused: group-a is paused with 2 outdated pods/);
  for (let turn = 0; turn < 10; turn++) {
    await harness.goOn(10_000);
    await harness.run();
  }
  assert.equal(harness.events.length, 1);
  assert.equal(harness.count("create events"), 1);
  flip(harness, true);
  await harness.run();
  assert.deepEqual(harness.events.map((event) => event.split(": ")[1]).sort(), ["paused", "paused-zone-down"]);
});

test("a second process does not repeat an Event that the first has sent", async () => {
  const harness = await pausedGroup();
  await harness.goOn(45_000);
  for (let process = 0; process < 3; process++) {
    harness.restart();
    await harness.run();
  }
  assert.equal(harness.events.length, 1);
});

test("a guard that every healthy rollout meets has no Event until it has held for a minute", async () => {
  const harness = await new Harness({ zones: ["a"] }).prepare();
  await harness.run();
  harness.world.kubelet.loseNode(harness.world.store.get("pods", podKey("group-a-0")).spec.nodeName ?? "");
  const waiting = () => harness.events.filter((event) => event.startsWith("RolloutWaiting"));
  for (let turn = 0; turn < 5; turn++) {
    await harness.goOn(10_000);
    await harness.run();
  }
  assert.equal(harness.guard, "budget");
  assert.deepEqual(waiting(), []);
  for (let turn = 0; turn < 5; turn++) {
    await harness.goOn(10_000);
    await harness.run();
  }
  assert.equal(waiting().length, 1);
  const sent = harness.count("create events");
  await harness.goOn(10_000);
  await harness.run();
  assert.equal(harness.count("create events"), sent, "and not again in every reconcile after that");
  assert.match(waiting()[0] ?? "", /^RolloutWaiting group-a: budget: group-a: 1 of 2 down/);
});

test("an Event that could not be sent is sent by a later reconcile, and delays nothing", async () => {
  const harness = await new Harness({ maxUnavailable: "5 %" }).prepare();
  harness.restart();
  harness.interfere = ({ resource }) => {
    if (resource === "events") throw refused(503);
  };
  await harness.goOn(45_000);
  await harness.run();
  assert.equal(harness.count("delete pods"), 1);
  assert.ok(harness.problems.length > 0);
});

test("a malformed annotation causes one warning on its StatefulSet, and the safe value counts", async () => {
  const harness = new Harness({ maxUnavailable: "5 %", replicas: 4 });
  await harness.prepare();
  await harness.run();
  await harness.run(true);
  await harness.goOn(100);
  const warnings = harness.events.filter((event) => event.startsWith("MalformedAnnotation"));
  assert.equal(warnings.length, 2);
  assert.match(warnings[0] ?? "", /^MalformedAnnotation group-a: annotation rollout-max-unavailable is "5 %"; write /);
  assert.deepEqual(harness.malformed, ["group-a rollout-max-unavailable", "group-b rollout-max-unavailable"]);
  assert.equal(harness.ledger.reservations.length, 1);
});

test("a refused deletion is reported on the StatefulSet and remembered in the ledger, and the pod's sibling goes", async () => {
  const harness = await new Harness().prepare();
  harness.interfere = ({ verb, resource, given }) => {
    if (verb === "delete" && resource === "pods" && (given[1] as { name: string }).name === "group-a-0")
      throw refused(403, "a webhook said no");
  };
  await harness.run();
  assert.equal(harness.acts[0]?.result, "refused");
  assert.match(
    harness.events.join("\n"),
    /DeleteRefused group-a: delete of group-a-0 was refused with 403: a webhook said no/,
  );
  for (let turn = 0; turn < 20 && harness.imageOf("group-b-1") !== "app:2"; turn++) {
    await harness.goOn(10_000);
    await harness.run();
  }
  assert.deepEqual(
    harness.ledger.refusals.map(({ pod }) => pod),
    ["group-a-0"],
  );
  const deletions = harness.calls.filter(({ verb, resource }) => verb === "delete" && resource === "pods");
  assert.deepEqual(
    deletions.map(({ given }) => (given[1] as { name: string }).name),
    ["group-a-0", "group-a-1", "group-b-0", "group-b-1"],
  );
});

test("an old refusal is forgotten, and causes no write for a group without work", async () => {
  const harness = await new Harness().prepare();
  let refusing = true;
  harness.interfere = ({ verb, resource, given }) => {
    const isBlocked = refusing && verb === "delete" && resource === "pods";
    if (isBlocked && (given[1] as { name: string }).name === "group-a-0") throw refused(403, "a webhook said no");
  };
  const go = async (times: number) => {
    for (let turn = 0; turn < times; turn++) {
      await harness.run();
      await harness.goOn(10_000);
    }
  };
  await go(40);
  refusing = false;
  await go(60);
  assert.equal(harness.guard, "done");
  assert.deepEqual(harness.ledger.refusals, []);
  const before = harness.ledger.resourceVersion;
  await go(20);
  assert.equal(harness.ledger.resourceVersion, before);
});

/** Records that an eviction was refused for a zone's budget, or for another reason, and lets the Event be sent. */
async function refuseEviction(harness: Harness, guard = "zone-budget", zone = "group-a"): Promise<void> {
  const owner = parseStatefulSet(harness.world.store.get("statefulsets", podKey(zone)));
  recordRefusal(
    harness.context,
    "evaluate-eviction",
    owner,
    askAgain(guard, "one pod is down already", zone),
    "EvictionRefused",
  );
  await harness.goOn(10);
}

test("a refused eviction has an Event on the pod's StatefulSet, with its guard and message", async () => {
  const harness = new Harness();
  await refuseEviction(harness);
  assert.deepEqual(harness.events, ["EvictionRefused group-a: zone-budget: one pod is down already"]);
  const [event] = harness.world.store.list("events").items as unknown as Record<string, unknown>[];
  assert.deepEqual([event?.type, event?.reportingComponent], ["Warning", "sluice.dev/evaluate-eviction"]);
});

test("such an Event is sent once a minute for each guard and StatefulSet, by all processes together", async () => {
  const harness = new Harness();
  for (let round = 0; round < 3; round++) {
    await refuseEviction(harness);
    await refuseEviction(harness, "zones-down");
    await refuseEviction(harness, "zones-down", "group-b");
    assert.equal(harness.count("create events"), 3, "the same process does not even try");
  }
  harness.restart();
  await refuseEviction(harness);
  assert.equal(harness.events.length, 3, "another process learns that it was reported");
  await harness.goOn(60_000);
  await refuseEviction(harness);
  assert.equal(harness.events.length, 4);
});

test("a refusal that a client hardly meets twice has no Event, nor has any in shadow mode", async () => {
  const harness = new Harness();
  for (const guard of ["pod-unseen", "late", "ledger-contended"]) await refuseEviction(harness, guard);
  harness.restart({ mode: "shadow" });
  await refuseEviction(harness);
  assert.deepEqual([harness.events, harness.requests], [[], []]);
});

test("an Event about a refusal that could not be sent is reported, and stops no function", async () => {
  const harness = new Harness();
  harness.interfere = ({ resource }) => {
    if (resource === "events") throw refused(403);
  };
  await refuseEviction(harness);
  assert.deepEqual(harness.problems, ["no Event could be sent about group-a"]);
});
