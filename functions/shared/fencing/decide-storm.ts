/** Whether so many nodes are unwell at once that what they have in common has failed, and not each of them. Pure. */

/** What counts of a node for a storm. */
export interface NodeHealth {
  readonly isReady: boolean;
  readonly isMarked: boolean;
}

export const isUnhealthy = ({ isReady, isMarked }: NodeHealth): boolean => isMarked || !isReady;

/**
 * The nodes that make a storm: two at least, and more than this percentage of all. Undefined where there is none. One node never
 * makes one, so that small clusters work.
 */
export function stormOf<Node extends NodeHealth>(nodes: readonly Node[], percent: number): readonly Node[] | undefined {
  const unhealthy = nodes.filter(isUnhealthy);
  const isMore = unhealthy.length * 100 > percent * nodes.length;
  return unhealthy.length >= 2 && isMore ? unhealthy : undefined;
}
