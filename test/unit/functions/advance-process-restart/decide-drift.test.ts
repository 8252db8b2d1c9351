/** Which pods get a phase because other files are expected than their processes were started with. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type DriftZone, decideDrift } from "../../../../functions/advance-process-restart/drift/decide-drift.ts";
import type { Coordinating } from "../../../../functions/advance-process-restart/drift/decide-settings.ts";
import type { Zone } from "../../../../functions/shared/groups/zones.ts";
import type { Pod } from "../../../../functions/shared/workloads/pods.ts";
import type { StatefulSet } from "../../../../functions/shared/workloads/statefulsets.ts";
import { nowMs } from "../advance-zone-rollout/given.ts";
import { managed } from "./given.ts";

const [old, wanted] = ["1:old", "1:new"];
const cluster = (name: string): Coordinating => new Map([["cluster.name", name]]);

type Managed = Zone<StatefulSet>;

/** A zone of two pods whose revision is the wanted one. `changes`: of single pods, by ordinal. */
function zoneOf(name: string, changes: Readonly<Record<number, Partial<Pod>>> = {}, more = {}): Managed {
  const files = { expected: `${name}-files`, mounted: `${name}-mounted` };
  const zone = managed(name, "nn", more) as Managed;
  const { restart } = zone.workload;
  const pods = zone.pods.map((pod) => ({ ...pod, ...changes[pod.ordinal] }));
  return { ...zone, workload: { ...zone.workload, ...(restart && { restart: { ...restart, files } }) }, pods };
}

/** Files that have changed in nothing that all nodes have in common, and whose processes run with the old ones. */
function drifted(zone: Managed, changes: Partial<DriftZone> = {}): DriftZone {
  const running = new Map(zone.pods.map(({ uid }) => [uid, old]));
  return { ...{ zone, sum: wanted, expected: new Map(), mounted: new Map(), running }, ...changes };
}

const together = { expected: cluster("b"), mounted: cluster("a") };

function decided(
  known: readonly DriftZone[],
  all = known.map(({ zone }) => zone),
  at = nowMs,
  unusable: Parameters<typeof decideDrift>[3] = [],
) {
  const { targets, blocked } = decideDrift(all, known, at, unusable);
  const marks = targets.flatMap(({ pods, phase, reason }) => pods.map(({ name }) => `${name} ${phase} ${reason}`));
  return { marks, guard: blocked?.guard, message: blocked?.message ?? "" };
}

const inTurn = (name: string) => `${name} schedule-rolling drift rolling ${wanted}`;
const atOnce = (name: string, sum = wanted) => `${name} schedule-coordinated drift coordinated ${sum}`;
const withdrawn = (name: string) => `${name} null null`;

test("only processes that are known to run with other files get the phase", () => {
  const zone = zoneOf("a");
  const [first, second] = zone.pods.map(({ uid }) => uid);
  const running = new Map([
    [first ?? "", wanted],
    [second ?? "", old],
  ]);
  assert.deepEqual(decided([drifted(zone, { running })]).marks, [inTurn("a-1")]);
  assert.deepEqual(decided([drifted(zone, { running: new Map() })]).marks, []);
  const same = drifted(zone, { running: new Map([[first ?? "", wanted]]) });
  assert.deepEqual(decided([same, drifted(zoneOf("b"))]).marks, [inTurn("b-0"), inTurn("b-1")]);
});

test("a sum of another method is that of another version of the process manager, and no other files", () => {
  const zone = zoneOf("a");
  const [first = "", second = ""] = zone.pods.map(({ uid }) => uid);
  const running = new Map([
    [first, "2:other"],
    [second, "unknown"],
  ]);
  assert.deepEqual(decided([drifted(zone, { running })]).marks, []);
});

