/** The decision about a volume claim without a StatefulSet, branch by branch and at each boundary of its times. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { decideStray, type StraySurroundings } from "../../../../functions/gc-suspended-groups/decide-stray.ts";
import { volumeHold, volumeProtection } from "../../../../functions/shared/annotations/suspension.ts";
import { parseVolumeUser, type VolumeUser } from "../../../../functions/shared/volumes/members.ts";
import { type Pvc, parsePvc } from "../../../../functions/shared/volumes/pvc.ts";
import { now, nowMs, Suspended } from "../../../support/suspended.ts";

const hourMs = 3_600_000;
const around: StraySurroundings = { removes: true, isNamespaceEnding: false, ...now };
const on = Suspended.of(["a"]);
on.suspend("a", 2, 120);
const parsed = parsePvc(on.claims.get("data-db-a-2") as Parameters<typeof parsePvc>[0]);
const [user] = [...on.pods.values()].map(parseVolumeUser);
assert.ok(user !== undefined);

/** Suspended and deleted two hours ago, to be kept for one, and drained after its pod was made. */
const over: Pvc = { ...parsed, isTerminating: true, deletedMs: nowMs - 2 * hourMs };
/** Suspended, and not deleted. */
const live: Partial<Pvc> = { isTerminating: false, deletedMs: undefined };
const bare: Partial<Pvc> = { finalizers: [], hasOurFinalizer: false };
const marked: Partial<Pvc> = { state: { kind: "value", value: "Removing" } };
const notAsked: Partial<Pvc> = { request: { kind: "absent" } };

/** Its kind and its guard, and whether its PersistentVolume is kept, where the decision says that. */
function outline(
  changes: Partial<Pvc>,
  changed: Partial<StraySurroundings> = {},
  users: readonly VolumeUser[] = [],
): string {
  const { kind, guard, isRetained } = decideStray({ pvc: { ...over, ...changes }, users }, { ...around, ...changed });
  return [kind, guard, ...(isRetained === undefined ? [] : [isRetained ? "kept" : "gone"])].join(" ");
}

/** Each row: what is different, and the outcome. */
type Rows = readonly (readonly [Partial<Pvc>, string])[];

function check(rows: Rows, changed: Partial<StraySurroundings> = {}): void {
  for (const [changes, outcome] of rows) assert.equal(outline(changes, changed), outcome, JSON.stringify(changes));
}

test("the collector releases a marked and deleted claim only while our finalizer holds it, and no hold keeps it", () => {
  check([
    [{ ...marked }, "release removing gone"],
    [{ ...marked, ...bare }, "nothing owner-gone"],
    [{ ...marked, isOnHold: true }, "tell on-hold"],
  ]);
});

test("the collector takes the mark from a live claim that has one, or whose mark no claim of the ledger covers", () => {
  check([
    [{ ...live, ...marked }, "unmark owner-gone"],
    [{ ...live, isMarkFalse: true }, "unmark owner-gone"],
    [{ isMarkFalse: true, suspendedMs: nowMs }, "tell owner-gone"],
    [live, "tell owner-gone"],
  ]);
});

test("the collector frees a live claim whose request is gone only where our finalizer holds it, and no hold keeps it", () => {
  check([
    [{ ...live, ...notAsked }, "clear withdrawn"],
    [{ ...live, ...notAsked, isOnHold: true }, "tell owner-gone"],
    [{ ...live, ...notAsked, ...bare }, "nothing owner-gone"],
    [{ ...live, ...notAsked, finalizers: [volumeProtection], isProtected: true }, "tell owner-gone"],
    [{ ...live, request: { kind: "malformed", message: "" } }, "tell owner-gone"],
  ]);
});

test("time runs without a StatefulSet only on a claim that is deleted, suspended by our finalizer and not protected", () => {
  const unstamped: Partial<Pvc> = { suspendedMs: undefined };
  check([
    [unstamped, "stamp stamping"],
    [{ ...unstamped, ...live }, "tell owner-gone"],
    [{ ...unstamped, ...bare }, "nothing owner-gone"],
    [{ ...unstamped, finalizers: [volumeProtection] }, "tell owner-gone"],
    [{ ...unstamped, finalizers: [volumeHold, volumeProtection], isProtected: true }, "tell owner-gone"],
    [{ ...unstamped, ...live, ...bare }, "nothing owner-gone"],
  ]);
});

