/** What is not found is not gone: why a volume of a FoundationDBCluster may be there all the same. Pure. */
import type { FoundationCluster, ProcessGroupPvc } from "./foundation-cluster.ts";

/** So many volume claims are named. */
const mostNamed = 5;

/** Undefined where every volume claim of the cluster was found, and says of which process group it is. */
export function whyUnfound({
  cluster,
  unplaced,
}: {
  readonly cluster: FoundationCluster | undefined;
  readonly unplaced: readonly ProcessGroupPvc[];
}): string | undefined {
  if (cluster === undefined) return undefined;
  const { name, marks } = cluster;
  const waits = "until then no process group without a volume claim goes";
  if (marks.unreadable !== undefined)
    return `${marks.unreadable}, so that volume claims of ${name} may not be found: correct it; ${waits}`;
  if (unplaced.length === 0) return undefined;
  const names = unplaced.map((pvc) => pvc.name).sort();
  const more = names.length > mostNamed ? ` and ${names.length - mostNamed} more` : "";
  const labels = marks.idLabels.join(" nor ");
  return `no label says of which process group of ${name} these volume claims are: ${names.slice(0, mostNamed).join(", ")}${more}; each has neither ${labels}: give each the label ${marks.idLabels[0]} with the id of its process group; ${waits}`;
}
