/** Which pods may not restart together while others of their group run on. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { DriftZone } from "../../../../functions/advance-process-restart/drift/decide-drift.ts";
import { blockedByOutsiders } from "../../../../functions/advance-process-restart/drift/decide-outsiders.ts";
import type { Coordinating } from "../../../../functions/advance-process-restart/drift/decide-settings.ts";
import type { Zone } from "../../../../functions/shared/groups/zones.ts";
import type { StatefulSet } from "../../../../functions/shared/workloads/statefulsets.ts";
import { managed } from "./given.ts";

const [old, wanted] = ["1:old", "1:new"];
const cluster = (name: string): Coordinating => new Map([["cluster.name", name]]);

/** Two pods that run with the files of before, where the expected ones name another cluster. */
function zoneOf(name: string, changes: Partial<DriftZone> = {}): DriftZone {
  const zone = managed(name, "nn") as Zone<StatefulSet>;
  const running = new Map(zone.pods.map(({ uid }) => [uid, old]));
  const files = { expected: cluster("b"), mounted: cluster("a"), noted: new Map([[wanted, cluster("b")]]) };
  return { ...{ zone, sum: wanted, ...files, running, started: [old] }, ...changes };
}

const uidsIn = (...zones: readonly DriftZone[]) =>
  new Set(zones.flatMap(({ zone }) => zone.pods.map(({ uid }) => uid)));

function nameIn(known: readonly DriftZone[], members: ReadonlySet<string>, unusable: readonly DriftZone[] = []) {
  const { guard, message } = blockedByOutsiders(known, members, unusable) ?? {};
  assert.ok(guard === undefined || guard === "restart-config-together");
  return message?.split(" is not in the restart")[0];
}

test("a pod outside that runs with another setting than its files have keeps the others from their restart", () => {
  const [a, b] = [zoneOf("a"), zoneOf("b")];
  assert.equal(nameIn([a, b], uidsIn(a)), "b-0");
  assert.equal(nameIn([a, b], uidsIn(a, b)), undefined);
  assert.equal(nameIn([a, b], new Set()), undefined, "none begins");
  const [first = ""] = uidsIn(a);
  assert.equal(nameIn([a], new Set([first])), "a-1");
});

test("a pod outside does not where it runs with the files of now, none runs, none is known, or a person has decided it", () => {
  const a = zoneOf("a");
  const [first = "", second = ""] = uidsIn(zoneOf("b"));
  const running = new Map([
    [first, old],
    [second, wanted],
  ]);
  const outside = (changes: Partial<DriftZone>) => nameIn([a, zoneOf("b", changes)], uidsIn(a));
  assert.equal(outside({ running, started: [wanted], down: new Set([first]) }), undefined);
  assert.equal(outside({ down: new Set([first]) }), "b-1", "another one runs with the same files");
  assert.equal(outside({ down: new Set([first, second]) }), undefined);
  assert.equal(outside({ running, started: [old, wanted] }), "b-0");
  assert.equal(outside({ running: new Map() }), undefined);
  assert.equal(outside({ mode: "rolling" }), undefined);
  assert.equal(outside({ mode: "coordinated" }), "b-0");
  assert.equal(outside({ expected: cluster("a") }), undefined);
});

test("processes whose files cannot be read count by what they run with, beside pods that begin", () => {
  const [a, b] = [zoneOf("a"), zoneOf("b", { running: new Map() })];
  const unreadable = (name: string) => [zoneOf("c", { mounted: cluster(name), started: [] })];
  assert.equal(nameIn([a, b], uidsIn(a), unreadable("a")), "a pod besides a");
  assert.equal(nameIn([a, b], uidsIn(a), unreadable("b")), undefined);
});
