/** What is said of a verdict, where, and how often. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { askAgain } from "../../../../functions/shared/admission/answers.ts";
import { recordRefusal } from "../../../../functions/shared/admission/refusal-events.ts";
import { parseStatefulSet } from "../../../../functions/shared/workloads/statefulsets.ts";
import { namespace, Passes, refused } from "./passes.ts";

const by = "advance-zone-rollout";
const podKey = (name: string) => ({ namespace, name });

/** Both zones paused: the group waits behind `paused`, or `paused-zone-down` while a pod is broken. */
async function pausedGroup(): Promise<Passes> {
  const passes = await new Passes({ paused: true }).prepare();
  await passes.run();
  await passes.goOn(6_000);
  return passes;
}

const flip = (passes: Passes, broken: boolean) =>
  passes.world.kubelet[broken ? "breakPod" : "healPod"](podKey("group-a-0"));

test("a verdict is written to the ledger when it changes, with its guard, zone, sentence and since when", async () => {
  const passes = await pausedGroup();
  const record = passes.ledger.verdicts[by];
  assert.equal(record?.guard, "paused");
  assert.equal(record?.zone, "group-a");
  assert.match(record?.sentence ?? "", /^group-a is paused with 2 outdated pods/);
  assert.ok((record?.since ?? 0) > 0 && record?.at === record?.since);
});

test("a verdict alone is written at most once in 5 s, and a later pass is asked for", async () => {
  const passes = await pausedGroup();
  passes.forget();
  flip(passes, true);
  await passes.run();
  assert.equal(passes.ledger.verdicts[by]?.guard, "paused-zone-down");
  flip(passes, false);
  const requeueAfterMs = await passes.run();
  assert.equal(passes.guard, "paused");
  assert.ok(requeueAfterMs !== undefined && requeueAfterMs > 0 && requeueAfterMs <= 5_000, String(requeueAfterMs));
  await passes.goOn(3_000);
  await passes.run();
  assert.equal(passes.count("patch leases"), 1);
  assert.equal(passes.ledger.verdicts[by]?.guard, "paused-zone-down");
  await passes.goOn(2_500);
  await passes.run();
  assert.equal(passes.count("patch leases"), 2);
  assert.equal(passes.ledger.verdicts[by]?.guard, "paused");
});

test("a second process does not write sooner either: what the ledger says was written when", async () => {
  const passes = await pausedGroup();
  flip(passes, true);
  await passes.run();
  passes.forget();
  passes.restart();
  flip(passes, false);
  await passes.run();
  assert.equal(passes.count("patch leases"), 0);
});

test("a wait that stays is written again every four minutes, and its `since` goes on through a restart", async () => {
  const passes = await pausedGroup();
  const { since } = passes.ledger.verdicts[by] ?? {};
  passes.forget();
  for (let pass = 0; pass < 20; pass++) {
    await passes.goOn(10_000);
    await passes.run(pass % 3 === 0);
  }
  assert.equal(passes.count("patch leases"), 0);
  assert.ok(passes.verdicts.every(({ sinceMs }) => sinceMs === since));
  passes.restart();
  await passes.goOn(45_000);
  await passes.run();
  assert.equal(passes.verdicts.at(-1)?.sinceMs, since);
  assert.equal(passes.count("patch leases"), 1);
  assert.equal(passes.ledger.verdicts[by]?.since, since);
  await passes.goOn(235_000);
  await passes.run();
  assert.equal(passes.count("patch leases"), 1);
});

test("a sentence that only counts differently is written after 30 s, and no sooner", async () => {
  const passes = await pausedGroup();
  passes.world.scale(podKey("group-a"), 3);
  await passes.goOn(2_000);
  passes.world.store.delete("pods", podKey("group-a-1"), { gracePeriodSeconds: 0 });
  await passes.goOn(2_000);
  passes.forget();
  await passes.run();
  assert.match(passes.verdicts[0]?.message ?? "", /1 outdated pods/);
  assert.equal(passes.count("patch leases"), 0);
  await passes.goOn(25_000);
  await passes.run();
  assert.equal(passes.count("patch leases"), 1);
  assert.match(passes.ledger.verdicts[by]?.sentence ?? "", /1 outdated pods/);
});