test("a pod whose phase was taken off remembers for which files it was asked, and is not asked for them again", () => {
  const zone = zoneOf("a", { 0: { restartReason: `drift coordinated instead of schedule ${wanted}` } });
  const running = new Map(zone.pods.map(({ uid }) => [uid, old]));
  const [, second = ""] = running.keys();
  assert.deepEqual(decided([drifted(zone, { running })]).marks, [inTurn("a-1")], "that comes first");
  running.set(second, wanted);
  assert.deepEqual(decided([drifted(zone, { running })]).marks, [`a-0 null asked ${wanted}`]);
  for (const given of [{ restartReason: `asked ${wanted}` }, { restartReason: "trigger drift 1" }, {}]) {
    const settled = zoneOf("a", { 0: given });
    const processes = new Map(settled.pods.map(({ uid }) => [uid, wanted]));
    assert.deepEqual(decided([drifted(settled, { running: processes })]).marks, []);
  }
});

test("restart-config-together: a pod that was taken out, and does not report its files, may run with those of before", () => {
  const zone = zoneOf("a", { 0: { restartReason: `asked ${wanted}` } });
  const [first = "", second = ""] = zone.pods.map(({ uid }) => uid);
  const found = (sum?: string) => {
    const running = new Map([[second, old], ...(sum === undefined ? [] : [[first, sum] as const])]);
    return decided([drifted(zone, { ...together, running })]);
  };
  assert.match(found().message, /^a-0 was taken out of the restart .* expected, and does not report its files: write/);
  assert.match(found(old).message, /^a-0 was taken out of the restart .* expected, and would run with others: write/);
  assert.deepEqual([found().marks, found().guard], [[], "restart-config-together"]);
  assert.deepEqual(found(wanted).marks, [atOnce("a-1")]);
});

test("a process that is stopped under no restart drifts, although its pod was asked for these files before", () => {
  const asked = { restartReason: `asked ${wanted}` };
  const restart = { text: "failed", phase: "failed", id: undefined } as const;
  const zone = zoneOf("a", { 0: asked, 1: { ...asked, restart } });
  const all = zone.pods.map(({ uid }) => uid);
  const running = new Map(all.map((uid) => [uid, wanted]));
  assert.deepEqual(decided([drifted(zone, { running })]).marks, []);
  assert.deepEqual(decided([drifted(zone, { running, stopped: new Set(all) })]).marks, [inTurn("a-0")]);
  const jointly = drifted(zone, { running, stopped: new Set(all), mode: "coordinated" });
  assert.deepEqual(decided([jointly]).marks, [atOnce("a-0")]);
  const byHand = drifted(zone, { running, stopped: new Set(all), mode: "by-hand" });
  assert.deepEqual(decided([byHand]).marks, []);
});

test("a pod that terminates, or shows a phase, or was asked for these files before, gets none", () => {
  const restart = { text: "schedule", phase: "schedule", id: undefined } as const;
  const cases: readonly Partial<Pod>[] = [
    { terminating: true },
    { restart },
    { restartReason: `drift rolling ${wanted}` },
    { restartReason: `drift coordinated ${wanted}` },
  ];
  for (const change of cases)
    assert.deepEqual(decided([drifted(zoneOf("a", { 0: change }))]).marks, [inTurn("a-1")], JSON.stringify(change));
  for (const reason of [`drift rolling ${old}`, `a person ${wanted}`])
    assert.equal(decided([drifted(zoneOf("a", { 0: { restartReason: reason } }))]).marks.length, 2, reason);
});

test("a phase for files that are expected no more is taken off before anything else, and no person's phase is", () => {
  const asked = (text: string, reason: string, change: Partial<Pod> = {}): Managed =>
    zoneOf("a", { 0: { restart: { text, phase: undefined, id: undefined }, restartReason: reason, ...change } });
  const other = drifted(zoneOf("b"));
  const stale = asked("schedule-rolling", `drift rolling ${old}`);
  assert.deepEqual(decided([drifted(stale), other]).marks, [withdrawn("a-0")]);
  const untouched = [
    asked("schedule-rolling", `drift rolling ${wanted}`),
    asked("schedule-rolling", "by a person"),
    asked("stop", `drift rolling ${old}`),
    asked("schedule-rolling", `drift rolling ${old}`, { terminating: true }),
  ];
  for (const zone of untouched) assert.deepEqual(decided([drifted(zone)]).marks, [inTurn("a-1")]);
});