test("an uninstall keeps the PersistentVolume of a deleted claim, unless its removal was ours and no user keeps the data", () => {
  const rows: Rows = [
    [{}, "release uninstalling kept"],
    [marked, "release uninstalling gone"],
    [{ ...marked, isRetained: false }, "release uninstalling gone"],
    [{ ...marked, isRetained: true }, "release uninstalling kept"],
    [{ ...marked, isOnHold: true }, "release uninstalling kept"],
    [live, "release uninstalling gone"],
    [{ ...live, ...marked, isOnHold: true, isRetained: true }, "release uninstalling gone"],
  ];
  check(rows, { removes: false });
});

test("a begun removal keeps the PersistentVolume where its claim says so, or where its namespace ends and may have said so", () => {
  const unowned: Partial<Pvc> = { ...marked, ownerUid: undefined };
  check([
    [marked, "release removing gone"],
    [{ ...marked, isRetained: false }, "release removing gone"],
    [{ ...marked, isRetained: true }, "release removing kept"],
  ]);
  const rows: Rows = [
    [marked, "release removing kept"],
    [{ ...unowned, isRetained: false }, "release removing gone"],
    [{ ...unowned, isRetained: true }, "release removing kept"],
  ];
  check(rows, { isNamespaceEnding: true });
});

test("a pod that uses a deleted claim stops a time that runs, and is only reported where none runs", () => {
  assert.equal(outline({}, {}, [user]), "restamp in-use");
  assert.equal(outline({ suspendedMs: undefined }, {}, [user]), "tell in-use");
});

test("a deleted claim goes exactly at the end of its time, which runs from its deletion or its suspension, whichever is later", () => {
  const endsIn = (ms: number) => nowMs - hourMs + ms;
  for (const [one, other] of [
    ["suspendedMs", "deletedMs"],
    ["deletedMs", "suspendedMs"],
  ] as const)
    check([
      [{ [one]: endsIn(1), [other]: endsIn(-hourMs) }, "tell owner-gone"],
      [{ [one]: endsIn(0), [other]: endsIn(-hourMs) }, "release removing gone"],
    ]);
  check([[{ deletedMs: undefined }, "tell owner-gone"]]);
  const behind = { wallMs: nowMs - 1 };
  check([[{ suspendedMs: endsIn(0) }, "tell owner-gone"]], behind);
  check([[{ suspendedMs: endsIn(-1) }, "release removing gone"]], behind);
});

test("the longer of a claim's own duration and that of its lost StatefulSet counts, and a malformed one says nothing", () => {
  const own = (value: number): Partial<Pvc> => ({ duration: { kind: "value", value } });
  check([
    [{ ...own(2 * hourMs + 1), keptForMs: hourMs }, "tell owner-gone"],
    [{ ...own(hourMs), keptForMs: 2 * hourMs + 1 }, "tell owner-gone"],
    [{ ...own(2 * hourMs), keptForMs: undefined }, "release removing gone"],
    [{ keptForMs: undefined }, "tell duration-missing"],
    [{ duration: { kind: "malformed", message: "" }, keptForMs: hourMs }, "tell duration-missing"],
  ]);
});

test("the end of the time keeps the PersistentVolume, unless a request and a drain after the claim and its pod were made ask otherwise", () => {
  const [early, late] = [nowMs - 3 * hourMs, nowMs - 2 * hourMs];
  const rows: Rows = [
    [{}, "gone"],
    [notAsked, "kept"],
    [{ request: { kind: "value", value: false } }, "kept"],
    [{ drainedMs: undefined }, "kept"],
    [{ drainedMs: late, createdMs: early, podCreatedMs: late }, "gone"],
    [{ drainedMs: late - 1, createdMs: early, podCreatedMs: late }, "kept"],
    [{ drainedMs: late, createdMs: late, podCreatedMs: early }, "gone"],
    [{ drainedMs: late - 1, createdMs: late, podCreatedMs: early }, "kept"],
    [{ drainedMs: late - 1, createdMs: late, podCreatedMs: undefined }, "kept"],
    [{ drainedMs: 0, createdMs: 0, podCreatedMs: undefined }, "gone"],
    [{ isRetained: true }, "kept"],
    [{ isRetained: false }, "gone"],
    [{ drainedMs: undefined, isRetained: false }, "kept"],
  ];
  check(rows.map(([changes, outcome]) => [changes, `release removing ${outcome}`]));
});
