/** Which reviews of a size join an open scale-down, and which are refused until it has ended (rule R19). */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Claim, formatMembers } from "../../../../functions/shared/ledger/claim.ts";
import {
  describeSizes,
  joinScaleDown,
  leavingOrdinals,
  type SizeChange,
} from "../../../../functions/shared/scaling/size-changes.ts";
import { claimOf, foreignClaim } from "../../functions/advance-zone-rollout/given.ts";

const confirmed = (place: string, changes: Parameters<typeof claimOf>[2] = {}) =>
  claimOf(place, "scale-down", { uids: { a: "uid-of-a" }, phase: "confirmed", ...changes });
/** By default from 5 to 3 replicas of `a`. */
interface Changes extends Partial<Pick<SizeChange, "zone" | "uid" | "pods">> {
  readonly start?: number;
  readonly newStart?: number;
  readonly from?: number;
  readonly to?: number;
}
const change = ({ start = 0, newStart = start, from = 5, to = 3, ...rest }: Changes = {}): SizeChange => {
  const sizes = { from: { start, replicas: from }, to: { start: newStart, replicas: to } };
  return { zone: "a", uid: "uid-of-a", ...sizes, pods: new Map(), ...rest };
};
const join = (claims: readonly Claim[], changes: Changes = {}) => joinScaleDown(claims, change(changes));

test("a review of the same StatefulSet and target joins the confirmed claim, however often it comes", () => {
  const claim = confirmed("a:3-4");
  for (let review = 0; review < 3; review++) assert.deepEqual(join([claim]), { kind: "joins", claim });
  assert.equal(join([confirmed("a:3,4")]).kind, "joins", "adjacent ranges count as one");
  assert.equal(join([confirmed("a:7-9")], { start: 4, from: 6, to: 3 }).kind, "joins");
  assert.equal(join([confirmed("a:3-6")], { from: 5 }).kind, "joins", "some of them have already left");
});

test("any other change of the size is refused, and the message says what the claim is for", () => {
  const refused = (claim: Claim, changes: Changes = {}) => {
    const joining = join([claim], changes);
    assert.ok(joining.kind === "held", joining.kind);
    assert.equal(joining.guard, claim.isKnown ? "zone-scaling-down" : "zone-claim-unknown");
    return joining.message;
  };
  const claim = confirmed("a:3-4");
  assert.match(
    refused(claim, { to: 2 }),
    /^a: 3-4 claimed for a scale-down .+: it takes the ordinals 3-4, and this change takes 2-4$/,
  );
  assert.match(refused(claim, { to: 4 }), /takes the ordinals 3-4, and this change takes 4$/);
  assert.match(refused(claim, { to: 5 }), /takes the ordinals 3-4, and this change takes none$/);
  assert.match(refused(claim, { from: 3, to: 3 }), /takes the ordinals 3-4, and this change takes none$/);
  assert.match(refused(claim, { from: 6 }), /takes the ordinals 3-4, and this change takes 3-5$/);
  assert.match(refused(confirmed("a:3,5"), { from: 6 }), /takes the ordinals 3,5, and this change takes 3-5$/);
  assert.match(refused(claim, { newStart: 1, to: 2 }), /takes the ordinals 3-4, and this change takes 0,3-4$/);
  assert.match(refused(confirmed("a:0-1"), { newStart: 1 }), /takes the ordinals 0-1, and this change takes 0,4$/);
  assert.match(refused(confirmed("a:2-4")), /takes the ordinals 2-4, and this change takes 3-4$/, "it keeps 2");
  assert.match(refused(confirmed("a:0,3-4")), /takes the ordinals 0,3-4, and this change takes 3-4$/, "it keeps 0");
  assert.match(
    refused(confirmed("a:0-4"), { to: 1 }),
    /takes the ordinals 0-4, and this change takes 1-4$/,
    "one stays",
  );
  assert.match(refused(claim, { uid: "another" }), /uid uid-of-a, and this one has another$/);
  assert.match(refused(confirmed("a:3-4", { phase: "preparing" })), /its pods have not all said that they may leave$/);
  assert.match(refused(confirmed("a:3-4", { phase: "undoing" })), /its pods have not all said/);
  assert.match(refused(foreignClaim("a")), /it cannot be told what for$/);
});

