/** When all pods of a group restart together, and when none restarts because their databases differ. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import type { Candidate } from "../../../../functions/advance-process-restart/candidate.ts";
import {
  blockedTogether,
  hasFailedTogether,
  membersOf,
} from "../../../../functions/advance-process-restart/coordinated/decide-begin.ts";
import type { Zone } from "../../../../functions/shared/groups/zones.ts";
import type { Claim } from "../../../../functions/shared/ledger/claim.ts";
import { claimOf, nowMs, reservation } from "../advance-zone-rollout/given.ts";
import { a, away, gathered, joint, type Marks, marked, mended, next, refused, zoneOf } from "./next-given.ts";

suite("together", () => {
  const asked = (ordinal: number, marks: Marks = {}) => marked(a, ordinal, "schedule-coordinated", marks);

  test("all begin at once, after they have gathered for ten seconds", () => {
    assert.equal(next([asked(0), asked(1)], gathered), "begin-together a-1 a-0");
    assert.equal(next([asked(0), asked(1)], { gatheredMs: 9_999 }), "restart-gathering");
    assert.equal(next([asked(0), asked(1)]), "restart-gathering");
  });

  test("none begins while a person wants another restart now, which waits", () => {
    assert.equal(next([marked(a, 2, "schedule", away), asked(1)], gathered), "manager-busy");
  });

  test("none begins while one of the pods, its files or its process manager is in the way", () => {
    assert.equal(next([asked(0, { terminating: true }), asked(1)], gathered), "pod-terminating");
    assert.equal(next([asked(0, { publication: "missing" }), asked(1)], gathered), "service-missing");
    assert.equal(next([asked(0, { files: refused }), asked(1)], gathered), "restart-config-refused");
    assert.equal(next([asked(0, away), asked(1)], gathered), "manager-busy");
  });

  test("pods that have failed together start again together when a file of one is mended, and never alone", () => {
    const failed = [marked(a, 0, "failed", { ...mended, ...joint }), marked(a, 1, "failed", joint)];
    assert.equal(next(failed, gathered), "begin-together a-1 a-0");
    const waiting = [...failed, marked(a, 2, "schedule", away)];
    assert.equal(next(waiting, gathered), "manager-busy");
  });

  test("who has failed together is known by the phase and by the beginning of the id", () => {
    assert.equal(hasFailedTogether(marked(a, 0, "failed", joint)), true);
    assert.equal(hasFailedTogether(marked(a, 0, "failed", { id: "restart-1" })), false);
    assert.equal(hasFailedTogether(marked(a, 0, "failed")), false);
    assert.equal(hasFailedTogether(marked(a, 0, "schedule", joint)), false);
  });

  test("the members are the pods with the phase and those that have failed together, by name", () => {
    const names = (...candidates: readonly Candidate[]) => membersOf(candidates).map(({ pod }) => pod.name);
    assert.deepEqual(names(asked(0), marked(a, 1, "failed", joint), asked(2)), ["a-2", "a-1", "a-0"]);
    assert.deepEqual(names(marked(a, 1, "failed", joint)), []);
    assert.deepEqual(names(marked(a, 1, "failed", joint), marked(a, 2, "failed", { ...mended, ...joint })), [
      "a-2",
      "a-1",
    ]);
  });

  test("a StatefulSet without a process manager is in the way of all, unless it is being deleted", () => {
    const bare = (name: string, deleting = false) => zoneOf(name, { restart: undefined, deleting } as never);
    const of = (...zones: readonly Zone[]) => blockedTogether({ zones, candidates: [], claims: [], ...gathered });
    assert.match(of(a, bare("b"), bare("c"))?.message ?? "", /^b has no sluice.dev\/restart-manager, /);
    assert.equal(of(a, bare("b", true)), undefined);
  });

  test("another claim or reservation in the ledger is in the way of all, and the first one is named", () => {
    const reserved = (name: string) => zoneOf(name, { reserved: [reservation(`${name}-1`, { stampMs: nowMs })] });
    const of = (zones: readonly Zone[], claims: readonly Claim[] = []) =>
      blockedTogether({ zones, candidates: [], claims, ...gathered });
    const why = "a pod of b is reserved, and all stop only while nothing else goes on";
    assert.deepEqual(of([a, reserved("b"), reserved("c")]), { guard: "restart-beside-others", message: why });
    assert.match(of([a], [claimOf("a:0", "node"), claimOf("b:0", "node")])?.message ?? "", /^a: 0 claimed for a node/);
    assert.equal(of([a]), undefined);
    const before = [reservation("b-1", { uid: "uid-of-the-one-before" })];
    const broken = zoneOf("b", { reserved: before });
    assert.equal(of([broken])?.message, why);
    const pods = broken.pods.map((pod) => (pod.ordinal === 1 ? { ...pod, readySinceMs: undefined } : pod));
    assert.equal(of([{ ...broken, pods }]), undefined, "only this restart can mend what came instead");
  });
});

suite("databases-differ", () => {
  const database = (product: string) => ({ database: { product, urls: [], secret: undefined } }) as never;
  const [one, other] = [zoneOf("a", database("opensearch")), zoneOf("b", database("elasticsearch"))];
  const differing = { zones: [one, other], ...gathered };
  const nextOf = (candidate: Candidate) => next([candidate], differing);

  test("no restart begins, whether a person wants it now, in its turn, together, or its files are mended", () => {
    for (const phase of ["schedule", "schedule-rolling", "schedule-coordinated"] as const)
      assert.equal(nextOf(marked(one, 1, phase)), "databases-differ", phase);
    assert.equal(nextOf(marked(one, 1, "failed", mended)), "databases-differ");
    assert.equal(next([marked(one, 1, "schedule"), marked(one, 2, "schedule-rolling")], differing), "databases-differ");
  });

  test("nothing waits for it while no restart is wanted", () => {
    assert.equal(next([], differing), "");
    assert.equal(nextOf(marked(one, 1, "failed")), "");
  });
});
