/** Sluice removes nothing that it cannot read: thousands of malformed annotations of volume claims that no StatefulSet owns. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { decide } from "../../functions/gc-suspended-groups/decide.ts";
import { decide as decideToSuspend } from "../../functions/suspend-group/decide.ts";
import { type Random, seededRandom } from "../fake-cluster/random.ts";
import { Owned } from "../support/owned.ts";
import { minutesAgo } from "../support/suspended.ts";

type Wrong = Readonly<Record<string, readonly (string | undefined)[]>>;

/** Values without a meaning, or with the opposite one; undefined: the annotation is missing. */
const wrong: Wrong = {
  owner: [
    undefined,
    "",
    "orders",
    "StatefulSet",
    "Database/",
    "database.example.com/orders",
    "Database.example.com/ORDERS",
  ],
  "suspend-duration": [undefined, "", "-1h", "1 h", "soon", "0x10", "null"],
  "drained-at": [undefined, "", "yes", minutesAgo(-60), "2026-06-31T00:00:00Z"],
  suspend: [undefined, "", "yes", "TRUE", "1", "false"],
  "pod-selector": ["", "app", "app in (a)", "app=a=b", "=a", "app=", "app!=a"],
  zone: ["", "a b", "-a", "zone/a"],
  "zone-label": ["", "?", "/zone"],
  "removal-mode": ["None", "", "zone", "Any"],
  "wait-between-removals": ["", "soon", "1x", "--1m"],
};
const wrongWhenSuspended: Wrong = {
  ...wrong,
  zone: [undefined, "", "a b", "-a", "zone/a"],
  "suspended-at": [undefined, "", "now", "0", minutesAgo(-60)],
  "suspend-state": ["", "suspended", "Gone", "null"],
  "suspend-owner-uid": [undefined, "", "FoundationDBCluster.apps.foundationdb.org/orders"],
  hold: ["true", "", "yes", "null"],
  recover: ["true", "", "yes"],
};

const pick = <T>(random: Random, from: readonly T[]): T => from[Math.floor(random() * from.length)] as T;
const names = ["a-0", "a-1", "b-0", "b-1"];

/** Makes at least one significant annotation wrong on each of them. */
function spoil(on: Owned, random: Random, from: Wrong): Owned {
  for (const name of names) {
    for (let count = 1 + Math.floor(random() * 3); count > 0; count--) {
      const key = pick(random, Object.keys(from));
      on.log(`${name}-data`, { [key]: pick(random, from[key] ?? []) });
    }
  }
  return on;
}

const texts = (on: Owned) =>
  JSON.stringify(
    [...on.claims.values()].map(({ metadata }) => metadata.annotations),
    undefined,
    1,
  );

const suspendedAll = (): Owned => {
  const on = Owned.of(["a", "b"], 2);
  for (const name of names) on.suspend(name, 120);
  return on;
};

const requestedAll = (): Owned => {
  const on = Owned.of(["a", "b"], 2);
  on.protect(...names);
  return on;
};

const decideRemoval = (on: Owned) => decide({ ...on.around("gc-suspended-groups", "volume"), removes: true });
const decideSuspension = (on: Owned) =>
  decideToSuspend({
    ...on.around("suspend-group", "scale-down"),
    refused: new Map(),
    protects: true,
    disruptionBudgets: [],
  });

/** The guards that 10,000 sets meet. Fails if one of them has a target of this kind. */
function guardsOf(
  seed: number,
  make: () => Owned,
  from: Wrong,
  decideOn: (on: Owned) => ReturnType<typeof decideRemoval> | ReturnType<typeof decideSuspension>,
  isForbidden: (kind: string) => boolean,
): ReadonlySet<string> {
  const random = seededRandom(seed);
  const guards = new Set<string>();
  for (let round = 0; round < 10_000; round++) {
    const on = spoil(make(), random, from);
    const verdict = decideOn(on);
    if (verdict.kind === "wait") guards.add(verdict.guard);
    for (const target of verdict.kind === "take" ? verdict.targets : []) {
      assert.ok(!isForbidden(target.kind), `round ${round}: ${target.kind}\n${texts(on)}`);
      if (target.kind === "tell") guards.add(target.guard);
    }
  }
  return guards;
}

test("for 10,000 sets of annotations, each with something malformed, absent or in the future, no volume is removed", () => {
  const guards = guardsOf(16, suspendedAll, wrongWhenSuspended, decideRemoval, (kind) => kind !== "tell");
  const met = ["selector-malformed", "owner-replaced", "mode-none", "wait-malformed", "drain-lost", "stamp-missing"];
  assert.deepEqual(
    met.filter((guard) => !guards.has(guard)),
    [],
  );
});

test("for 10,000 such sets before a suspension has begun, no pod goes", () => {
  const guards = guardsOf(17, requestedAll, wrong, decideSuspension, (kind) => kind === "let-go");
  const met = [
    "zone-malformed",
    "selector-malformed",
    "request-malformed",
    "not-drained",
    "mode-none",
    "wait-malformed",
  ];
  assert.deepEqual(
    [...met, "duration-malformed"].filter((guard) => !guards.has(guard)),
    [],
  );
});

test("the same sets with nothing wrong do go, so the tests above can fail", () => {
  const removal = decideRemoval(suspendedAll());
  assert.ok(removal.kind === "take" && removal.targets.some(({ kind }) => kind === "remove"));
  const suspension = decideSuspension(requestedAll());
  assert.ok(suspension.kind === "take" && suspension.targets.some(({ kind }) => kind === "let-go"));
});
