/** Sluice removes nothing that it cannot read: thousands of malformed annotations of volume claims and StatefulSets. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { decide } from "../../functions/gc-suspended-groups/decide.ts";
import { decide as decideToSuspend } from "../../functions/suspend-group/decide.ts";
import { type Random, seededRandom } from "../fake-cluster/random.ts";
import { minutesAgo, Suspended } from "../support/suspended.ts";

/**
 * For each annotation that a removal depends on: values without a meaning, or with the opposite one; undefined: it is missing.
 */
const wrong: Readonly<Record<string, readonly (string | undefined)[]>> = {
  "suspend-duration": [
    undefined,
    "",
    "-1h",
    "1 h",
    "h",
    "1h30",
    "soon",
    "0x10",
    "9999999999999",
    "1d1w",
    "٣h",
    "1h\n",
    "null",
  ],
  "suspended-at": [
    undefined,
    "",
    "now",
    "0",
    "2026-13-01T00:00:00Z",
    "2026-02-30T00:00:00Z",
    minutesAgo(-60),
    "12:00",
    "NaN",
  ],
  "suspend-state": ["", "suspended", "Gone", "Suspended ", "Removed", "true", "null"],
  "suspend-owner-uid": [undefined, "", "uid-of-another", "UID-db-a"],
  "drained-at": [undefined, "", "yes", "true", minutesAgo(-60), "2026-06-31T00:00:00Z"],
  suspend: [undefined, "", "yes", "TRUE", "1", "false", " true"],
  hold: ["true", "", "yes", "TRUE", "false ", "null", "0"],
  recover: ["true", "", "yes", "false", "null"],
};
/** The same for the StatefulSet. */
const wrongPolicy: Readonly<Record<string, readonly (string | undefined)[]>> = {
  "suspend-duration": (wrong["suspend-duration"] ?? []).filter((text) => text !== undefined),
  "removal-mode": ["None", "", "zone", "ZONE", "Any", "null"],
  "wait-between-removals": ["", "soon", "- 5m", "1x", "--1m", "null", "1h30"],
  hold: wrong.hold ?? [],
};

const pick = <T>(random: Random, from: readonly T[]): T => from[Math.floor(random() * from.length)] as T;

/**
 * Three pods of two zones, suspended for two hours where one is wanted. At least one significant annotation is wrong on each.
 */
function generated(random: Random): Suspended {
  const on = Suspended.of(["a", "b"], 3);
  for (const zone of ["a", "b"]) {
    for (const ordinal of [2, 1, 0]) on.suspend(zone, ordinal, 120);
    const isPolicyWrong = random() < 0.3;
    if (isPolicyWrong) {
      const key = pick(random, Object.keys(wrongPolicy));
      on.policy(zone, { [key]: pick(random, wrongPolicy[key] ?? []) });
    }
    for (const ordinal of [0, 1, 2]) {
      const count = (isPolicyWrong ? 0 : 1) + Math.floor(random() * 3);
      for (let n = 0; n < count; n++) {
        const key = pick(random, Object.keys(wrong));
        // Without an annotation on the volume claim, the StatefulSet's own duration counts.
        if (key === "suspend-duration") on.policy(zone, { [key]: undefined });
        on.annotate(zone, ordinal, { [key]: pick(random, wrong[key] ?? []) });
      }
      if (random() < 0.1) on.delete(zone, ordinal);
    }
  }
  return on;
}

const decideOn = (on: Suspended) => decide({ ...on.around("gc-suspended-groups", "volume"), removes: true });

