/** Whether a claim may be made (rule R17). */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type LedgerSurroundings,
  leaversOf,
  refuseClaim,
  refuseOwnZone,
  refuseScaleDown,
} from "../../../../functions/shared/groups/refuse-claim.ts";
import {
  claimOf,
  foreignClaim,
  mostReplicas,
  pod,
  reservation,
  zone,
} from "../../functions/advance-zone-rollout/given.ts";

function around(zones: LedgerSurroundings["zones"], changes: Partial<LedgerSurroundings> = {}): LedgerSurroundings {
  return { zones, departed: [], strayClaims: [], ...changes };
}

const guardOf = (where: LedgerSurroundings, claim = claimOf("a:1", "scale-down"), limit = 1) =>
  refuseClaim(where, claim, limit)?.guard;

test("a claim may be made while every other zone is whole and the limit permits its pods to be down", () => {
  assert.equal(guardOf(around([zone("a", "nnn"), zone("b", "nnn")])), undefined);
  assert.equal(guardOf(around([zone("a", "nnn")]), claimOf("a:1-2", "scale-down"), 2), undefined);
  assert.equal(guardOf(around([zone("a", "nnn")]), claimOf("a:1-2", "scale-down"), 1), "never-possible");
  assert.equal(guardOf(around([zone("a", "wnn")]), claimOf("a:1", "process"), 1), "budget");
});

test("a claim needs no allowance for a pod that is already down", () => {
  assert.equal(guardOf(around([zone("a", "nwn")])), undefined);
});

test("a claim of a volume takes no pod down, but still needs every other zone to be whole", () => {
  assert.equal(guardOf(around([zone("a", "wnn"), zone("b", "nnn")]), claimOf("a:1", "volume")), undefined);
  assert.equal(guardOf(around([zone("a", "nnn"), zone("b", "wnn")]), claimOf("a:1", "volume")), "zones-down");
});

test("no claim is made while another zone is not whole or has a claim", () => {
  assert.equal(guardOf(around([zone("a", "nnn"), zone("b", "nwn")])), "zones-down");
  assert.equal(
    guardOf(around([zone("a", "nnn"), zone("b", "nnn", { claims: [claimOf("b:0", "volume")] })])),
    "zone-removing-volume",
  );
  assert.equal(
    guardOf(around([zone("a", "nnn"), zone("b", "nnn", { claims: [foreignClaim("b")] })])),
    "zone-claim-unknown",
  );
});

test("a claim is refused if another function has reserved or claimed one of its pods, however many may be down", () => {
  const of = (changes: Parameters<typeof zone>[2]) =>
    guardOf(around([zone("a", "nnn", changes)]), claimOf("a:1-2", "process"), 9);
  assert.equal(of({ reserved: [reservation("a-2")] }), "budget");
  assert.equal(of({ claims: [claimOf("a:0-1", "scale-down")] }), "zone-scaling-down");
  assert.equal(of({ claims: [foreignClaim("a")] }), "zone-claim-unknown");
  assert.equal(of({ reserved: [reservation("a-0")], claims: [claimOf("a:0", "node", { id: "n" })] }), undefined);
});

test("each member of several ranges counts, and no other pod", () => {
  const claim = claimOf("a:1-2,5-6", "process");
  const refused = (changesOf: (ordinal: number) => Parameters<typeof zone>[2]) =>
    Array.from({ length: 8 }, (_, ordinal) => ordinal).filter(
      (ordinal) => guardOf(around([zone("a", "nnnnnnnn", changesOf(ordinal))]), claim, 9) !== undefined,
    );
  assert.deepEqual(
    refused((ordinal) => ({ reserved: [reservation(`a-${ordinal}`)] })),
    [1, 2, 5, 6],
  );
  assert.deepEqual(
    refused((ordinal) => ({ claims: [claimOf(`a:${ordinal}`, "process")] })),
    [1, 2, 5, 6],
  );
  const beside = (members: string) =>
    guardOf(around([zone("a", "n".repeat(9), { claims: [claimOf(`a:${members}`, "node")] })]), claim, 9);
  for (const members of ["0-1", "2-3", "4-5", "6-7", "0-8", "0,6"]) assert.equal(beside(members), "zone-losing-node");
  for (const members of ["3-4", "0,3,7-8"]) assert.equal(beside(members), undefined);
  assert.equal(guardOf(around([zone("a", "nnnnnnnn")]), claim, 3), "never-possible");
  assert.equal(guardOf(around([zone("a", "nnnnnnnn")]), claim, 4), undefined);
  assert.equal(guardOf(around([zone("a", "wnnnnnnn")]), claim, 4), "budget");
  assert.equal(guardOf(around([zone("a", "wnnnnnnn")]), claim, 5), undefined);
});

