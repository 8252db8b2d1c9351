/** The status of groups, and of evictions that wait. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { claimOf, mostReplicas, nowMs, pod, reservation, zone } from "../advance-zone-rollout/given.ts";
import { ago, event, groupOf, ledger, parked, statusOf, volume, waitingFor } from "./given.ts";

const stateOf = (...given: Parameters<typeof statusOf>) => statusOf(...given).groups[0]?.state;
const cellsOf = (...given: Parameters<typeof zone>) =>
  statusOf({ zones: [zone(...given)] }).groups[0]?.zones[0]?.cells.map(
    ({ first, last, cell }) => `${first}-${last} ${cell}`,
  );

test("a group is idle if every pod is ready at the wanted revision, and nothing is reserved, claimed or refused", () => {
  assert.equal(stateOf({}), "idle");
  assert.equal(stateOf({ ledger: { kind: "absent" } }), "idle");
  assert.equal(stateOf({ ledger: ledger({ open: [reservation("a-0")] }) }), "done");
  assert.equal(stateOf({ ledger: ledger({ claims: [claimOf("gone:0", "scale-down")] }) }), "done");
  assert.equal(stateOf({}, { events: [event("EvictionRefused", "zone-budget: x", 2)] }), "done");
  assert.equal(stateOf({}, { events: [event("EvictionWaits", "zone-budget: x", 2)] }), "done");
  assert.equal(stateOf({}, { parked: [parked(1)] }), "done");
  assert.equal(stateOf({}, { parked: [{ ...parked(1), key: { namespace: "db", group: "other" } }] }), "idle");
  assert.equal(stateOf({}, { events: [event("EvictionWaits", "zone-budget: x", 2.01)] }), "idle");
  assert.equal(stateOf({}, { events: [event("EvictionWaits", "zone-budget: x", 1, "b")] }), "idle");
});

test("a group is not idle while its ledger cannot be read", () => {
  assert.equal(stateOf({ ledger: { kind: "unlisted" } }), "done");
  assert.equal(stateOf({ ledger: { kind: "unreadable", lease: "sluice-group", message: "" } }), "done");
});

test("a group is at work while a pod is missing, outdated or not ready, or a status is older than its spec", () => {
  for (const drawing of ["nn.", "nno", "nnw", "nnt"]) assert.equal(stateOf({ zones: [zone("a", drawing)] }), "working");
  assert.equal(stateOf({ zones: [zone("a", "nnn", { updateRevision: undefined })] }), "working");
});

test("ready is what the budget calls ready: a pod that is available, or that is reserved while it is", () => {
  const reserved = [reservation("a-0")];
  const [a] = statusOf({ zones: [zone("a", "noxw", { reserved, minReadySeconds: 601 })] }).groups[0]?.zones ?? [];
  assert.deepEqual([a?.ready, a?.updated, a?.downCount], [0, 0, 4]);
  const [b] = statusOf({ zones: [zone("a", "noxw", { reserved })] }).groups[0]?.zones ?? [];
  assert.deepEqual([b?.ready, b?.updated, b?.outdated, b?.downCount, b?.wanted], [2, 1, 2, 3, 4]);
  assert.deepEqual(b?.revision, { from: "old", to: "new" });
});

test("the cells of a zone are runs of like pods, in the order of ordinals, however many are wanted", () => {
  assert.deepEqual(cellsOf("a", "nnoo.xt"), [
    "0-1 ready",
    "2-3 outdated",
    "4-4 missing",
    "5-5 not ready",
    "6-6 terminating",
  ]);
  assert.deepEqual(cellsOf("a", "", { replicas: 3, start: 5 }), ["5-7 missing"]);
  assert.deepEqual(cellsOf("a", "n", { replicas: mostReplicas }), ["0-0 ready", `1-${mostReplicas - 1} missing`]);
  assert.deepEqual(cellsOf("a", "n..", { reserved: [reservation("a-5")] }), [
    "0-0 ready",
    "1-2 missing",
    "5-5 reserved",
  ]);
  assert.deepEqual(cellsOf("a", "n", { start: 2, reserved: [reservation("a-0"), reservation("a-5")] }), [
    "0-0 reserved",
    "2-2 ready",
    "5-5 reserved",
  ]);
});

test("a group shows the last verdict of each function with what ends it and what to do", () => {
  const [group] = statusOf({ zones: [zone("a", "nno")], ledger: waitingFor("paused", 3) }).groups;
  const { recorded } = group?.functions[0] ?? {};
  assert.equal(recorded?.guard, "paused");
  assert.equal(recorded?.ends, "depends");
  assert.equal(recorded?.since, ago(3));
  assert.equal(recorded?.todo, "kubectl annotate statefulset -n db a grafana.com/rollout-paused-");
});

test("a group shows when its last pod became ready", () => {
  const zones = [zone("a", "nx", { extra: [pod("a-0", { readySinceMs: nowMs - 120_000 })] })];
  assert.equal(statusOf({ zones }).groups[0]?.lastReadyAt, ago(2));
  assert.equal(statusOf({ zones: [zone("a", "x")] }).groups[0]?.lastReadyAt, null);
});

test("groups at work come first, then by name", () => {
  const key = (group: string) => ({ namespace: "db", group });
  const groups = [
    groupOf({ key: key("b") }),
    groupOf({ key: key("a") }),
    groupOf({ key: key("c"), zones: [zone("c", "nno")] }),
  ];
  assert.deepEqual(
    statusOf({}, { groups }).groups.map(({ group }) => group),
    ["c", "a", "b"],
  );
});

test("a group that something is reserved for comes before those at rest, whatever their names are", () => {
  const claims = [claimOf("z:1", "process", { phase: "starting" })];
  const key = (group: string) => ({ namespace: "db", group });
  const groups = [
    groupOf({ key: key("a") }),
    groupOf({ key: key("d"), zones: [zone("z", "nnn", { claims })], ledger: ledger({ claims }) }),
    groupOf({ key: key("b") }),
    groupOf({ key: key("e"), zones: [zone("e", "nno")] }),
  ];
  for (const given of [groups, groups.toReversed()])
    assert.deepEqual(
      statusOf({}, { groups: given }).groups.map(({ group, state }) => `${group} ${state}`),
      ["e working", "d done", "a idle", "b idle"],
    );
});

test("evictions that wait or were refused in the last two minutes are shown once for each zone and guard", () => {
  const events = [
    event("EvictionRefused", "zone-budget: 2 of 3 down", 0.5),
    event("EvictionRefused", "zone-budget: 1 of 3 down", 1),
    event("EvictionWaits", "other-zone: b first", 1, "c"),
    event("EvictionRefused", "zone-budget: old", 2.1, "d"),
    event("RolloutStarted", "zone-budget: no eviction", 1, "e"),
  ];
  assert.deepEqual(statusOf({}, { events }).waiting, [
    { namespace: "db", zone: "a", guard: "zone-budget", sentence: "2 of 3 down", at: ago(0.5), refused: true },
    { namespace: "db", zone: "c", guard: "other-zone", sentence: "b first", at: ago(1), refused: false },
  ]);
});

test("a message without a guard is shown whole", () => {
  const events = [event("EvictionRefused", "Something else: x", 1)];
  const [waiting] = statusOf({}, { events }).waiting ?? [];
  assert.deepEqual([waiting?.guard, waiting?.sentence], ["", "Something else: x"]);
});

test("without Events their parts are left out, and named", () => {
  const leftOut = [{ part: "events", why: "the right to list events is missing", sinceMs: nowMs - 60_000 }];
  const status = statusOf({}, { events: undefined, leftOut });
  assert.deepEqual([status.waiting, status.events], [null, null]);
  assert.deepEqual(status.leftOut, [{ part: "events", why: "the right to list events is missing", since: ago(1) }]);
});

test("the status has the newest 50 Events", () => {
  const events = Array.from({ length: 60 }, (_, index) => event("RolloutStarted", String(index), index));
  const shown = statusOf({}, { events }).events ?? [];
  assert.deepEqual([shown.length, shown[0]?.message, shown.at(-1)?.message, shown[1]?.at], [50, "0", "49", ago(1)]);
});

test("a time beyond the range of dates, which any client may have written, is shown as the last one", () => {
  const verdict = { guard: "paused", zone: "a", sentence: "", since: Number.MAX_SAFE_INTEGER, at: nowMs };
  const [group] = statusOf({ ledger: ledger({ verdicts: { "advance-zone-rollout": verdict } }) }).groups;
  assert.equal(group?.functions[0]?.recorded.since, "+275760-09-13T00:00:00.000Z");
});

test("an Event whose time is 10 min off does not count as recent, and is shown with its time", () => {
  for (const minutes of [10, -10]) {
    const status = statusOf({}, { events: [event("EvictionRefused", "zone-budget: x", minutes)] });
    assert.deepEqual([status.waiting, status.groups[0]?.state], [[], "idle"]);
    assert.equal(status.events?.[0]?.at, ago(minutes));
  }
});

test("the evictions that wait here have their place, node, guard and time, and volumes their zone, state and times", () => {
  const status = statusOf({}, { parked: [parked(1), { ...parked(2), node: undefined }], volumes: [volume(2)] });
  const rest = { namespace: "db", group: "group", guard: "zone-budget", sentence: "1 of 3 down", since: ago(4 / 60) };
  assert.deepEqual(status.parked, [
    { ...rest, pod: "a-1", place: 1, node: "node-1" },
    { ...rest, pod: "a-2", place: 2, node: null },
  ]);
  const times = { suspendedAt: ago(60), removableAt: ago(-120) };
  assert.deepEqual(status.volumes, [{ namespace: "db", name: "data-a-2", zone: "a", state: "Suspended", ...times }]);
  const [gone] = statusOf({}, { volumes: [volume(undefined, { zone: "" })] }).volumes ?? [];
  assert.deepEqual([gone?.zone, gone?.removableAt], [null, null]);
  assert.equal(statusOf({}, { volumes: undefined }).volumes, null);
});
