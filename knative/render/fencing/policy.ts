/**
 * The policies of an installation of fencing. With a right to write Leases of its namespace an account could reset every node,
 * and have two nodes run a pod of one name: RBAC knows neither the node of a token nor which annotation is written. The API
 * server evaluates the policies itself. They are about the two accounts of the installation, and about no other.
 */

import type { Need } from "../../../functions/shared/contract/definition.ts";
import type { Manifest } from "../object.ts";
import { leasesPolicy } from "./policy-leases.ts";
import { machinesPolicy } from "./policy-machines.ts";
import { nodesPolicy } from "./policy-nodes.ts";

/**
 * The policies with their bindings, which hold the agents to the Lease of their own node, and the functions to what these needs
 * say that they change. With a need to delete Nodes they may do so under the taint of a fence, and make them again. The
 * namespace is that of `names.ts`: in another one the accounts would have other names, and these policies would not be about
 * them. Tokens name nodes since Kubernetes 1.32. Throws Error for a change of a Lease that no sort of Lease takes.
 */
export function fencingPoliciesOf(needs: readonly Need[]): readonly Manifest[] {
  return [...leasesPolicy(needs), ...nodesPolicy(needs), ...machinesPolicy(needs)];
}