test("a pod that is being scaled away counts like any other member of a claim", () => {
  const scaled = around([zone("a", "nnn", { extra: [pod("a-3")] })]);
  assert.equal(guardOf(scaled, claimOf("a:3", "scale-down"), 0), "budget");
  assert.equal(guardOf(scaled, claimOf("a:3", "scale-down"), 1), undefined);
});

test("a refusal names the first zone by name that is not whole, or the first of several claims or pods", () => {
  const refusal = (where: LedgerSurroundings, claim = claimOf("a:1-2", "process")) => refuseClaim(where, claim, 9);
  const others = around([zone("a", "nnn"), zone("b", "wnn"), zone("c", "nnn", { claims: [claimOf("c:0", "volume")] })]);
  assert.deepEqual(refusal(others), { guard: "zones-down", message: "b: 1 of 3 down (1 not ready)" });
  const claims = [claimOf("a:2", "node", { id: "one" }), claimOf("a:1", "volume", { id: "two" })];
  assert.equal(refusal(around([zone("a", "nnn", { claims })]))?.guard, "zone-losing-node");
  const reserved = [reservation("a-0"), reservation("a-1"), reservation("a-2")];
  assert.equal(refusal(around([zone("a", "nnn", { reserved })]))?.message, "a-1 is reserved");
  assert.equal(refusal(around([zone("b", "nnn")]))?.message, "a has left the group or is gone");
  assert.equal(
    refusal(around([zone("a", "nnn")], { departed: [reservation("gone-0")] }))?.message.slice(0, 76),
    "gone-0 is reserved, but its StatefulSet has left the group or is gone; no ot",
  );
});

test("no claim is made in a zone that has left the group, nor while such a zone has a reservation or a claim", () => {
  assert.equal(guardOf(around([zone("b", "nnn")])), "zone-departed");
  assert.equal(guardOf(around([zone("a", "nnn")], { departed: [reservation("gone-0")] })), "zone-departed");
  assert.equal(guardOf(around([zone("a", "nnn")], { strayClaims: [claimOf("gone:0", "node")] })), "zone-losing-node");
});

test("an announced claim has no limit and may always be made, because every function counts it", () => {
  const announced = claimOf("a:0-2", "node", { terms: "announced" });
  assert.equal(guardOf(around([zone("a", "www"), zone("b", "www")]), announced, 0), undefined);
  assert.equal(guardOf(around([zone("b", "nnn")], { strayClaims: [foreignClaim("gone")] }), announced, 0), undefined);
});

test("never-possible: a claim of more pods than may ever be down is refused at once, with the numbers (R25)", () => {
  const two = claimOf("a:1-2", "scale-down");
  for (const where of [around([zone("a", "nnn")]), around([zone("a", "nww"), zone("b", "www")])]) {
    assert.deepEqual(refuseClaim(where, two, 1), {
      guard: "never-possible",
      message: "2 pods of a are to be down at once, and 1 may ever be: ask for no more than that, or raise the limit",
    });
  }
  const departed = around([zone("a", "nnn")], { departed: [reservation("gone-0")] });
  assert.equal(guardOf(departed, two, 1), "never-possible");
  assert.equal(guardOf(around([zone("a", "nnn")]), claimOf("a:1", "process"), 0), "never-possible");
  assert.equal(
    guardOf(around([zone("a", "nnn")]), claimOf("a:2-3", "scale-down"), 1),
    undefined,
    "the zone does not want a-3",
  );
  assert.equal(guardOf(around([zone("a", "nnn")]), claimOf("a:3-2147483647", "scale-down"), 1), undefined);
  assert.equal(guardOf(around([zone("a", "nnn")]), claimOf("a:1-2,10-12", "scale-down"), 1), "never-possible");
  const from2 = around([zone("a", "nnn", { start: 2 })]);
  assert.equal(guardOf(from2, claimOf("a:0-2", "scale-down"), 1), undefined, "its ordinals begin at 2");
  assert.equal(
    guardOf(around([zone("a", "nnn")]), claimOf("a:1-2", "volume"), 0),
    undefined,
    "a volume takes no pod down",
  );
});

