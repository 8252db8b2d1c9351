import { hold, retainVolume } from "../shared/objects/vocabulary/suspension.ts";
import type { FunctionDefinition } from "../shared/pass/definition.ts";
import type { ObjectRef } from "../shared/views/keys.ts";
import { listKeys, name, settings } from "./observe.ts";
import { run } from "./pass.ts";

/** Takes our finalizers from everything in a namespace that is being deleted, before the right to do so goes with it. */
export const releaseNamespace: FunctionDefinition<ObjectRef> & { readonly settings: typeof settings } = {
  name,
  concern: "take our finalizers from everything in a namespace that is being deleted",
  keyedBy: "namespaces",
  // No look-up comes first: seconds after the deletion the account of this process may be gone.
  wokenBy: [{ resource: "namespaces", keysOf: (key) => [{ resource: "namespaces", namespace: "", name: key.name }] }],
  listKeys,
  needs: [
    { group: "", resource: "namespaces", verbs: ["get", "list"] },
    { group: "", resource: "persistentvolumeclaims", verbs: ["list", "patch"] },
    { group: "", resource: "persistentvolumes", verbs: ["get", "patch"] },
    { group: "apps", resource: "statefulsets", verbs: ["list", "patch"] },
    { group: "rabbitmq.com", resource: "rabbitmqclusters", verbs: ["list", "patch"] },
  ],
  kindNeeds: [{ verbs: ["list", "patch"] }],
  reads: [hold, retainVolume],
  writes: [],
  settings,
  run,
};