test("by-hand restarts nothing, and takes off the phases that were written for these files", () => {
  const restart = { text: "schedule-rolling", phase: "schedule-rolling", id: undefined } as const;
  const zone = zoneOf("a", { 0: { restart, restartReason: `drift rolling ${wanted}` } });
  assert.deepEqual(decided([drifted(zone, { mode: "by-hand" })]).marks, [withdrawn("a-0")]);
  assert.deepEqual(decided([drifted(zoneOf("a"), { mode: "by-hand" })]).marks, []);
});

test("restart-config-unreadable: mounted files that cannot be parsed need a mode, and only where a process drifts", () => {
  const unreadable = { mounted: undefined };
  const { marks, guard, message } = decided([drifted(zoneOf("a"), unreadable), drifted(zoneOf("b"), unreadable)]);
  assert.deepEqual([marks, guard], [[], "restart-config-unreadable"]);
  assert.match(message, /main file of a cannot be parsed, so that nothing shows what a-files changes/);
  for (const [mode, mark] of [
    ["rolling", inTurn],
    ["coordinated", atOnce],
  ] as const)
    assert.deepEqual(decided([drifted(zoneOf("a"), { ...unreadable, mode })]).marks, [mark("a-0"), mark("a-1")]);
  const running = new Map(zoneOf("a").pods.map(({ uid }) => [uid, wanted]));
  assert.equal(decided([drifted(zoneOf("a"), { ...unreadable, running })]).guard, undefined);
});

test("mounted files that cannot be parsed do not matter where it is noted what each process that runs was started with", () => {
  const unreadable = { mounted: undefined, noted: new Map([[old, cluster("a")]]), expected: cluster("a") };
  const of = (started: readonly string[], more: Partial<DriftZone> = {}) =>
    decided([drifted(zoneOf("a"), { ...unreadable, started, ...more })]);
  assert.deepEqual(of([old]).marks, [inTurn("a-0"), inTurn("a-1")]);
  assert.deepEqual(of([old], { expected: cluster("b") }).marks, [atOnce("a-0"), atOnce("a-1")]);
  for (const started of [[], ["1:other"], [old, "1:other"]])
    assert.equal(of(started).guard, "restart-config-unreadable", started.join());
  assert.deepEqual(of(["1:other"], { mounted: cluster("a") }).marks, [inTurn("a-0"), inTurn("a-1")]);
});

test("restart-config-unreadable: a process that may run with another setting, of which nothing is noted, needs a mode", () => {
  const noted = new Map([
    ["1:first", cluster("a")],
    ["1:later", cluster("b")],
  ]);
  const changed = { expected: cluster("b"), mounted: cluster("b"), noted, started: [old] };
  const { marks, guard, message } = decided([drifted(zoneOf("a"), changed)]);
  assert.deepEqual([marks, guard], [[], "restart-config-unreadable"]);
  assert.match(
    message,
    /nothing is noted of the files that a-0 was started with, .*another cluster\.name than a-files/,
  );
  for (const [mode, mark] of [
    ["rolling", inTurn],
    ["coordinated", atOnce],
  ] as const)
    assert.deepEqual(decided([drifted(zoneOf("a"), { ...changed, mode })]).marks, [mark("a-0"), mark("a-1")]);
  const [first = "", second = ""] = zoneOf("a").pods.map(({ uid }) => uid);
  const running = new Map([
    [first, "1:later"],
    [second, old],
  ]);
  const one = drifted(zoneOf("a"), { ...changed, running, started: ["1:later", old] });
  assert.match(decided([one]).message, /that a-1 was started with/, "the pod of the process is named");
  const plain = drifted(zoneOf("b"), { expected: cluster("b"), mounted: cluster("b") });
  assert.equal(decided([plain, one]).guard, "restart-config-unreadable", "whichever StatefulSet comes first");
  const known = new Map([...noted, [old, cluster("b")]]);
  assert.deepEqual(decided([drifted(zoneOf("a"), { ...changed, noted: known })]).marks, [inTurn("a-0"), inTurn("a-1")]);
  const same = new Map([["1:later", cluster("b")]]);
  assert.deepEqual(decided([drifted(zoneOf("a"), { ...changed, noted: same })]).marks, [inTurn("a-0"), inTurn("a-1")]);
  const others = drifted(zoneOf("a"), { ...changed, mounted: cluster("a") });
  assert.deepEqual(decided([others]).marks, [atOnce("a-0"), atOnce("a-1")], "all restart together in any case");
});

