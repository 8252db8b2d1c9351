/** The namespace of fencing, and what it permits. */

import { labelsOf, type Manifest } from "../object.ts";
import { fencingNamespace } from "./names.ts";

/** What must run while nodes fail: no pod of lower priority may take its place. */
export const priorities = { ofFunctions: "system-cluster-critical", ofAgents: "system-node-critical" } as const;

/** The Namespace, and the quota without which some clusters, as those of GKE, admit no critical pod outside of kube-system. */
export function namespaceOfFencing(): readonly Manifest[] {
  const labels = labelsOf("fencing");
  // The agents are privileged, and the functions would fit into `restricted`.
  const levels = ["enforce", "audit", "warn"].map((mode) => [`pod-security.kubernetes.io/${mode}`, "privileged"]);
  const scope = { scopeName: "PriorityClass", operator: "In", values: Object.values(priorities) };
  return [
    {
      apiVersion: "v1",
      kind: "Namespace",
      metadata: { name: fencingNamespace, labels: { ...labels, ...Object.fromEntries(levels) } },
    },
    {
      apiVersion: "v1",
      kind: "ResourceQuota",
      metadata: { name: "critical-pods", namespace: fencingNamespace, labels },
      // It permits, and limits nothing: two agents on each of 5,000 nodes during an update are far fewer.
      spec: { hard: { pods: "1G" }, scopeSelector: { matchExpressions: [scope] } },
    },
  ];
}
