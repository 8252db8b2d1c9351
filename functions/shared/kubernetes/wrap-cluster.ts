/**
 * Wraps a cluster. All wrappers are built with this, so that a verb that is added to {@link Cluster} is named here, and reaches
 * all of them.
 */
import type { Cluster } from "./cluster.ts";

/**
 * `look-up` is a read without a resource; `stream` returns at once, and its events come later; `pod` asks a container, and is
 * optional; `clock` sends no request.
 */
const kinds = {
  get: "read",
  list: "read",
  create: "write",
  patch: "write",
  delete: "write",
  resourceOf: "look-up",
  watch: "stream",
  readFile: "pod",
  serverTimeMs: "clock",
  wallTimeMs: "clock",
  monotonicMs: "clock",
  skippedMs: "clock",
  sleep: "clock",
} as const satisfies Readonly<Record<keyof Cluster, "read" | "write" | "look-up" | "stream" | "pod" | "clock">>;

type VerbOf<Kind> = {
  [Name in keyof typeof kinds]: (typeof kinds)[Name] extends Kind ? Name : never;
}[keyof typeof kinds];

/** One call that reaches the API server and is answered once. */
export interface ClusterCall {
  readonly verb: VerbOf<"read" | "write" | "look-up">;
  /** Whether it may change anything. */
  readonly writes: boolean;
  /** The type of the object, or the kind that is looked up. */
  readonly resource: string;
  /** All that the verb was called with: the resource first, or the group and the kind. */
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
 * The same cluster, with `around` around every call that is answered once. `send` sends the call, and settles with its answer.
 * The caller gets what `around` settles with.
 */
export function wrapCalls(
  cluster: Cluster,
  around: (call: ClusterCall, send: () => Promise<unknown>) => Promise<unknown>,
): Cluster {
  const bound = wrapCluster(cluster);
  const inner = bound as unknown as Readonly<Record<string, Method>>;
  const wrapped = Object.entries(kinds).flatMap(([name, kind]): [string, Method][] => {
    if (kind === "stream" || kind === "pod" || kind === "clock") return [];
    const verb = name as ClusterCall["verb"];
    const send = inner[name] as (...given: unknown[]) => Promise<unknown>;
    const call: Method = (...given) =>
      around({ verb, writes: kind === "write", resource: given[kind === "look-up" ? 1 : 0] as string, given }, () =>
        send(...given),
      );
    return [[name, call]];
  });
  return { ...bound, ...(Object.fromEntries(wrapped) as Partial<Cluster>) };
}