test("together: files with the settings of their own processes, which those of another StatefulSet do not have", () => {
  const own = { expected: cluster("b"), mounted: cluster("b") };
  const running = new Map(zoneOf("b").pods.map(({ uid }) => [uid, wanted]));
  const behind = drifted(zoneOf("b"), { expected: cluster("b"), mounted: cluster("a"), running });
  const all = [atOnce("a-0"), atOnce("a-1"), atOnce("b-0"), atOnce("b-1")];
  assert.deepEqual(decided([drifted(zoneOf("a"), own), behind]).marks, all);
  const single = { ...behind, zone: { ...behind.zone, pods: behind.zone.pods.slice(0, 1) } };
  assert.deepEqual(decided([drifted(zoneOf("a"), own), single]).marks, all.slice(0, 3), "one pod to join");
  const bare = { ...behind, zone: { ...behind.zone, pods: [] } };
  assert.deepEqual(decided([drifted(zoneOf("a"), own), bare]).marks, [inTurn("a-0"), inTurn("a-1")], "no pod to join");
  const rolled = decided([drifted(zoneOf("a"), { ...own, mode: "rolling" }), behind]);
  assert.deepEqual(rolled.marks, [inTurn("a-0"), inTurn("a-1")], "a person may know better");
});

test("together: the same beside a StatefulSet whose files cannot be read or written", () => {
  const own = drifted(zoneOf("a"), { expected: cluster("b"), mounted: cluster("b") });
  const beside = (name: string) => decided([own], [own.zone], nowMs, [{ mounted: cluster(name) }]).marks;
  assert.deepEqual(beside("a"), [atOnce("a-0"), atOnce("a-1")]);
  assert.deepEqual(beside("b"), [inTurn("a-0"), inTurn("a-1")]);
});

test("together: every pod of the group gets the phase with the sum of its own files, drifting or not", () => {
  const first = drifted(zoneOf("a"), together);
  const second = drifted(zoneOf("b"), { ...together, sum: "1:b", running: new Map() });
  const without = zoneOf("c", { 1: { restartReason: `drift coordinated ${wanted}` } });
  const all = [first.zone, second.zone, without];
  assert.deepEqual(decided([first, second], all).marks, [
    ...[atOnce("a-0"), atOnce("a-1"), atOnce("b-0", "1:b"), atOnce("b-1", "1:b")],
    atOnce("c-0"),
  ]);
});

test("together: a pod that terminates or shows a phase gets none, and a zone without such pods is not written", () => {
  const restart = { text: "failed", phase: "failed", id: undefined } as const;
  const zone = zoneOf("a", { 0: { terminating: true } });
  const other = zoneOf("b", { 0: { restart }, 1: { restart } });
  const { targets } = decideDrift([zone, other], [drifted(zone, together)], nowMs);
  assert.deepEqual(
    targets.map(({ pods }) => pods.map(({ name }) => name)),
    [["a-1"]],
  );
});

test("together: a pod that was made after the others were asked joins them, whether it answers or not", () => {
  const waits = (sum: string) => ({
    restart: { text: "schedule-coordinated", phase: "schedule-coordinated", id: undefined } as const,
    restartReason: `drift coordinated ${sum}`,
  });
  const asked = drifted(zoneOf("a", { 0: waits(wanted) }), { ...together, running: new Map() });
  const same = { ...together, mounted: together.expected, sum: old, running: new Map() };
  const other = drifted(zoneOf("b", { 1: waits(old) }), same);
  assert.deepEqual(decided([asked, other]).marks, [atOnce("a-1"), atOnce("b-0", old)]);
  const { restart } = waits(wanted);
  const single = { restart };
  assert.deepEqual(decided([drifted(zoneOf("a", { 0: single }), { running: new Map() })]).marks, [], "a person asked");
});