test("pods leave for good without a limit while all that stay are ready; each pod that stays and is down limits them (Z2)", () => {
  const leaving = claimOf("a:2-3", "scale-down");
  const refusal = (own: Parameters<typeof zone>[1], changes: Parameters<typeof zone>[2] = {}) =>
    refuseScaleDown(around([zone("a", own, changes), zone("b", "nnnn")]), leaving);
  assert.equal(refusal("nnnn"), undefined);
  assert.equal(refusal("nnww"), undefined, "a pod that leaves may be down");
  assert.deepEqual(refusal("wnnn", { maxUnavailable: 2 }), {
    guard: "budget",
    message: "1 of 4 down (1 not ready), 2 may be, and 2 more would be".replace(/^/, "a: "),
  });
  assert.equal(refusal("wnnn", { maxUnavailable: 3 }), undefined);
  assert.equal(refusal("wnww"), undefined, "only pods that are down leave");
  assert.equal(refuseScaleDown(around([zone("b", "nnnn")]), leaving)?.guard, "zone-departed");
});

test("with OrderedReady a downscale waits for an unready pod that stays, and for the lowest unready one of several that leave", () => {
  const guard = (own: string, members = "a:2-3") =>
    refuseScaleDown(around([zone("a", own, { isOrdered: true, maxUnavailable: 9 })]), claimOf(members, "scale-down"));
  assert.match(guard("wwnn")?.message ?? "", /^a-0 is not ready, and a is OrderedReady/);
  assert.match(guard("nnww")?.message ?? "", /^a-2 is not ready/, "a-3 is above it, and not ready either");
  assert.equal(guard("nnwn"), undefined, "the controller takes a-3 away, and then a-2");
  assert.equal(guard("nnnw", "a:3"), undefined, "it is the only pod that leaves");
  assert.equal(guard("nnnn"), undefined);
});

test("a webhook's own claim is checked by its own zone alone, and goes on if the zone already has a claim", () => {
  const leaving = claimOf("a:2-3", "scale-down");
  const guard = (...zones: ReturnType<typeof zone>[]) => refuseOwnZone({ zones }, leaving)?.guard;
  assert.equal(guard(zone("b", "wnnn"), zone("a", "wnnn")), "budget");
  assert.equal(guard(zone("a", "nnnn"), zone("b", "wnnn")), undefined);
  assert.equal(guard(zone("a", "wnnn", { claims: [claimOf("a:3", "scale-down")] })), undefined);
  assert.equal(guard(zone("b", "wnnn")), undefined, "another check refuses it because its zone is gone");
});

test("the pods of a claim are those at its ordinals, and those that it names by uid", () => {
  const names = (uids: Readonly<Record<string, string>>) =>
    leaversOf(zone("a", "nnnn"), { members: [{ first: 2, last: 3 }], uids }).map(({ name }) => name);
  assert.deepEqual(names({}), ["a-2", "a-3"]);
  assert.deepEqual(names({ "a-0": "uid-of-a-0" }), ["a-0", "a-2", "a-3"]);
  assert.deepEqual(names({ "a-0": "uid of another pod" }), ["a-2", "a-3"]);
});

test("missing pods that stay limit a downscale, missing pods that leave do not, and 2^31 of them cost no time (Z2)", () => {
  const refusal = (own: string, members: string, changes: Parameters<typeof zone>[2] = {}) =>
    refuseScaleDown(around([zone("a", own, changes)]), claimOf(`a:${members}`, "scale-down"))?.guard;
  assert.equal(refusal(".nnn", "3"), "budget");
  assert.equal(refusal(".nnn", "3", { maxUnavailable: 2 }), undefined);
  assert.equal(refusal(".nnn", "3", { maxUnavailable: 0 }), "budget");
  assert.equal(refusal("nn.n", "2-3"), undefined);
  assert.equal(refusal("wwnw", "3"), undefined, "only pods that are down leave");
  const last = mostReplicas - 1;
  assert.equal(refusal("", `${last}`, { replicas: mostReplicas, extra: [pod(`a-${last}`)] }), "budget");
});

test("a pod that the claim names by uid, and a reserved ordinal that leaves, do not count among those that stay", () => {
  const byUid = claimOf("a:3", "scale-down", { uids: { "a-0": "uid-of-a-0" } });
  assert.equal(refuseOwnZone({ zones: [zone("a", "wnnn")] }, byUid), undefined);
  const reserved = zone("a", "nn.n", { reserved: [reservation("a-2")] });
  assert.equal(refuseOwnZone({ zones: [reserved] }, claimOf("a:2-3", "scale-down")), undefined);
});

test("the refusal names the lowest ordinal that stays and is down, with or without a pod", () => {
  const named = (own: string) =>
    refuseOwnZone({ zones: [zone("a", own, { isOrdered: true })] }, claimOf("a:4", "scale-down"))?.message.split(
      ",",
    )[0];
  assert.equal(named(".wwnn"), "a-0 is missing");
  assert.equal(named("nw.nn"), "a-1 is not ready");
});
