/** A node that comes back with its pods: when its claim is settled, and what of the containers shows that (kind `node`). */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type ClaimContent, isNamedBy, makeClaim, parseClaims } from "../../../../functions/shared/ledger/claim.ts";
import { kinds } from "../../../../functions/shared/ledger/claim-kinds.ts";
import { LedgerUnreadable } from "../../../../functions/shared/ledger/errors.ts";
import { containerIdsOf } from "../../../../functions/shared/workloads/pods.ts";
import { nowMs, pod, statefulSet } from "../../functions/advance-zone-rollout/given.ts";

const content: ClaimContent = {
  id: "fence-1/a",
  kind: "node",
  zone: "a",
  members: [{ first: 3, last: 3 }],
  uids: { "a-3": "uid-of-a-3" },
  containers: { "a-3": ["old-app", "old-sidecar"] },
  by: "fence-node",
  stampMs: nowMs - 1_000,
  phase: "returned",
  terms: "announced",
  anchor: { resource: "leases", namespace: "fencing", name: "fence-n", annotation: "example.dev/id" },
};

function isSettled(
  changes: Partial<ClaimContent>,
  ids: readonly string[] | undefined,
  read: Parameters<typeof pod>[1] = {},
): boolean {
  const where = {
    statefulSet: statefulSet("a", { replicas: 5 }),
    pods: new Map([[3, pod("a-3", read)]]),
    ...(ids && { containers: new Map([[3, ids]]) }),
    volumes: new Map(),
    isAnchored: true,
  };
  return kinds.node.isSettled(makeClaim({ ...content, ...changes }), where, nowMs);
}

const anew = ["new-app", "new-sidecar"];

test("a returned node is settled when the same pod is available and runs none of the containers of before", () => {
  assert.ok(isSettled({}, anew));
  assert.ok(!isSettled({}, ["old-app", "old-sidecar"]), "its kubelet has not reported yet");
  assert.ok(!isSettled({}, ["old-app", "new-sidecar"]), "one of them is of before");
  assert.ok(!isSettled({}, anew, { readySinceMs: undefined }), "it is not ready");
  assert.ok(isSettled({}, anew, { uid: "next" }), "another pod is back elsewhere");
});

test("new containers settle nothing while the node is not known to have started anew", () => {
  assert.ok(!isSettled({ phase: "announced" }, anew));
  assert.ok(isSettled({ phase: "announced" }, anew, { uid: "next" }));
});

test("a pod of which the containers are not known, before or now, does not count as started anew", () => {
  assert.ok(!isSettled({ containers: {} }, anew));
  assert.ok(!isSettled({}, []));
  assert.ok(!isSettled({}, undefined), "none of them was read");
  assert.ok(isSettled({ containers: { "a-3": [] } }, anew), "it waited then, and runs now");
  assert.ok(!isSettled({ uids: {} }, anew), "the claim does not name the pod");
});

test("the ids of containers stand in the line of a claim, and a malformed one makes its ledger unreadable", () => {
  const unreadable = (why: string) => new LedgerUnreadable("sluice-group", why);
  const { line } = makeClaim(content);
  const [parsed] = parseClaims(line, unreadable);
  assert.ok(parsed?.isKnown);
  assert.deepEqual(parsed.containers, content.containers);
  for (const containers of [{ "a-3": "old" }, { "a-3": [1] }, { "a-3": [""] }, []]) {
    const malformed = JSON.stringify({ ...JSON.parse(line), containers });
    assert.throws(() => parseClaims(malformed, unreadable), /containers of the claim fence-1\/a \(node\) is malformed/);
  }
});

test("the id of a container has no runtime and 12 characters, and a container that waits has none", () => {
  const ids = (...containers: readonly string[]) =>
    containerIdsOf({ status: { containerStatuses: containers.map((containerID) => ({ containerID })) } });
  assert.deepEqual(ids("containerd://0123456789abcdef", "cri-o://fedcba9876543210", ""), [
    "0123456789ab",
    "fedcba987654",
  ]);
  assert.deepEqual(containerIdsOf({ status: { containerStatuses: [{ name: "app" }] } }), []);
  assert.deepEqual(containerIdsOf({}), []);
});

test("one anchor names all claims of its fence, and no claim of another one", () => {
  assert.ok(isNamedBy({ id: "fence-1/a" }, "fence-1"));
  assert.ok(isNamedBy({ id: "fence-1" }, "fence-1"));
  for (const text of ["fence-", "fence-2", "fence-1/b", "", undefined])
    assert.ok(!isNamedBy({ id: "fence-1/a" }, text));
});
