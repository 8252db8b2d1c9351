/** Which Machine a Node has, whether its mark counts, and the settings that say what a mark is. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { decideUnmarking } from "../../../../functions/fence-node/decide-unmarking.ts";
import {
  isMachineOf,
  type MachineSeen,
  marksOf,
  parseMachine,
} from "../../../../functions/fence-node/machine-marks.ts";
import { backUp } from "../../../../functions/fence-node/node-backup.ts";
import { parseNode, withMarks } from "../../../../functions/fence-node/record.ts";
import type { Malformed } from "../../../../functions/shared/annotations/table.ts";
import { markOf } from "../../../../functions/shared/fencing/mark.ts";
import type { NodeObject } from "../../../../functions/shared/kubernetes/cluster.ts";
import { readSettings } from "../../../../triggers/settings/settings.ts";
import { back, clean, decided, inPhase, marked } from "./fence-snapshots.ts";

const resource = "/apis/cluster.x-k8s.io/v1beta1/machines";
const metadata = { name: "n", uid: "node-uid", resourceVersion: "10" };
const node: NodeObject = { metadata, spec: { providerID: "cloud:///one" } };
const seen = (changes: Partial<MachineSeen> = {}): MachineSeen => ({
  ...{ resource, namespace: "clusters", name: "m", uid: "machine-uid", resourceVersion: "50" },
  mark: "disk failed",
  nodeName: "n",
  nodeUid: undefined,
  providerId: undefined,
  ...changes,
});

test("a Machine is that of the Node that its status names, and of no namesake in another cluster", () => {
  const cases: readonly (readonly [Partial<MachineSeen>, boolean])[] = [
    [{}, true],
    [{ nodeName: "other" }, false],
    [{ nodeUid: "node-uid" }, true],
    [{ nodeUid: "other-uid" }, false],
    [{ providerId: "cloud:///one" }, true],
    [{ providerId: "cloud:///two" }, false],
    [{ nodeUid: "node-uid", providerId: "cloud:///two" }, false],
    // Such a Node was made again: Cluster API keeps the uid of the first one.
    [{ nodeUid: "other-uid", providerId: "cloud:///one" }, true],
    [{ nodeUid: "other-uid", providerId: "cloud:///two" }, false],
  ];
  for (const [changes, expected] of cases)
    assert.equal(isMachineOf(node, seen(changes)), expected, JSON.stringify(changes));
  const bare: NodeObject = { metadata };
  assert.equal(isMachineOf(bare, seen({ providerId: "cloud:///two" })), true, "the Node says nothing of its machine");
  assert.equal(isMachineOf(bare, seen({ nodeUid: "other-uid", providerId: "cloud:///two" })), false);
});

test("the mark of the one Machine of a Node counts, and of two that name it none does, whether both have one or not", () => {
  assert.deepEqual(marksOf(node, []), {});
  assert.deepEqual(marksOf(node, [seen({ mark: undefined })]), {});
  assert.deepEqual(marksOf(node, [seen(), seen({ nodeName: "other" }), seen({ nodeUid: "x" })]), { machine: seen() });
  for (const mark of [undefined, "fan"]) {
    const { machine, unclearMark } = marksOf(node, [seen(), seen({ name: "second", mark })]);
    assert.equal(machine, undefined);
    assert.match(
      unclearMark ?? "",
      /^2 Machines name the Node n, .*: the Machine clusters\/m, the Machine clusters\/second\./,
    );
  }
  assert.deepEqual(marksOf(node, [seen({ mark: undefined }), seen({ mark: undefined, name: "second" })]), {});
});

test("whatever stands in an object of such a kind, it is read without an error, and an empty mark is reported", () => {
  const mark = markOf({});
  const annotations = { [mark.key]: "disk failed" };
  const object = { metadata: { ...metadata, namespace: "clusters", annotations } };
  const named = (status: unknown, spec?: unknown) => parseMachine(resource, { ...object, status, spec }, mark);
  for (const status of [undefined, null, "n", 7, [], {}, { nodeRef: null }, { nodeRef: "n" }, { nodeRef: { name: 7 } }])
    assert.equal(named(status), undefined, JSON.stringify(status));
  assert.equal(named({ nodeRef: { name: "" } }), undefined);
  assert.equal(named({ nodeRef: { kind: "Pod", name: "n" } }), undefined);
  const machine = named({ nodeRef: { kind: "Node", name: "n", uid: "node-uid" } }, { providerID: "cloud:///one" });
  assert.deepEqual(
    [machine?.nodeName, machine?.nodeUid, machine?.providerId, machine?.mark, machine?.namespace],
    ["n", "node-uid", "cloud:///one", "disk failed", "clusters"],
  );
  const malformed: Malformed[] = [];
  const empty = {
    metadata: { ...object.metadata, annotations: { [mark.key]: "" } },
    status: { nodeRef: { name: "n" } },
  };
  assert.equal(parseMachine(resource, empty, mark, malformed)?.mark, undefined);
  assert.match(malformed[0]?.message ?? "", /^of the Machine clusters\/n: annotation sluice\.dev\/unhealthy is ""/);
});

test("the mark of the Node itself comes first, and that of its Machine names the Machine", () => {
  assert.equal(withMarks(clean, {}).mark, undefined);
  assert.equal(withMarks(clean, { machine: seen() }).mark, "disk failed (the Machine clusters/m)");
  assert.equal(withMarks({ ...clean, mark: "fan" }, { machine: seen() }).mark, "fan");
});

test("no fence begins for a Node whose Machines are not clear, unless the Node itself has the mark", () => {
  const unclearMark = "2 Machines name the Node n";
  assert.deepEqual(decided({ node: { ...clean, unclearMark } }), {
    ...{ guard: "machine-unclear", message: unclearMark, step: undefined, requeueAfterMs: undefined },
  });
  assert.equal(decided({ node: { ...marked, unclearMark } }).guard, "claiming");
  const { guard, step } = decided({ node: { ...clean, unclearMark }, record: inPhase("claimed") });
  assert.deepEqual([guard, step?.kind], ["releasing", "release-slot"], "it is taken back");
});

test("a Machine loses the mark before its Node is given back, and keeps it while a fence waits or is taken back", () => {
  const machine = seen();
  const recovering = inPhase("recovering", "boot-id");
  const ready = { ...back, machine };
  assert.deepEqual(decided({ node: ready, record: recovering }).step, { kind: "unmark-machine", machine });
  assert.equal(decided({ node: { ...ready, machine: undefined }, record: recovering }).step?.kind, "clean-node");
  assert.equal(decided({ node: { ...ready, isReady: false }, record: recovering }).step?.kind, "show");
  const never = decided({ node: { ...ready, isNever: true }, record: inPhase("claimed") });
  assert.deepEqual([never.guard, never.step?.kind], ["taking-back", "clean-node"]);
  const beganAgain = { ...inPhase("claimed", "time"), bootId: back.bootId };
  const returned = decided({ node: ready, record: beganAgain });
  assert.deepEqual([returned.guard, returned.step], ["taking-back", { kind: "unmark-machine", machine }]);
  for (const record of [recovering, beganAgain]) {
    const refused = decided({ node: ready, record, isRefused: true });
    assert.deepEqual([refused.guard, refused.hold], ["not-permitted", "not-permitted"]);
    assert.match(refused.message, /does not let Sluice take the mark off the Machine clusters\/m/);
  }
  const anew = { ...recovering, settlingMs: recovering.sinceMs };
  assert.equal(decided({ node: ready, record: anew }).step?.kind, "clean-node", "the mark asks for another fence");
});

test("a fence that may not take the mark off its Machine tries once a minute, and one that may does it at once", () => {
  const machine = seen();
  assert.deepEqual(decideUnmarking({ node: { ...back, machine }, name: "n", isRefused: true }, "recovering"), {
    guard: "not-permitted",
    hold: "not-permitted",
    message:
      "the fence of n has ended, and the API server does not let Sluice take the mark off the Machine clusters/m: give the right to patch it, or remove the mark",
    step: undefined,
    requeueAfterMs: 60_000,
  });
  for (const guard of ["recovering", "taking-back"])
    assert.deepEqual(decideUnmarking({ node: { ...back, machine }, name: "n" }, guard), {
      guard,
      message: "the Machine clusters/m loses the mark: the fence of n has ended",
      step: { kind: "unmark-machine", machine },
      requeueAfterMs: undefined,
    });
  for (const node of [undefined, back])
    for (const isRefused of [false, true])
      assert.equal(decideUnmarking({ node, name: "n", isRefused }, "x"), undefined);
});

test("FENCE_MARK is one key of an annotation: none of Kubernetes, and no other one of Sluice", () => {
  const read = (name: string, text: string) => readSettings({ [name]: text });
  assert.equal(readSettings({}).settings.fenceMark, "sluice.dev/unhealthy");
  for (const key of ["example.com/broken", "broken", "host.metal3.io/external-remediation", "sluice.dev/unhealthy"]) {
    const { settings, mistakes } = read("FENCE_MARK", key);
    assert.deepEqual([settings.fenceMark, mistakes], [key, []]);
  }
  const refused = [
    ...["a b", "a/b/c", "/a", "a/", "example.com/*", "a,b", "x".repeat(64), "Example.com/a", "ä"],
    ...["sluice.dev/fence", "sluice.dev/unhealthy2", "volumes.kubernetes.io/a", "kubernetes.io/a", "node.k8s.io/a"],
  ];
  for (const key of refused) {
    const { mistakes } = read("FENCE_MARK", key);
    assert.equal(mistakes.length, 1, key);
    assert.match(mistakes[0] ?? "", /^FENCE_MARK is .*; write one key, such as example\.com\/broken/, key);
  }
});

test("FENCE_MACHINE_KINDS is a list of kinds with their groups, and empty by default", () => {
  const read = (text?: string) => readSettings(text === undefined ? {} : { FENCE_MACHINE_KINDS: text });
  assert.deepEqual(read().settings.fenceMachineKinds, []);
  assert.deepEqual(read("Machine.cluster.x-k8s.io, Machine.machine.openshift.io").settings.fenceMachineKinds, [
    { kind: "Machine", group: "cluster.x-k8s.io" },
    { kind: "Machine", group: "machine.openshift.io" },
  ]);
  for (const text of ["machines.cluster.x-k8s.io", "cluster.x-k8s.io/v1beta1 Machine", "*", "Machine."])
    assert.match(read(text).mistakes[0] ?? "", /^FENCE_MACHINE_KINDS is .*; write KIND\.GROUP/, text);
});

test("another key in FENCE_MARK is the mark, also in the backup of a Node, and the usual one is not", () => {
  const mark = markOf({ settings: { fenceMark: "ovn.example.com/broken" } });
  const object = (key: string): NodeObject => ({ metadata: { ...metadata, annotations: { [key]: "disk failed" } } });
  assert.equal(parseNode(object(mark.key), mark).mark, "disk failed");
  assert.equal(parseNode(object("sluice.dev/unhealthy"), mark).mark, undefined);
  assert.deepEqual(backUp(object(mark.key), mark).annotations, { [mark.key]: "disk failed" });
  assert.deepEqual(backUp(object(mark.key)).annotations, {}, "networks write such annotations anew");
});
