import { questionEntries } from "../shared/annotations/health.ts";
import { pathsOf } from "../shared/annotations/paths.ts";
import {
  queueRebalanceNeededAt,
  rebalanceEntries,
  rebalanceState,
  wantsRebalance,
} from "../shared/annotations/rebalancing.ts";
import type { FunctionDefinition } from "../shared/contract/definition.ts";
import type { KeyLookUp, ObjectRef } from "../shared/contract/keys.ts";
import type { ObjectKey } from "../shared/kubernetes/cluster.ts";
import { reconcile } from "./act.ts";
import { guards } from "./guards.ts";
import { isLabelled, listKeys, name, settings } from "./observe.ts";

/** Has RabbitMQ spread its queue leaders again, after nodes were away. Its keys are StatefulSets. */
export const rebalanceQueues: FunctionDefinition<ObjectRef> & { readonly settings: typeof settings } = {
  name,
  concern: "spread the queue leaders of RabbitMQ again after its pods were replaced",
  guards,
  keyedBy: "statefulsets",
  // Its pods are counted in its status: each that goes or comes changes that.
  watches: [{ resource: "statefulsets", selector: wantsRebalance, keysOf: theOne }],
  listKeys,
  needs: [
    {
      group: "apps",
      resource: "statefulsets",
      verbs: ["get", "list", "watch", "patch"],
      changes: pathsOf(rebalanceState, queueRebalanceNeededAt),
    },
    { group: "", resource: "pods", verbs: ["list"] },
    { group: "rabbitmq.com", resource: "rabbitmqclusters", verbs: ["get"] },
    { group: "", resource: "events", verbs: ["create"] },
  ],
  reads: [...rebalanceEntries, ...questionEntries],
  writes: [rebalanceState, queueRebalanceNeededAt],
  settings,
  reconcile,
};

/** An event may name any StatefulSet: one without the label costs a read, within the limit of look-ups, and no reconcile. */
function theOne({ namespace, name: set }: ObjectKey): KeyLookUp<ObjectRef> {
  const key: ObjectRef = { resource: "statefulsets", namespace, name: set };
  return {
    name: `statefulsets ${namespace}/${set}`,
    find: async ({ cluster }) => ((await isLabelled(cluster, key)) ? [key] : []),
  };
}
