/** The settings about marks: which annotation is one, and which kinds of objects may have it besides Nodes. */

import { setting } from "../shared/base/settings.ts";
import { fenceMark } from "../shared/fencing/mark.ts";
import { type NamedKind, parseNamedKinds } from "../shared/reconcile/named-kinds.ts";

export const markSettings = {
  fenceMark,
  fenceMachineKinds: setting<readonly NamedKind[]>({
    name: "FENCE_MACHINE_KINDS",
    fallback: "",
    meaning: "kinds whose objects may have the mark for the Node in their status.nodeRef",
    grammar: "KIND.GROUP, more of them after commas, such as Machine.cluster.x-k8s.io",
    parse: parseNamedKinds,
  }),
} as const;
