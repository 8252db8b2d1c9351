/** One LIST for each served namespace, or one of all of them, as often as clients ask and limits permit. */
import { limitReads, type ReadLimits } from "../shared/base/limit-reads.ts";
import type { StatusContext } from "../shared/contract/definition.ts";
import { isTransient } from "../shared/kubernetes/cluster.ts";
import type { Omissions } from "./omissions.ts";

export interface ScopedListsOptions<Listed> {
  /** What is listed, as the status names it where it cannot be. */
  readonly part: string;
  readonly limits: ReadLimits;
  /** Absent namespace: all of them. Throws ClusterError. */
  list(namespace: string | undefined): Promise<Listed>;
  /** Called when the API server has answered, if only that it refuses. */
  onAnswer?(): void;
}

export interface ScopedLists<Listed> {
  /** Resolves when the last LISTs have ended, and at the latest after the time of the limits. */
  refresh(): Promise<void>;
  /** The last answer about a namespace; undefined if it could not be listed. */
  find(namespace: string): Listed | undefined;
  /** The last answers. */
  all(): readonly Listed[];
}

/** What a LIST that has no answer showed before stays, and what one that is refused showed is left out. */
export function createScopedLists<Listed>(
  { cluster, answeredBy }: Pick<StatusContext, "cluster" | "answeredBy">,
  omissions: Omissions,
  { part, limits, list, onAnswer }: ScopedListsOptions<Listed>,
): ScopedLists<Listed> {
  /** By namespace. One LIST of all namespaces has the namespace "". */
  const listed = new Map<string, Listed>();
  const listScope = async (scope: string): Promise<void> => {
    const name = scope === "" ? part : `${part} of ${scope}`;
    try {
      listed.set(scope, await list(scope === "" ? undefined : scope));
      omissions.end(name);
      onAnswer?.();
    } catch (error) {
      if (!isTransient(error)) listed.delete(scope);
      if (omissions.note(name, error).isAnswer) onAnswer?.();
    }
  };
  return {
    refresh: limitReads(cluster, limits, () => Promise.all((answeredBy.namespaces ?? [""]).map(listScope))),
    find: (namespace) => listed.get(namespace) ?? listed.get(""),
    all: () => [...listed.values()],
  };
}
