/**
 * The policies of fencing as the real API server decides by them. RBAC lets both accounts write everything here, so that each
 * refusal is one of a policy.
 */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { agentAccount, fencingNamespace } from "../../knative/render/fencing/names.ts";
import { type Api, eventually } from "../controlplane/api.ts";
import { tokenOf } from "../support/installed.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import type { NodeObject } from "./cluster.ts";
import { FencedLife } from "./policy-life.ts";
import { elsewhere, leasePath, longName, nodePath, PolicyStage, refusalOf, type Write } from "./policy-stage.ts";

const key = (name: string) => `sluice.dev/${name}`;
const fence = { key: key("fence"), effect: "NoSchedule" };
const outOfService = (value?: string) => ({ key: "node.kubernetes.io/out-of-service", value, effect: "NoExecute" });
const foreign = { key: "example.com/slow", value: "disk", effect: "PreferNoSchedule" };

const lease = (name: string, annotations: object = {}, more: object = {}) => ({
  metadata: { name, annotations },
  ...more,
});
const create = (body: object, namespace?: string): Write => ({ method: "POST", path: leasePath("", namespace), body });
const annotate = (name: string, annotations: object, namespace?: string): Write => ({
  method: "PATCH",
  path: leasePath(name, namespace),
  body: { metadata: { annotations } },
});
const patch = (name: string, body: object, namespace?: string): Write => ({
  method: "PATCH",
  path: leasePath(name, namespace),
  body,
});
const remove = (name: string, namespace?: string): Write => ({ method: "DELETE", path: leasePath(name, namespace) });
const patchNode = (name: string, body: object): Write => ({ method: "PATCH", path: nodePath(name), body });
const taint = (name: string, ...taints: readonly object[]) => patchNode(name, { spec: { taints } });

/** The writes, and what of the refusal of each is expected: an empty text where it is carried out. */
type Cases = Readonly<Record<string, readonly [Write, string]>>;

async function decide(api: Api, cases: Cases): Promise<void> {
  for (const [what, [write, expected]] of Object.entries(cases)) {
    const message = await refusalOf(api, write);
    if (expected === "") assert.equal(message, "", what);
    else assert.ok(message.includes(expected), `${what}: ${message}`);
  }
}

const notOwn = "an agent writes the Lease of the node in its token alone";
const otherAnnotation = "no other label or annotation";
const otherField = "no other field";

const textOf = ({ metadata }: NodeObject, name: string) => metadata.annotations?.[key(name)];
const isOfFence = (name: string) => name.startsWith(key("")) || name === outOfService().key;
/** Writes of both accounts, one of each kind. */
const lifeOfFence = [
  "create leases sluice-fencing/agent-fenced",
  "patch leases sluice-fencing/agent-fenced",
  "create leases sluice-fencing/fence-fenced",
  "patch leases sluice-fencing/fence-fenced",
  "delete leases sluice-fencing/fence-fenced",
  "patch nodes undefined/fenced",
  "patch leases db/sluice-db",
];