test("nothing restarts in turn while others restart together, and does where these wait", () => {
  const [first, second] = [
    drifted(zoneOf("a"), together),
    drifted(zoneOf("b"), { expected: cluster("b"), mounted: cluster("b") }),
  ];
  assert.deepEqual(
    decided([first, second]).marks,
    ["a-0", "a-1", "b-0", "b-1"].map((name) => atOnce(name)),
  );
  const disagrees = drifted(zoneOf("b"), { expected: cluster("a"), mounted: cluster("a") });
  const { marks, guard } = decided([first, disagrees]);
  assert.deepEqual([marks, guard], [[inTurn("b-0"), inTurn("b-1")], "restart-config-disagrees"]);
});

test("restart-config-disagrees: the message names the Secrets, and which setting differs, or that a person restarts its processes", () => {
  const first = drifted(zoneOf("a"), together);
  const other = drifted(zoneOf("b"), { expected: cluster("c"), mounted: cluster("c"), running: new Map() });
  const third = drifted(zoneOf("c"), { expected: cluster("d"), mounted: cluster("d"), running: new Map() });
  const start = "the files of a-files change what all nodes must have in common, and b-files";
  assert.equal(decided([first, other, third]).message, `${start} has another value of cluster.name`);
  const byHand = drifted(zoneOf("b"), { ...together, mode: "by-hand" });
  assert.equal(decided([first, byHand]).message, `${start} is restarted by hand`);
});

test("rollout-due: a rollout comes before a restart of all, unless its StatefulSet is paused", () => {
  const due = { 1: { revision: "older" } };
  const [zone, second, third] = [zoneOf("a"), zoneOf("b", due), zoneOf("c", due)];
  const known = [zone, second, third].map((one) => drifted(one, together));
  const { marks, guard, message } = decided(known);
  assert.deepEqual([marks, guard], [[], "rollout-due"]);
  assert.equal(message, "a rollout of b is due, and comes before a coordinated restart");
  const paused = drifted(zoneOf("b", due, { paused: true }), together);
  assert.equal(decided([drifted(zone, together), paused]).marks.length, 4);
  const unknown = drifted(zoneOf("b", {}, { updateRevision: undefined }), together);
  assert.equal(decided([drifted(zone, together), unknown]).guard, "rollout-due");
  assert.deepEqual(
    decided([drifted(second)]).marks,
    [inTurn("b-0"), inTurn("b-1")],
    "in turn each pod waits by itself",
  );
});

test("rollout-due: nothing restarts in turn while a rollout is due before a restart of all, because its new pods join only the last ones", () => {
  const [first, second] = [
    drifted(zoneOf("a", { 1: { revision: "older" } }), together),
    drifted(zoneOf("b"), { expected: cluster("b"), mounted: cluster("b") }),
  ];
  const { marks, guard } = decided([first, second]);
  assert.deepEqual([marks, guard], [[], "rollout-due"]);
  const alone = drifted(zoneOf("c"), { expected: cluster("b"), mounted: cluster("b"), mode: "rolling" });
  assert.deepEqual(decided([first, alone]).marks, [], "nor those that a person lets restart alone");
  const settled = { ...first, zone: zoneOf("a", {}, { paused: true }) };
  assert.deepEqual(
    decided([settled, second]).marks,
    ["a-0", "a-1", "b-0", "b-1"].map((name) => atOnce(name)),
  );
});

test("rollout-due: a rollout whose new pod has not become ready for 3 minutes waits for the files, and no more the other way", () => {
  const createdMs = nowMs - 180_000;
  const guardOf = (change: Partial<Pod>, updateRevision = "new") => {
    const revisions = { 0: { revision: "new", readySinceMs: undefined, createdMs, ...change }, 1: { revision: "old" } };
    return decided([drifted(zoneOf("a", revisions, { updateRevision }), together)]).guard;
  };
  assert.equal(guardOf({}), undefined);
  assert.equal(guardOf({ createdMs: createdMs + 1 }), "rollout-due", "it may still become ready");
  assert.equal(guardOf({ readySinceMs: nowMs - 1_000 }), "rollout-due");
  assert.equal(guardOf({ revision: "old" }), "rollout-due", "the rollout has not replaced it yet");
});
