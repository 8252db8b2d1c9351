/** The setting that the function and the agent have in common. The agent imports this file as well. Pure. */

import { isNamespaceName } from "../shared/base/dns-names.ts";
import { setting } from "../shared/base/settings.ts";

export const fenceNamespace = setting<string>({
  name: "FENCE_NAMESPACE",
  fallback: "sluice-fencing",
  meaning: "the namespace of the Leases of fence-node and its agents",
  grammar: "the name of a namespace",
  parse: (text) => (isNamespaceName(text) ? text : undefined),
});
