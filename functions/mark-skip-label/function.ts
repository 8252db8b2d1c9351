import { finalizerPaths, pathsOf, skipLabelPath } from "../shared/annotations/paths.ts";
import * as skipLabels from "../shared/annotations/skip-labels.ts";
import type { FunctionDefinition } from "../shared/contract/definition.ts";
import type { ObjectRef } from "../shared/contract/keys.ts";
import { guards } from "./guards.ts";
import { listKeys, name } from "./observe.ts";
import { settings } from "./owners.ts";
import { reconcile } from "./reconcile.ts";

/** What it needs of each kind of owner. */
const owners = {
  verbs: ["get", "list", "patch"],
  changes: [...pathsOf(skipLabels.skipStatus), ...finalizerPaths(skipLabels.releaseFinalizer)],
} as const;

/** Labels the pods of a deleted owner, so that their stop hooks let go, and then lets go of the owner. */
export const markSkipLabel: FunctionDefinition<ObjectRef> & { readonly settings: typeof settings } = {
  name,
  concern: "label the pods of a deleted owner so that their stop hooks let go, then release its finalizer",
  // Owners of every kind are keys, and so is a namespace, for all owners in it.
  keyedBy: "rabbitmqclusters",
  guards,
  watches: [
    { resource: "rabbitmqclusters", keysOf: (key) => [{ resource: "rabbitmqclusters", ...key }] },
    // Its pods go five seconds after its deletion, so that no look-up comes first, which may have to wait for its turn.
    { resource: "namespaces", keysOf: ({ name }) => [{ resource: "namespaces", namespace: "", name }] },
  ],
  listKeys,
  needs: [
    { group: "rabbitmq.com", resource: "rabbitmqclusters", ...owners },
    { group: "apps", resource: "statefulsets", ...owners },
    {
      group: "",
      resource: "pods",
      verbs: ["list", "patch"],
      changes: [skipLabelPath, ...pathsOf(skipLabels.skipLabelledAt)],
    },
    { group: "", resource: "namespaces", verbs: ["get"] },
    { group: "", resource: "events", verbs: ["create"] },
  ],
  kindNeeds: [{ list: "owners", ...owners }],
  reads: [
    skipLabels.skipLabel,
    skipLabels.skipDeadline,
    skipLabels.stopAll,
    skipLabels.skipStatus,
    skipLabels.skipLabelledAt,
  ],
  writes: [skipLabels.skipStatus, skipLabels.skipLabelledAt],
  settings,
  finalizers: [{ name: skipLabels.releaseFinalizer, setting: settings.skipLabelFinalizer }],
  reconcile,
};
