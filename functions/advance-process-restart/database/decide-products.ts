/** Decides whether the StatefulSets of a group belong to one database. Pure. */

import type { Zone } from "../../shared/groups/zones.ts";
import type { Blocked } from "../../shared/ledger/claim-kinds.ts";
import { databases } from "./table.ts";

/** One marker and one order of restarts serve one database, so that nothing restarts where a group names two. */
export function blockedByProducts(zones: readonly Pick<Zone, "workload">[]): Blocked | undefined {
  const named = zones.flatMap(({ workload: { name, restart } }) => {
    return restart?.database === undefined ? [] : [{ name, product: restart.database.product }];
  });
  const [first] = named;
  const other = named.find(({ product }) => product !== first?.product);
  if (first === undefined || other === undefined) return undefined;
  const [one, two] = [first, other].map(({ name, product }) => `${name} names ${databases[product].title}`);
  return {
    guard: "databases-differ",
    message: `${one}, and ${two}: all StatefulSets of a group belong to one database`,
  };
}