test("for 10,000 sets of annotations, each with something malformed, absent or in the future, nothing is removed or released", () => {
  const random = seededRandom(15);
  const guards = new Set<string>();
  for (let round = 0; round < 10_000; round++) {
    const on = generated(random);
    const verdict = decideOn(on);
    if (verdict.kind === "wait") {
      guards.add(verdict.guard);
      continue;
    }
    for (const target of verdict.targets) {
      if (target.kind === "tell") guards.add(target.guard);
      const recorded = () =>
        JSON.stringify(
          [...on.claims.values()].map(({ metadata }) => metadata.annotations),
          undefined,
          1,
        );
      assert.equal(target.kind, "tell", `round ${round}: ${target.member.name}\n${recorded()}`);
    }
  }
  const met = [
    "drain-lost",
    "duration-malformed",
    "duration-missing",
    "mode-none",
    "on-hold",
    "owner-replaced",
    "stamp-missing",
    "wait-malformed",
  ];
  assert.deepEqual(
    met.filter((guard) => !guards.has(guard)),
    [],
    "each of these held something",
  );
});

test("the same sets with nothing wrong are removed, so the test above can fail", () => {
  const on = Suspended.of(["a", "b"], 3);
  for (const zone of ["a", "b"]) for (const ordinal of [2, 1, 0]) on.suspend(zone, ordinal, 120);
  const verdict = decideOn(on);
  const removed = verdict.kind === "take" ? verdict.targets.filter(({ kind }) => kind === "remove") : [];
  assert.deepEqual(
    removed.map(({ member }) => member.name),
    ["db-a-0", "db-a-1", "db-a-2"],
  );
});

/** The annotations that matter for a pod that is asked to go, without those of a suspended volume. */
const askedKeys = ["suspend-duration", "drained-at", "suspend", "suspend-state", "recover"];
const askedPolicyKeys = ["suspend-duration", "removal-mode", "wait-between-removals"];

/** The state in which suspend-group leaves the pod before its turn. */
function protect(on: Suspended, zone: string, ordinal: number): void {
  on.annotate(zone, ordinal, { "suspend-state": "Suspending", "suspend-owner-uid": `uid-db-${zone}` });
  on.hold(zone, ordinal, ["sluice.dev/volume-hold"]);
}

/** Three existing pods of two zones that are asked to go. At least one significant annotation is wrong on each. */
function generatedAsked(random: Random): Suspended {
  const on = Suspended.of(["a", "b"], 3);
  for (const zone of ["a", "b"]) {
    on.ask(zone, 0, 1, 2);
    for (const ordinal of [0, 1, 2]) protect(on, zone, ordinal);
    const isPolicyWrong = random() < 0.3;
    if (isPolicyWrong) {
      const key = pick(random, askedPolicyKeys);
      on.policy(zone, { [key]: pick(random, wrongPolicy[key] ?? []) });
    }
    for (const ordinal of [0, 1, 2]) {
      const count = (isPolicyWrong ? 0 : 1) + Math.floor(random() * 3);
      for (let n = 0; n < count; n++) {
        const key = pick(random, askedKeys);
        if (key === "suspend-duration") on.policy(zone, { [key]: undefined });
        on.annotate(zone, ordinal, { [key]: pick(random, wrong[key] ?? []) });
      }
    }
  }
  return on;
}

const lowered = (on: Suspended): readonly string[] => {
  const around = on.around("suspend-group", "scale-down");
  const verdict = decideToSuspend({ ...around, refused: new Map(), protects: true, disruptionBudgets: [] });
  if (verdict.kind === "wait") return [];
  return verdict.targets.flatMap((target) => (target.kind === "resize" ? target.leaving.map(({ name }) => name) : []));
};

test("for 10,000 sets of requests, each with something malformed, absent or in the future, no pod is scaled away", () => {
  const random = seededRandom(16);
  for (let round = 0; round < 10_000; round++) {
    const on = generatedAsked(random);
    const recorded = () => JSON.stringify([...on.claims.values()].map(({ metadata }) => metadata.annotations));
    assert.deepEqual(lowered(on), [], `round ${round}: ${recorded()}`);
  }
});

test("the same requests with nothing wrong scale away the pods of one zone, so the test above can fail", () => {
  const on = Suspended.of(["a", "b"], 3);
  for (const zone of ["a", "b"]) {
    on.ask(zone, 0, 1, 2);
    for (const ordinal of [0, 1, 2]) protect(on, zone, ordinal);
  }
  assert.deepEqual(lowered(on), ["db-a-2", "db-a-1", "db-a-0"]);
});
