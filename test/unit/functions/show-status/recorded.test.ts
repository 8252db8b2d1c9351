/** The recorded states have the fields that the decision of the status gets today: those of a snapshot that is taken now. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createListReader } from "../../../../functions/shared/cache/listing.ts";
import type { StatusSnapshot } from "../../../../functions/show-status/snapshot.ts";
import { encodeSnapshot, readEncoded } from "../../../support/recorded-status.ts";
import { openObserver } from "../../../support/status-observer.ts";
import { createTestWorld } from "../../triggers/server/world.ts";
import { claimOf, nowMs } from "../advance-zone-rollout/given.ts";
import { certificate, event, parked, volume } from "./given.ts";

/** Their keys are names that users or functions give. */
const isTable = (path: string) => /\.(verdicts|podLabels|matchLabels|labels|uids|readyMs|containers)$/.test(path);

/** The fields of the objects at one path: those that some have, and those that all have. */
interface Fields {
  some: ReadonlySet<string>;
  all: ReadonlySet<string>;
}

function noteFields(value: unknown, fields: Map<string, Fields>, path = ""): void {
  if (typeof value !== "object" || value === null) return;
  const entries = Object.entries(value);
  const isNamed = !Array.isArray(value) && !isTable(path);
  for (const [key, one] of entries) noteFields(one, fields, isNamed ? `${path}.${key}` : `${path}[]`);
  if (!isNamed) return;
  const keys = new Set(entries.map(([key]) => key));
  const { some, all } = fields.get(path) ?? { some: keys, all: keys };
  fields.set(path, { some: some.union(keys), all: all.intersection(keys) });
}

/** A rollout of the present version with an open reservation, and one of all else that a snapshot may have. */
async function takeNow(): Promise<StatusSnapshot> {
  const { cluster, start, goTo, changeTemplates } = createTestWorld();
  start();
  await goTo(30);
  changeTemplates("app:2");
  const observe = openObserver(cluster, createListReader(cluster, ["app"]));
  for (let second = 31; second < 120; second++) {
    const observing = observe();
    await goTo(second);
    const snapshot = await observing;
    const [{ ledger } = assert.fail()] = snapshot.groups;
    if (ledger.kind !== "read" || ledger.open.length === 0) continue;
    const claims = [claimOf("a:0", "scale-down", {}), claimOf("a:1", "process", { mode: "parked", phase: "parked" })];
    const groups = snapshot.groups.map((group) => ({ ...group, ledger: { ...ledger, claims } }));
    const rest = { events: [event("EvictionRefused", "zone-budget: 1 down", 1)], parked: [parked(1)] };
    const leftOut = [{ part: "events", why: "no right", sinceMs: nowMs }];
    return { ...snapshot, groups, ...rest, volumes: [volume(1)], certificate: certificate(3), leftOut };
  }
  return assert.fail("no reservation");
}

const howToMend = "record them again: node test/simulation/record-status.ts && node test/demo/record-status.ts";

test("each field of a snapshot is in the recorded ones, and these have no field that is gone", async () => {
  const [now, recorded] = [new Map<string, Fields>(), new Map<string, Fields>()];
  noteFields(encodeSnapshot(await takeNow()), now);
  for (const snapshot of readEncoded().values()) noteFields(snapshot, recorded);
  const offences = [...now].flatMap(([path, { some }]) => {
    const before = recorded.get(path);
    if (before === undefined) return [`none has ${path}`];
    return [
      ...[...some.difference(before.some)].map((field) => `none has ${path}.${field}`),
      ...[...before.all.difference(some)].map((field) => `all have ${path}.${field}, which is gone`),
    ];
  });
  assert.deepEqual(offences, [], howToMend);
  for (const path of [
    "",
    ".groups[]",
    ".groups[].zones[].workload",
    ".groups[].zones[].pods[]",
    ".groups[].ledger.open[]",
  ])
    assert.ok((now.get(path)?.some.size ?? 0) > 3, path);
});