test("a claim of an unknown kind does not undo a confirmed one, in whatever order they stand", () => {
  const claim = confirmed("a:3-4");
  for (const claims of [
    [foreignClaim("a"), claim],
    [claim, foreignClaim("a")],
  ]) {
    assert.deepEqual(join(claims), { kind: "joins", claim });
    assert.equal(join(claims, { to: 2 }).kind, "held");
  }
});

test("of several claims of a StatefulSet the first scale-down counts, or else the first that is unknown", () => {
  const [first, second] = [confirmed("a:3-4"), confirmed("a:1", { id: "second" })];
  assert.deepEqual(join([first, second]), { kind: "joins", claim: first });
  const unknown = (id: string) => ({ ...foreignClaim("a"), id, kind: id }) as Claim;
  const joining = join([unknown("rotate-tapes"), unknown("wipe-disks")]);
  assert.match(joining.kind === "held" ? joining.message : "", /rotate-tapes/);
  assert.equal(join([{ ...foreignClaim("a"), kind: "scale-down" } as never as Claim, first]).kind, "joins");
});

test("a scale-down to nothing joins its claim, wherever its ordinals begin", () => {
  for (const newStart of [0, 3, 9]) assert.equal(join([confirmed("a:0-4")], { to: 0, newStart }).kind, "joins");
});

test("without a claimed scale-down a change of a size joins nothing, whatever else is claimed", () => {
  assert.deepEqual(join([]), { kind: "unclaimed" });
  assert.deepEqual(join([confirmed("b:3-4"), claimOf("a:1", "process"), foreignClaim("b")]), { kind: "unclaimed" });
});

test("a pod that has replaced a told one was not told: the change is refused until the next claim tells it", () => {
  const claim = confirmed("a:3-4", { uids: { a: "uid-of-a", "a-3": "told-3", "a-4": "told-4" } });
  const standing = (...pods: [string, string][]) => join([claim], { pods: new Map(pods) });
  assert.equal(standing(["a-3", "told-3"], ["a-4", "told-4"]).kind, "joins");
  assert.equal(standing(["a-3", "told-3"]).kind, "joins", "a pod that is gone need not be told");
  for (const pods of [
    ["a-4", "new"],
    ["a-5", "new"],
  ] as [string, string][]) {
    const joining = standing(["a-3", "told-3"], pods);
    assert.ok(joining.kind === "held");
    assert.match(joining.message, new RegExp(`${pods[0]} is another pod than the one that was told$`));
  }
  const both = standing(["a-3", "new"], ["a-4", "new"]);
  assert.match(both.kind === "held" ? both.message : "", /: a-3 is another pod/, "the first one is named");
});

/** `[start, replicas]` before and after, and the ordinals that leave. */
const sizes: readonly (readonly [[number, number], [number, number], string])[] = [
  [[0, 5], [0, 3], "3-4"],
  [[0, 5], [0, 0], "0-4"],
  [[0, 5], [2, 5], "0-1"],
  [[0, 5], [2, 3], "0-1"],
  [[0, 5], [1, 2], "0,3-4"],
  [[0, 5], [9, 9], "0-4"],
  [[5, 3], [0, 3], "5-7"],
  [[5, 3], [0, 7], "7"],
  [[5, 3], [2, 0], "5-7"],
  [[0, 5], [2, 0], "0-4"],
  [[0, 5], [2, -1], "0-4"],
  [[2, 3], [0, 5], ""],
  [[0, 5], [0, 7], ""],
  [[0, 0], [4, 0], ""],
  [[2 ** 31 - 3, 6], [2 ** 31 - 3, 1], "2147483646-2147483647"],
  [[2 ** 31 - 1, 6], [2 ** 31 - 1, 1], ""],
];

test("the pods that leave are the ordinals of the old range that the new one lacks, up to the largest possible ordinal", () => {
  for (const [[start, replicas], [newStart, to], leaving] of sizes) {
    const ranges = leavingOrdinals({ start, replicas }, { start: newStart, replicas: to });
    assert.equal(formatMembers(ranges), leaving, `${start}+${replicas} to ${newStart}+${to}`);
  }
});

test("a size is reported in replicas, or in ordinals if the first one changes", () => {
  assert.equal(describeSizes({ start: 2, replicas: 5 }, { start: 2, replicas: 0 }), "from 5 to 0 replicas");
  assert.equal(describeSizes({ start: 0, replicas: 5 }, { start: 2, replicas: 1 }), "from ordinals 0-4 to 2");
  assert.equal(describeSizes({ start: 0, replicas: 5 }, { start: 2, replicas: 0 }), "from ordinals 0-4 to none");
});
