import { finalizerPaths } from "../shared/annotations/paths.ts";
import { releaseFinalizer } from "../shared/annotations/skip-labels.ts";
import { hold, retainVolume, volumeHold, volumeProtection } from "../shared/annotations/suspension.ts";
import type { FunctionDefinition } from "../shared/contract/definition.ts";
import type { ObjectRef } from "../shared/contract/keys.ts";
import { skipLabelKindsSetting } from "../shared/reconcile/owner-kinds.ts";
import { retainingNeed } from "../shared/suspension/retain-volume.ts";
import { guards } from "./guards.ts";
import { listKeys, name } from "./observe.ts";
import { reconcile } from "./reconcile.ts";

const settings = { skipLabelKinds: skipLabelKindsSetting };

/** What it needs of each type of objects that have a finalizer of ours. */
const finalizerRights = {
  verbs: ["list", "patch"],
  changes: finalizerPaths(volumeHold, volumeProtection, releaseFinalizer),
} as const;

/** Takes our finalizers from everything in a namespace that is being deleted, before the right to do so goes with it. */
export const releaseNamespace: FunctionDefinition<ObjectRef> & { readonly settings: typeof settings } = {
  name,
  concern: "take our finalizers from everything in a namespace that is being deleted",
  guards,
  keyedBy: "namespaces",
  // No look-up comes first: seconds after the deletion the account of this process may be gone.
  watches: [{ resource: "namespaces", keysOf: (key) => [{ resource: "namespaces", namespace: "", name: key.name }] }],
  listKeys,
  needs: [
    { group: "", resource: "namespaces", verbs: ["get", "list"] },
    { group: "", resource: "persistentvolumeclaims", ...finalizerRights },
    retainingNeed,
    { group: "apps", resource: "statefulsets", ...finalizerRights },
    { group: "rabbitmq.com", resource: "rabbitmqclusters", ...finalizerRights },
  ],
  kindNeeds: [{ list: "owners", ...finalizerRights }],
  // It has seconds, no pod is its concern, and rollout-operator ends with the namespace as well.
  standsBy: false,
  reads: [hold, retainVolume],
  writes: [],
  settings,
  reconcile,
};
