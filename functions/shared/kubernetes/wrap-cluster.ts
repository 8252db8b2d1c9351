/**
 * A cluster around another one. Whoever stands between a caller and a cluster is made of this, so that a verb that
 * {@link Cluster} gets one day is named here, and reaches all of them.
 */
import type { Cluster, Resource } from "./cluster.ts";

/** `stream` answers at once, and its events come later; `clock` asks nobody. */
const kinds = {
  get: "read",
  list: "read",
  create: "write",
  patch: "write",
  delete: "write",
  watch: "stream",
  serverTimeMs: "clock",
  monotonicMs: "clock",
  skippedMs: "clock",
  sleep: "clock",
} as const satisfies Readonly<Record<keyof Cluster, "read" | "write" | "stream" | "clock">>;

type VerbOf<Kind> = {
  [Name in keyof typeof kinds]: (typeof kinds)[Name] extends Kind ? Name : never;
}[keyof typeof kinds];

/** One call that reaches the API server and is answered once. */
export interface ClusterCall {
  readonly verb: VerbOf<"read" | "write">;
  /** Whether it may change anything. */
  readonly writes: boolean;
  readonly resource: Resource;
  /** All that the verb was called with, the resource first. */
  readonly given: readonly unknown[];
}

type Method = (...given: unknown[]) => unknown;

const names = Object.keys(kinds) as (keyof Cluster)[];

/** The same cluster, but for these verbs. Its methods are bound: they may be taken out of it, and it may be spread. */
export function wrapCluster(cluster: Cluster, verbs: Partial<Cluster> = {}): Cluster {
  const inner = cluster as unknown as Readonly<Record<string, Method | undefined>>;
  const bound = names.flatMap((name): [string, Method][] =>
    inner[name] === undefined ? [] : [[name, (...given) => (inner[name] as Method).apply(cluster, given)]],
  );
  return { ...(Object.fromEntries(bound) as unknown as Cluster), ...verbs };
}

/**
 * The same cluster, with something around every call that is answered once. `send` sends it, and settles with its answer; what
 * `around` settles with is what the caller gets.
 */
export function wrapCalls(
  cluster: Cluster,
  around: (call: ClusterCall, send: () => Promise<unknown>) => Promise<unknown>,
): Cluster {
  const bound = wrapCluster(cluster);
  const inner = bound as unknown as Readonly<Record<string, Method>>;
  const wrapped = Object.entries(kinds).flatMap(([name, kind]): [string, Method][] => {
    if (kind !== "read" && kind !== "write") return [];
    const verb = name as ClusterCall["verb"];
    const send = inner[name] as (...given: unknown[]) => Promise<unknown>;
    const call: Method = (...given) =>
      around({ verb, writes: kind === "write", resource: given[0] as Resource, given }, () => send(...given));
    return [[name, call]];
  });
  return { ...bound, ...(Object.fromEntries(wrapped) as Partial<Cluster>) };
}
