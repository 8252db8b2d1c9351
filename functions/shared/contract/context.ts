import type { GroupCache } from "../cache/cache.ts";
import type { LookUps } from "../cache/look-ups.ts";
import type { PodHttp } from "../http/pod-http.ts";
import type { Cluster } from "../kubernetes/cluster.ts";
import type { Protocol } from "../ledger/protocol.ts";
import type { Key } from "./keys.ts";
import type { GroupMemory } from "./memory.ts";
import type { Reporter } from "./reporter.ts";
import type { OtherOperator } from "./stand-by.ts";

/** What a process gives its functions: the cluster, a cache of it, HTTP to pods, settings, and a memory. */
export interface Context {
  readonly cluster: Cluster;
  readonly cache: GroupCache;
  readonly protocol: Protocol;
  readonly reporter: Reporter;
  /** `shadow` decides and reports, and writes nothing, not even to the ledger (rule R16). */
  readonly mode: "act" | "shadow";
  /** The namespaces that this process serves; all of them when undefined. */
  readonly namespaces: readonly string[] | undefined;
  /** Where reviews read what memory does not have, within a rate limit; absent: from `cluster`. */
  readonly lookUps?: LookUps;
  /** The settings of this process, by field, for `valuesOf`; absent: the user has set none. */
  readonly settings?: Readonly<Record<string, unknown>>;
  /** HTTP to pods; absent in a process none of whose functions calls any. */
  readonly pods?: PodHttp;
  /** Knows where rollout-operator runs; absent: this process acts beside it. */
  readonly otherOperator?: OtherOperator;
  memoryOf(key: Key): GroupMemory;
}