test("a group that never had anything to do is written to once, when its ledger is old enough (R4), and never again", async () => {
  const passes = new Passes();
  await passes.run();
  await passes.goOn(11_000);
  await passes.run();
  await passes.goOn(60_000);
  await passes.run(true);
  assert.equal(passes.guard, "done");
  assert.equal(passes.count("patch leases"), 1);
  assert.deepEqual(passes.events, []);
});

test("an Event is sent on change only, and says guard and sentence", async () => {
  const passes = await pausedGroup();
  assert.equal(passes.events.length, 1);
  assert.match(passes.events[0] ?? "", /^RolloutWaiting group-a: paused: group-a is paused with 2 outdated pods/);
  for (let pass = 0; pass < 10; pass++) {
    await passes.goOn(10_000);
    await passes.run();
  }
  assert.equal(passes.events.length, 1);
  assert.equal(passes.count("create events"), 1);
  flip(passes, true);
  await passes.run();
  assert.deepEqual(passes.events.map((event) => event.split(": ")[1]).sort(), ["paused", "paused-zone-down"]);
});

test("a second process does not repeat an Event that the first has sent", async () => {
  const passes = await pausedGroup();
  await passes.goOn(45_000);
  for (let process = 0; process < 3; process++) {
    passes.restart();
    await passes.run();
  }
  assert.equal(passes.events.length, 1);
});

test("a guard that every healthy rollout meets is no Event until it has held for a minute", async () => {
  const passes = await new Passes({ zones: ["a"] }).prepare();
  await passes.run();
  passes.world.kubelet.loseNode(passes.world.store.get("pods", podKey("group-a-0")).spec.nodeName ?? "");
  const waiting = () => passes.events.filter((event) => event.startsWith("RolloutWaiting"));
  for (let pass = 0; pass < 5; pass++) {
    await passes.goOn(10_000);
    await passes.run();
  }
  assert.equal(passes.guard, "budget");
  assert.deepEqual(waiting(), []);
  for (let pass = 0; pass < 5; pass++) {
    await passes.goOn(10_000);
    await passes.run();
  }
  assert.equal(waiting().length, 1);
  const told = passes.count("create events");
  await passes.goOn(10_000);
  await passes.run();
  assert.equal(passes.count("create events"), told, "and not again in every pass after that");
  assert.match(waiting()[0] ?? "", /^RolloutWaiting group-a: budget: group-a: 1 of 2 down/);
});

test("an Event that could not be sent is sent by a later pass, and holds nothing up", async () => {
  const passes = await new Passes({ maxUnavailable: "5 %" }).prepare();
  passes.restart();
  passes.interfere = ({ resource }) => {
    if (resource === "events") throw refused(503);
  };
  await passes.goOn(45_000);
  await passes.run();
  assert.equal(passes.count("delete pods"), 1);
  assert.ok(passes.problems.length > 0);
});

test("a malformed annotation warns once on its StatefulSet, and the safe answer holds", async () => {
  const passes = new Passes({ maxUnavailable: "5 %", replicas: 4 });
  await passes.prepare();
  await passes.run();
  await passes.run(true);
  await passes.goOn(100);
  const warnings = passes.events.filter((event) => event.startsWith("MalformedAnnotation"));
  assert.equal(warnings.length, 2);
  assert.match(warnings[0] ?? "", /^MalformedAnnotation group-a: annotation rollout-max-unavailable is "5 %"; write /);
  assert.deepEqual(passes.malformed, ["group-a rollout-max-unavailable", "group-b rollout-max-unavailable"]);
  assert.equal(passes.ledger.reservations.length, 1);
});

