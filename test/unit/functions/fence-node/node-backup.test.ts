/** What of a Node outlasts its deletion (invariant A7), over drawn Nodes, and what a backup in a record must have. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { backUp, lackOfNode, restoredNode } from "../../../../functions/fence-node/node-backup.ts";
import {
  formatBackup,
  type NodeBackup,
  nodeBackup,
} from "../../../../functions/shared/annotations/fencing-deletion.ts";
import type { NodeObject } from "../../../../functions/shared/kubernetes/cluster.ts";

const theirKeys = [
  "a",
  "example.com/note",
  "node.alpha.kubernetes.io/ttl",
  "sluice.dev/unhealthy",
  "sluice.dev/fence-strategy",
  "sluice.dev/fence",
];
const droppedKeys = [
  "sluice.dev/fence-id",
  "sluice.dev/fence-phase",
  "sluice.dev/fence-hold",
  "sluice.dev/fence-confirmed",
  "k8s.ovn.org/node-subnets",
  "csi.volume.kubernetes.io/nodeid",
  "volumes.kubernetes.io/controller-managed-attach-detach",
  "projectcalico.org/IPv4Address",
  "flannel.alpha.coreos.com/backend-data",
  "network.cilium.io/ipv4-pod-cidr",
  "io.cilium.network/ipv4-pod-cidr",
  "node.antrea.io/mac-address",
  "kube-router.io/peer.ips",
  "k8s.v1.cni.cncf.io/networks",
  "vpc.amazonaws.com/pod-ips",
];
const theirTaints = ["example.com/dedicated", "node.kubernetes.io/unschedulable", "node.kubernetes.io/disk-pressure"];
const droppedTaints = [
  "sluice.dev/fence",
  "node.kubernetes.io/unreachable",
  "node.kubernetes.io/not-ready",
  "node.kubernetes.io/out-of-service",
];
const effects = ["NoSchedule", "NoExecute"];

const word = fc.constantFrom("", "1", "a b");
const texts = (keys: readonly string[]) => fc.dictionary(fc.constantFrom(...keys), word);
const taint = (keys: readonly string[]) =>
  fc.record({ key: fc.constantFrom(...keys), effect: fc.constantFrom(...effects) });
const taints = (keys: readonly string[]) =>
  fc.uniqueArray(taint(keys), { selector: ({ key, effect }) => key + effect });
const drawn = fc.record({
  labels: texts(["a", "kubernetes.io/hostname", "sluice.dev/any"]),
  theirs: texts(theirKeys),
  dropped: texts(droppedKeys),
  theirTaints: taints(theirTaints),
  droppedTaints: taints(droppedTaints),
  unschedulable: fc.constantFrom(undefined, true, false),
  podCIDR: fc.constantFrom(undefined, "10.0.0.0/24"),
  providerID: fc.constantFrom(undefined, "aws:///a"),
});
type Drawn = typeof drawn extends fc.Arbitrary<infer T> ? T : never;

/** JSON has no undefined, and neither has an object of the API server. */
const plain = <T>(value: T): T => JSON.parse(JSON.stringify(value)) as T;
const specOf = ({ unschedulable, podCIDR, providerID }: Drawn) => ({
  unschedulable,
  podCIDR,
  podCIDRs: podCIDR === undefined ? undefined : [podCIDR],
  providerID,
});

function nodeOf(given: Drawn): NodeObject {
  const { labels, theirs, dropped } = given;
  const taints = [...given.theirTaints, ...given.droppedTaints];
  const metadata = { name: "n", uid: "u", resourceVersion: "1", labels, annotations: { ...theirs, ...dropped } };
  const status = { nodeInfo: { bootID: "boot-1" } };
  return plain({ metadata, spec: { ...specOf(given), taints }, status }) as unknown as NodeObject;
}

test("a restored Node has the labels, annotations, taints and the cordon of others, its ranges, and nothing else", () => {
  const property = fc.property(drawn, (given) => {
    const read = nodeBackup.parse(formatBackup(backUp(nodeOf(given))));
    assert.ok(read);
    assert.deepEqual([read.uid, read.resourceVersion], ["u", "1"]);
    const spec = { ...specOf(given), ...(given.theirTaints.length === 0 ? {} : { taints: given.theirTaints }) };
    const metadata = { name: "n", labels: given.labels, annotations: given.theirs };
    assert.deepEqual(plain(restoredNode("n", read)), plain({ apiVersion: "v1", kind: "Node", metadata, spec }));
  });
  fc.assert(property, { numRuns: 300 });
});

test("a Node that is there again keeps what it has, and lacks nothing after one patch", () => {
  const property = fc.property(drawn, drawn, (before, now) => {
    const backup = backUp(nodeOf(before));
    const node = nodeOf(now);
    const lack = lackOfNode(node, backup);
    const after = {
      metadata: {
        ...node.metadata,
        labels: { ...node.metadata.labels, ...lack?.labels },
        annotations: { ...node.metadata.annotations, ...lack?.annotations },
      },
      spec: { ...node.spec, ...lack?.spec },
    };
    assert.equal(lackOfNode(after, backup), undefined);
    assert.deepEqual(after.metadata.labels, { ...before.labels, ...now.labels });
    assert.deepEqual(after.metadata.annotations, { ...before.theirs, ...node.metadata.annotations });
    const taintsBefore = node.spec?.taints ?? [];
    assert.deepEqual(after.spec.taints?.slice(0, taintsBefore.length), taintsBefore);
    assert.equal(after.spec.unschedulable === true, before.unschedulable === true || now.unschedulable === true);
    assert.deepEqual(after.spec.podCIDR, now.podCIDR);
  });
  fc.assert(property, { numRuns: 300 });
});

test("a taint with another value or effect stays, and only another effect lets that of the backup be added", () => {
  const of = (value: string, effect: string) => ({ key: "a", value, effect });
  const backup: NodeBackup = {
    uid: "u",
    resourceVersion: "1",
    labels: {},
    annotations: {},
    spec: { taints: [of("1", "NoSchedule")] },
  };
  const nodeWith = (one: object) => ({ metadata: { name: "n" }, spec: { taints: [one] } }) as unknown as NodeObject;
  assert.equal(lackOfNode(nodeWith(of("2", "NoSchedule")), backup), undefined);
  const lack = lackOfNode(nodeWith(of("2", "NoExecute")), backup);
  assert.deepEqual(lack?.spec.taints, [of("2", "NoExecute"), of("1", "NoSchedule")]);
});

test("a backup that is not whole does not parse", () => {
  const whole = {
    uid: "u",
    resourceVersion: "1",
    labels: { a: "1" },
    annotations: {},
    spec: { taints: [{ key: "a", effect: "b" }] },
  };
  assert.deepEqual(nodeBackup.parse(JSON.stringify(whole)), whole);
  const wrong = [
    { uid: 1 },
    { resourceVersion: undefined },
    { labels: { a: 1 } },
    { labels: undefined },
    { annotations: [] },
    { spec: "a" },
    { spec: undefined },
    { spec: { taints: {} } },
    { spec: { taints: [{ key: "a" }] } },
    { spec: { taints: [{ effect: "a" }] } },
    { spec: { taints: ["a"] } },
  ];
  for (const one of wrong) assert.equal(nodeBackup.parse(JSON.stringify({ ...whole, ...one })), undefined);
  for (const text of ["", "{", "[]", "null"]) assert.equal(nodeBackup.parse(text), undefined);
});
