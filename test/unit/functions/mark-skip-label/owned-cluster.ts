/** A RabbitmqCluster that owns a StatefulSet of three pods, in virtual time, beside processes of `mark-skip-label`. */
import { markSkipLabel } from "../../../../functions/mark-skip-label/function.ts";
import type { Context } from "../../../../functions/shared/contract/context.ts";
import type { ReconcileResult } from "../../../../functions/shared/contract/definition.ts";
import type { ObjectRef } from "../../../../functions/shared/contract/keys.ts";
import type { Metadata, Resource } from "../../../../functions/shared/kubernetes/cluster.ts";
import { Harness, namespace, played } from "../../shared/reconcile/harness.ts";

export const finalizer = "sluice.dev/release-prestop";
export const owner: ObjectRef = { resource: "rabbitmqclusters", namespace, name: "orders" };
export const statefulSet: ObjectRef = { resource: "statefulsets", namespace, name: "group-server" };

export interface OwnedCluster {
  readonly harness: Harness;
  /** A process with these settings and an empty memory. */
  process(settings?: Readonly<Record<string, unknown>>, changes?: Partial<Context>): Process;
  annotate(annotations: Readonly<Record<string, string | null>>, of?: ObjectRef): void;
  remove(propagationPolicy?: "Background" | "Foreground" | "Orphan", of?: ObjectRef): void;
  /** Undefined if it is gone. */
  find(of?: ObjectRef): Metadata | undefined;
  /** The value of `skipPreStopChecks` by the pod's ordinal, without pods that are gone. */
  labels(key?: string): Record<number, string>;
  /** Guard and message of the owner's status. */
  status(of?: ObjectRef): { readonly guard: string; readonly sentence: string } | undefined;
}

export interface Process {
  /** Runs one reconcile. Resolves to its last guard. */
  reconcile(key?: ObjectRef): Promise<string | undefined>;
  run(key?: ObjectRef): Promise<ReconcileResult>;
  /** The names of the keys that a sweep finds. */
  keys(): Promise<readonly string[]>;
}

/** By default it asks for the label that its operator's own hook waits for. `given`: null removes that. */
export async function ownedCluster(given: Readonly<Record<string, string | null>> = {}): Promise<OwnedCluster> {
  const asked = Object.entries({ "sluice.dev/skip-label": "skipPreStopChecks", ...given });
  const annotations = Object.fromEntries(asked.filter((one): one is [string, string] => one[1] !== null));
  const harness = new Harness({ zones: ["server"], replicas: 3, updateStrategy: "RollingUpdate" });
  const { world, timeline } = harness;
  const { store } = world;
  store.create("rabbitmqclusters", namespace, { metadata: { name: owner.name, annotations }, spec: { replicas: 3 } });
  const { uid } = store.get("rabbitmqclusters", owner).metadata;
  const reference = { apiVersion: "rabbitmq.com/v1beta1", kind: "RabbitmqCluster", name: owner.name, uid };
  const ownerReferences = [{ ...reference, controller: true, blockOwnerDeletion: true }];
  store.patch("statefulsets", statefulSet, { metadata: { ownerReferences } });
  const metadataOf = ({ resource, ...key }: ObjectRef): Metadata | undefined =>
    store.find(resource as Resource, key)?.metadata as Metadata | undefined;
  return {
    harness,
    process(settings = {}, changes = {}) {
      harness.restart({ settings, ...changes });
      const { context } = harness;
      const run = (key: ObjectRef = owner) => played(timeline, markSkipLabel.reconcile(context, key, { sweep: false }));
      return {
        run,
        async reconcile(key) {
          await run(key);
          return harness.guard;
        },
        keys: async () => (await played(timeline, markSkipLabel.listKeys(context, undefined))).map(({ name }) => name),
      };
    },
    annotate: (given, { resource, ...key } = owner) => world.annotate(key, given, resource),
    remove: (propagationPolicy = "Background", { resource, ...key } = owner) =>
      store.delete(resource, key, { propagationPolicy }),
    find: (of = owner) => metadataOf(of),
    labels(key = "skipPreStopChecks") {
      const pods = store.list("pods", { namespace }).items;
      return Object.fromEntries(
        pods.flatMap(({ metadata: { name, labels = {} } }) => {
          const value = labels[key];
          return value === undefined ? [] : [[Number(name.at(-1)), value]];
        }),
      );
    },
    status(of = owner) {
      const text = metadataOf(of)?.annotations?.["sluice.dev/skip-status"];
      return text === undefined ? undefined : JSON.parse(text);
    },
  };
}