describe("the policies of fencing on the real API server", { skip: await skipWithoutControlPlane() }, () => {
  let stage: PolicyStage;
  let agent: Api;

  before(async () => {
    stage = await PolicyStage.start();
    const { admin } = stage;
    const spec = { taints: [foreign] };
    for (const name of ["node-1", "node-2", longName]) await admin.post(nodePath(), { metadata: { name }, spec });
    await postTainted("tainted");
    agent = await stage.open(await stage.tokenOn("node-1"));
    const records = ["agent-node-1", "agent-node-2", "fence-node-2", "fence-slots", "other"];
    for (const name of records) await admin.post(leasePath(), lease(name));
    await admin.post(leasePath("", elsewhere), lease("other"));
    await admin.post(leasePath("", elsewhere), lease("sluice-db", { [key("group")]: "db" }));
  });

  after(() => stage?.stop());

  const postTainted = (name: string) =>
    stage.admin.post(nodePath(), { metadata: { name }, spec: { taints: [foreign, fence] } });

  test("an agent writes what agents say into the Lease of the node in its token, and nothing else anywhere", async () => {
    const renewal = { [key("agent-mode")]: "armed", [key("agent-peers")]: "", [key("agent-renewals")]: "7" };
    await decide(agent, {
      "a renewal": [annotate("agent-node-1", renewal), ""],
      "that of another node": [annotate("agent-node-2", renewal), notOwn],
      "a fence for itself": [annotate("agent-node-1", { [key("fence-armed")]: "fence boot" }), otherAnnotation],
      "peers for itself": [annotate("agent-node-1", { [key("agent-peers-proposed")]: "" }), otherAnnotation],
      "an annotation of others": [annotate("agent-node-1", { a: "b" }), otherAnnotation],
      "a label": [patch("agent-node-1", { metadata: { labels: { a: "b" } } }), otherAnnotation],
      "a finalizer": [patch("agent-node-1", { metadata: { finalizers: ["a.dev/b"] } }), "no other owner or finalizer"],
      "its node as the holder": [patch("agent-node-1", { spec: { holderIdentity: "node-1" } }), ""],
      "another holder": [patch("agent-node-1", { spec: { holderIdentity: "node-2" } }), "the holder of the Lease"],
      "another field": [patch("agent-node-1", { spec: { leaseTransitions: 3 } }), otherField],
      "its end": [remove("agent-node-1"), notOwn],
      "a record": [annotate("fence-node-2", renewal), "does not write leases.coordination.k8s.io of a fence"],
      "the slots": [annotate("fence-slots", renewal), "does not write leases.coordination.k8s.io of the slots"],
      "another Lease": [annotate("other", renewal), "does not write"],
      "a ledger": [annotate("sluice-db", renewal, elsewhere), "does not write"],
      "one of its name elsewhere": [create(lease("agent-node-1"), elsewhere), "does not write"],
      "its Node": [patchNode("node-1", { metadata: { labels: { a: "b" } } }), "fence-agent does not write nodes"],
      "the status of its Node": [
        { method: "PATCH", path: nodePath("node-1/status"), body: { status: { phase: "Running" } } },
        "fence-agent does not write nodes/status",
      ],
    });
  });

  test("an agent makes the Lease of its node, and no other one", async () => {
    await stage.admin.post(nodePath(), { metadata: { name: "node-3" } });
    const third = await stage.open(await stage.tokenOn("node-3"));
    const holder = { spec: { holderIdentity: "node-3" } };
    await decide(third, {
      "its own": [create(lease("agent-node-3", { [key("agent-mode")]: "armed" }, holder)), ""],
      "with a fence": [create(lease("agent-node-3", { [key("fence-armed")]: "fence boot" })), otherAnnotation],
      "held by another node": [
        create(lease("agent-node-3", {}, { spec: { holderIdentity: "node-1" } })),
        "the holder of",
      ],
      "of another node": [create(lease("agent-node-4", {}, holder)), notOwn],
      "a record": [create(lease("fence-node-3")), "does not write"],
      "the Lease of a kubelet": [create(lease("node-3"), "kube-node-lease"), "does not write"],
    });
  });

  test("a token of the agents' account that names no node writes nothing", async () => {
    const bare = await stage.open(await tokenOf(stage.admin, fencingNamespace, agentAccount));
    await decide(bare, {
      "a renewal": [annotate("agent-node-1", { [key("agent-renewals")]: "7" }), notOwn],
      "a Lease": [create(lease("agent-node-4")), notOwn],
    });
  });

  test("the agent of a node with a name of 247 characters, the most that fences take, has its Lease", async () => {
    assert.equal(longName.length, 247);
    const long = await stage.open(await stage.tokenOn(longName));
    await decide(long, {
      "its own": [create(lease(`agent-${longName}`, {}, { spec: { holderIdentity: longName } })), ""],
      "of another node": [annotate("agent-node-1", {}), notOwn],
    });
  });

  test("the functions write records, slots, and two annotations of agents' Leases; of these they delete records alone", async () => {
    const record = { [key("format")]: "1", [key("fence-id")]: "id", [key("fence-phase")]: "claimed" };
    const labels = { [key("fence-record")]: "true" };
    const armed = { [key("fence-armed")]: "fence boot", [key("agent-peers-proposed")]: "" };
    await decide(stage.functions, {
      "a record": [create({ metadata: { name: "fence-node-1", labels, annotations: record } }), ""],
      "a record of another label": [
        create({ metadata: { name: "fence-node-1", labels: { a: "b" } } }),
        otherAnnotation,
      ],
      "a phase": [annotate("fence-node-2", { ...record, [key("fence-evidence")]: "time" }), ""],
      "a record's holder": [patch("fence-node-2", { spec: { holderIdentity: "a" } }), otherField],
      "what agents say, in a record": [annotate("fence-node-2", { [key("agent-mode")]: "armed" }), otherAnnotation],
      "the end of a record": [remove("fence-node-2"), ""],
      "a slot": [annotate("fence-slots", { [key("format")]: "1", [key("fence-slots")]: "{}" }), ""],
      "a phase in the slots": [annotate("fence-slots", { [key("fence-phase")]: "armed" }), otherAnnotation],
      "the end of the slots": [remove("fence-slots"), "delete no Lease but the record of a fence"],
      "a fence for an agent": [annotate("agent-node-1", armed), ""],
      "the mode of an agent": [annotate("agent-node-1", { [key("agent-mode")]: "armed" }), otherAnnotation],
      "the contact of an agent": [annotate("agent-node-1", { [key("agent-contact-seconds")]: "9" }), otherAnnotation],
      "the key of an agent": [annotate("agent-node-1", { [key("agent-key")]: "k" }), otherAnnotation],
      "the Lease of an agent": [create(lease("agent-node-9")), "make and delete no Lease of an agent"],
      "the end of an agent's Lease": [remove("agent-node-1"), "make and delete no Lease of an agent"],
      "another Lease of the namespace": [create(lease("another")), "fence-node does not write"],
      "a change of another Lease": [annotate("other", record), "fence-node does not write"],
    });
  });

  test("elsewhere the functions write ledgers alone, and each stays the ledger of its group", async () => {
    const ledger = { [key("group")]: "db", [key("format")]: "1", [key("claims")]: "[]" };
    const ledgersAlone = "Sluice writes no Lease but those that are ledgers";
    await decide(stage.functions, {
      "a ledger": [create(lease("sluice-other", { ...ledger, [key("group")]: "other" }), elsewhere), ""],
      claims: [annotate("sluice-db", { [key("claims")]: "[]" }, elsewhere), ""],
      "a Lease of no group": [create(lease("sluice-other"), elsewhere), ledgersAlone],
      "another group": [annotate("sluice-db", { [key("group")]: "other" }, elsewhere), ledgersAlone],
      "another annotation": [annotate("sluice-db", { a: "b" }, elsewhere), otherAnnotation],
      "a holder": [patch("sluice-db", { spec: { holderIdentity: "a" } }, elsewhere), otherField],
      "the end of a ledger": [remove("sluice-db", elsewhere), "delete no Lease but the record of a fence"],
      "another Lease": [annotate("other", ledger, elsewhere), "fence-node does not write"],
      "a record": [create(lease("fence-node-1", { [key("format")]: "1" }), elsewhere), "fence-node does not write"],
      "the leader of the controllers": [create(lease("leader", ledger), "kube-system"), "fence-node does not write"],
      "the Lease of a kubelet": [create(lease("node-1"), "kube-node-lease"), "fence-node does not write"],
    });
  });

  test("of a Node the functions write their own taints and annotations, and out-of-service only under the taint of a fence", async () => {
    const ours = outOfService("sluice-id");
    const texts = { [key("fence-id")]: "id", [key("fence-phase")]: "armed", [key("unhealthy")]: null };
    const others = "taints of others stay as they are";
    await decide(stage.functions, {
      "a fence": [patchNode("node-1", { metadata: { annotations: texts }, spec: { taints: [foreign, fence] } }), ""],
      "its end": [taint("tainted", foreign), ""],
      "a node that is emptied": [taint("node-1", foreign, fence, { ...fence, effect: "NoExecute" }), ""],
      "out of service": [taint("tainted", foreign, fence, ours), ""],
      "out of service before the taint": [taint("node-1", foreign, fence, ours), "is not put out of service"],
      "out of service by others": [taint("tainted", foreign, fence, outOfService("nodeshutdown")), others],
      "out of service without a value": [taint("tainted", foreign, fence, outOfService()), others],
      "a taint of others is lost": [taint("node-1", fence), others],
      "a taint of others is changed": [taint("node-1", { ...foreign, value: "x" }, fence), others],
      "another taint": [taint("node-1", foreign, { key: "a.dev/b", effect: "NoExecute" }), others],
      "a cordon": [patchNode("node-1", { spec: { unschedulable: true } }), otherField],
      "an annotation of others": [patchNode("node-1", { metadata: { annotations: { a: "b" } } }), otherAnnotation],
      "a label": [patchNode("node-1", { metadata: { labels: { a: "b" } } }), otherAnnotation],
      "a finalizer": [patchNode("node-1", { metadata: { finalizers: ["a.dev/b"] } }), "no other owner or finalizer"],
      "a status": [
        { method: "PATCH", path: nodePath("node-1/status"), body: { status: { phase: "Running" } } },
        "fence-node does not write nodes/status",
      ],
      "a Node": [{ method: "POST", path: nodePath(), body: lease("node-9") }, "make and delete no Node"],
      "the end of a Node": [{ method: "DELETE", path: nodePath("tainted") }, "make and delete no Node"],
    });
  });

  test("administrators and all other accounts write what their rights let them", async () => {
    const namesake = await stage.open(await stage.tokenOfNamesake());
    for (const api of [stage.admin, namesake])
      await decide(api, {
        "the end of a record": [remove("fence-node-2"), ""],
        "the end of the slots": [remove("fence-slots"), ""],
        "the end of an agent's Lease": [remove("agent-node-2"), ""],
        "a fence by hand": [annotate("agent-node-1", { [key("fence-armed")]: null, a: "b" }), ""],
        "a taint": [taint("node-1"), ""],
        "the end of a Node": [{ method: "DELETE", path: nodePath("node-2") }, ""],
      });
  });

  test("a fence that a person confirms goes from its mark to its end with the tokens of both accounts, and no write is refused", async (context) => {
    const life = new FencedLife(stage);
    context.after(async () => {
      if (!("passed" in context && context.passed === true)) life.print();
      await life.stop();
    });
    await life.start();
    const pod = await life.untilPodReady();
    await life.annotate({ [key("unhealthy")]: "disk failed" });
    await life.untilReset();
    await life.endAgent();
    await life.report(life.bootId, "Unknown");
    const { metadata } = await life.untilNode("the id of the fence", (node) => textOf(node, "fence-phase") === "armed");
    await life.annotate({ [key("fence-confirmed")]: metadata.annotations?.[key("fence-id")] ?? "" });
    await life.untilNode("the node is evacuated", (node) => textOf(node, "fence-phase") === "fenced");
    await life.report("new-boot", "True");
    await life.untilNode("nothing is left on the Node", ({ metadata: { annotations = {} }, spec }) =>
      [...Object.keys(annotations), ...(spec.taints ?? []).map((one) => one.key)].every((one) => !isOfFence(one)),
    );
    assert.notEqual(await life.untilPodReady(), pod, "Kubernetes has taken the pod off the Node");
    await eventually("the end of the record", 45_000, async () =>
      (await life.lease("fence-fenced")) === undefined ? true : undefined,
    );
    assert.equal((await life.lease("agent-fenced"))?.[key("fence-armed")], undefined);

    const writes = await life.writes();
    const refused = writes.filter(({ code = 0 }) => code >= 400 && code !== 409);
    assert.deepEqual(
      refused.map(({ verb, resource, name, message }) => `${verb} ${resource} ${name}: ${message}`),
      [],
    );
    const carriedOut = new Set(
      writes.map(({ verb, resource, namespace, name }) => `${verb} ${resource} ${namespace}/${name}`),
    );
    for (const wanted of lifeOfFence) assert.ok(carriedOut.has(wanted), `${wanted}: ${[...carriedOut].join(", ")}`);
  });

  // The last one, because its policies replace the others.
  test("for the strategy node-deletion the functions also make Nodes, and delete them under the taint of a fence", async () => {
    await stage.apply("base/fencing-node-deletion");
    await postTainted("deleted");
    const labels = { "example.com/rack": "7" };
    const annotations = { "example.com/owner": "storage", [key("fence-id")]: "id" };
    const made = {
      metadata: { name: "node-9", labels, annotations },
      spec: { podCIDR: "10.0.9.0/24", taints: [foreign] },
    };
    const lacking = { metadata: { labels, annotations }, spec: { taints: [foreign, { ...foreign, key: "a.dev/b" }] } };
    const post = (body: object): Write => ({ method: "POST", path: nodePath(), body });
    await decide(stage.functions, {
      "a Node": [post(made), ""],
      "a Node with a status": [post({ ...made, status: { phase: "Running" } }), "is made without a status"],
      "a Node with a boot": [post({ ...made, status: { nodeInfo: { bootID: "a" } } }), "is made without a status"],
      "a Node that has an owner": [
        post({ metadata: { ...made.metadata, finalizers: ["a.dev/b"] } }),
        "no other owner or finalizer",
      ],
      "what the Node lacks": [patchNode("node-1", lacking), ""],
      "a taint of others is lost": [taint("node-1"), "taints of others stay"],
      "the end of a Node": [{ method: "DELETE", path: nodePath("deleted") }, ""],
      "the end of a Node without the taint": [{ method: "DELETE", path: nodePath("node-1") }, "is not deleted"],
      "a status": [
        { method: "PATCH", path: nodePath("node-1/status"), body: { status: { phase: "Running" } } },
        "fence-node does not write nodes/status",
      ],
      "a record": [create(lease("fence-node-1", { [key("format")]: "1" })), ""],
    });
    await decide(agent, { "a Node": [post(made), "fence-agent does not write nodes"] });
  });
});
