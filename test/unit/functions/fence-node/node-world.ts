/** A node with its agent's Lease and a pod, in virtual time, beside processes of `fence-node`. */
import assert from "node:assert/strict";
import { fenceNode } from "../../../../functions/fence-node/function.ts";
import type { Context } from "../../../../functions/shared/contract/context.ts";
import type { ObjectRef } from "../../../../functions/shared/contract/keys.ts";
import { Harness, namespace, played } from "../../shared/reconcile/harness.ts";

export const fencing = "sluice-fencing";
export const node: ObjectRef = { resource: "nodes", namespace: "", name: "a-0" };
export const record = { namespace: fencing, name: "fence-a-0" };
export const slots = { namespace: fencing, name: "fence-slots" };
export const agent = { namespace: fencing, name: "agent-a-0" };
export const pod = { namespace, name: "group-a-0" };
export const machine = "machine-1";
export const firstBoot = "boot-1";
export const outOfService = "node.kubernetes.io/out-of-service";
const mark = "sluice.dev/unhealthy";

type Texts = Readonly<Record<string, string | null>>;

export interface NodeWorld {
  readonly harness: Harness;
  /** Runs reconciles of the node until they have nothing left to do. Resolves to the last guard. */
  reconcile(changes?: Partial<Context>): Promise<string | undefined>;
  annotate(texts: Texts): void;
  /** What the Node says under `sluice.dev/…`, by what follows that. */
  texts(): Readonly<Record<string, string>>;
  /** The keys of its taints, in order. */
  taints(): readonly string[];
  /** The same of the record; undefined where there is none. */
  record(): Readonly<Record<string, string>> | undefined;
  /** The Lease of the slots; undefined where there is none, or no text in it. */
  slots(): { readonly slots: readonly { readonly fenceId: string; readonly node: string }[] } | undefined;
  /** What the agent is told. */
  armed(): string | undefined;
  /** The kubelet of the machine reports this boot. */
  boot(bootId: string, isReady?: boolean, systemUuid?: string): void;
  /** The kubelet of the first boot reports that it is not ready. */
  reportsNotReady(): void;
  setTaints(taints: readonly { readonly key: string; readonly value?: string; readonly effect: string }[]): void;
  /** The machine stops without a word. */
  falls(): void;
}

const ours = /^sluice\.dev\//;
const textsOf = (annotations: Readonly<Record<string, string>> = {}) =>
  Object.fromEntries(
    Object.entries(annotations)
      .filter(([key]) => ours.test(key))
      .map(([key, text]) => [key.replace(ours, ""), text]),
  );

interface Given {
  /** The node has no agent. */
  readonly isAgentless?: boolean;
  /** Its pod is of a group, which has a ledger; absent: it is of none. */
  readonly zones?: readonly string[];
}

export function nodeWorld(given: Given = {}): NodeWorld {
  const harness = new Harness({ zones: given.zones ?? ["a"], replicas: 1 });
  if (given.zones === undefined) {
    const labels = { "rollout-group": null };
    harness.world.store.patch("statefulsets", { namespace, name: "group-a" }, { metadata: { labels } });
  }
  const { store } = harness.world;
  const key = { namespace: "", name: node.name };
  const statusOf = (bootID: string, isReady: boolean, systemUUID = machine) => ({
    conditions: [{ type: "Ready", status: isReady ? "True" : "Unknown" }],
    nodeInfo: { bootID, systemUUID },
  });
  store.create("nodes", "", { metadata: { name: node.name } });
  store.patch("nodes", key, { status: statusOf(firstBoot, true) }, "status");
  if (!given.isAgentless) {
    const annotations = { "sluice.dev/agent-mode": "explicit-only", "sluice.dev/agent-boot-id": firstBoot };
    store.create("leases", fencing, { metadata: { name: agent.name, annotations } });
  }
  const found = () => store.get("nodes", key);
  const world: NodeWorld = {
    harness,
    async reconcile(changes = {}) {
      harness.restart(changes);
      await played(harness.timeline, fenceNode.reconcile(harness.context, node, { sweep: false }));
      return harness.guard;
    },
    annotate: (annotations) => void store.patch("nodes", key, { metadata: { annotations } }),
    texts: () => textsOf(found().metadata.annotations),
    taints: () => (found().spec?.taints ?? []).map((one: { readonly key: string }) => one.key),
    record() {
      const lease = store.find("leases", record);
      return lease && textsOf(lease.metadata.annotations);
    },
    slots() {
      const text = store.find("leases", slots)?.metadata.annotations?.["sluice.dev/fence-slots"];
      return text === undefined ? undefined : JSON.parse(text);
    },
    armed: () => store.find("leases", agent)?.metadata.annotations?.["sluice.dev/fence-armed"],
    boot(bootId, isReady = true, systemUuid = machine) {
      const status = statusOf(bootId, isReady, systemUuid);
      store.patch("nodes", key, { status }, "status");
    },
    setTaints: (taints) => void store.patch("nodes", key, { spec: { taints } }),
    falls: () => world.boot(firstBoot, false),
    reportsNotReady() {
      const conditions = [{ type: "Ready", status: "False" }];
      store.patch("nodes", key, { status: { conditions } }, "status");
    },
  };
  return world;
}

/** A node that has the mark, for whose agent the fence is armed. */
export async function armedWorld(given: Parameters<typeof nodeWorld>[0] = {}): Promise<NodeWorld> {
  const world = nodeWorld(given);
  world.annotate({ [mark]: "disk failed" });
  await world.reconcile();
  assert.equal(world.record()?.["fence-phase"], "armed");
  return world;
}

/** The id of the fence that is under way. */
export function fenceIdOf(world: NodeWorld): string {
  const id = world.record()?.["fence-id"];
  assert.ok(id);
  return id;
}