test("a refused deletion is said on the StatefulSet, remembered in the ledger, and its sibling goes", async () => {
  const passes = await new Passes().prepare();
  passes.interfere = ({ verb, resource, given }) => {
    if (verb === "delete" && resource === "pods" && (given[1] as { name: string }).name === "group-a-0")
      throw refused(403, "a webhook said no");
  };
  await passes.run();
  assert.equal(passes.acts[0]?.result, "refused");
  assert.match(
    passes.events.join("\n"),
    /DeleteRefused group-a: delete of group-a-0 was refused with 403: a webhook said no/,
  );
  for (let pass = 0; pass < 20 && passes.imageOf("group-b-1") !== "app:2"; pass++) {
    await passes.goOn(10_000);
    await passes.run();
  }
  assert.deepEqual(
    passes.ledger.refusals.map(({ pod }) => pod),
    ["group-a-0"],
  );
  const deletions = passes.calls.filter(({ verb, resource }) => verb === "delete" && resource === "pods");
  assert.deepEqual(
    deletions.map(({ given }) => (given[1] as { name: string }).name),
    ["group-a-0", "group-a-1", "group-b-0", "group-b-1"],
  );
});

test("a refusal of long ago is forgotten: a group at rest is not written to because of it", async () => {
  const passes = await new Passes().prepare();
  let refusing = true;
  passes.interfere = ({ verb, resource, given }) => {
    const isHeld = refusing && verb === "delete" && resource === "pods";
    if (isHeld && (given[1] as { name: string }).name === "group-a-0") throw refused(403, "a webhook said no");
  };
  const go = async (times: number) => {
    for (let pass = 0; pass < times; pass++) {
      await passes.run();
      await passes.goOn(10_000);
    }
  };
  await go(40);
  refusing = false;
  await go(60);
  assert.equal(passes.guard, "done");
  assert.deepEqual(passes.ledger.refusals, []);
  const before = passes.ledger.resourceVersion;
  await go(20);
  assert.equal(passes.ledger.resourceVersion, before);
});

/** Says that an eviction was refused for a zone's budget, or another reason, and lets it be sent. */
async function refuseEviction(passes: Passes, guard = "zone-budget", zone = "group-a"): Promise<void> {
  const owner = parseStatefulSet(passes.world.store.get("statefulsets", podKey(zone)));
  recordRefusal(
    passes.context,
    "evaluate-eviction",
    owner,
    askAgain(guard, "one pod is down already", zone),
    "EvictionRefused",
  );
  await passes.goOn(10);
}

test("a refused eviction is an Event on the pod's StatefulSet, with its guard and sentence", async () => {
  const passes = new Passes();
  await refuseEviction(passes);
  assert.deepEqual(passes.events, ["EvictionRefused group-a: zone-budget: one pod is down already"]);
  const [event] = passes.world.store.list("events").items as unknown as Record<string, unknown>[];
  assert.deepEqual([event?.type, event?.reportingComponent], ["Warning", "sluice.dev/evaluate-eviction"]);
});

test("it is sent once a minute for each guard and StatefulSet, by all processes together", async () => {
  const passes = new Passes();
  for (let round = 0; round < 3; round++) {
    await refuseEviction(passes);
    await refuseEviction(passes, "zones-down");
    await refuseEviction(passes, "zones-down", "group-b");
    assert.equal(passes.count("create events"), 3, "the same process does not even ask");
  }
  passes.restart();
  await refuseEviction(passes);
  assert.equal(passes.events.length, 3, "another one is told that it was said");
  await passes.goOn(60_000);
  await refuseEviction(passes);
  assert.equal(passes.events.length, 4);
});

test("what a client hardly meets a second time is no Event, nor anything in shadow mode", async () => {
  const passes = new Passes();
  for (const guard of ["pod-unseen", "late", "ledger-contended"]) await refuseEviction(passes, guard);
  passes.restart({ mode: "shadow" });
  await refuseEviction(passes);
  assert.deepEqual([passes.events, passes.words], [[], []]);
});

test("that an Event about a refusal could not be sent is said, and stops no function", async () => {
  const passes = new Passes();
  passes.interfere = ({ resource }) => {
    if (resource === "events") throw refused(403);
  };
  await refuseEviction(passes);
  assert.deepEqual(passes.problems, ["no Event could be sent about group-a"]);
});
