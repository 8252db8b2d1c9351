/** Lists the pods of rollout-operator in the namespaces that a process serves, and remembers them. */

import { BoundedSet } from "../base/bounded-map.ts";
import { messageOf } from "../base/error-message.ts";
import type { OtherOperator, StandBy } from "../contract/stand-by.ts";
import {
  apiMessage,
  type Cluster,
  ClusterError,
  hasCode,
  isRightMissing,
  lackOf,
  type PodObject,
} from "../kubernetes/cluster.ts";
import { lastedMs } from "../kubernetes/lasted.ts";
import {
  decideStandBy,
  describePod,
  goneForMs,
  isOperator,
  listAgainMs,
  listEveryMs,
  noteListed,
  operatorLabels,
  operatorName,
  type SeenOperator,
  unseen,
} from "./decide-other-operator.ts";

type Lister = Pick<Cluster, "list" | "monotonicMs" | "skippedMs">;

/** A pod for which this process stands by. */
export interface OperatorPod {
  readonly namespace: string;
  readonly pod: string;
}

export interface OperatorWatch extends OtherOperator {
  /**
   * The pods for which this process stands by, as it knows them; at most 100. It begins a LIST where one is due, without waiting
   * for it: on Knative only the replicas that answer reviews are scraped, and they may have nothing to do.
   */
  pods(): readonly OperatorPod[];
}

/** Pods that a metric shows, at most: any client that may create pods may label them. */
const mostShown = 100;

/** Events that are remembered, at most. One that is forgotten counts up the Event that there is. */
const mostEvents = 10_000;

/** What is listed at once: one namespace, or all of them. */
interface Scope {
  readonly namespace: string | undefined;
  /** By namespace; only those where there is something to remember. */
  seen: ReadonlyMap<string, SeenOperator>;
  /** When the last LIST that succeeded was sent, by the monotonic clock: its answer may have been long on its way. */
  listedMs: number | undefined;
  failure: { readonly message: string; readonly isRightMissing: boolean; readonly atMs: number } | undefined;
  /** The LIST that is under way. All callers wait for the same one. */
  listing: Promise<void> | undefined;
}

/** A process that only starts lists nothing. `namespaces`: those that are served, or all of them where it is undefined. */
export function createOperatorWatch(cluster: Lister, namespaces: readonly string[] | undefined): OperatorWatch {
  const scopes = (namespaces ?? [undefined]).map(
    (namespace): Scope => ({
      namespace,
      seen: new Map(),
      listedMs: undefined,
      failure: undefined,
      listing: undefined,
    }),
  );
  const scopeOf = (namespace: string) =>
    scopes.find((one) => one.namespace === undefined || one.namespace === namespace);
  const refresh = async (scope: Scope): Promise<void> => {
    if (scope.listing === undefined && dueInMs(cluster, scope) > 0) return;
    scope.listing ??= listInto(cluster, scope).finally(() => {
      scope.listing = undefined;
    });
    await scope.listing;
  };
  const decideIn = (scope: Scope, namespace: string): StandBy | undefined => {
    const { listedMs, failure } = scope;
    const ageMs = listedMs === undefined ? undefined : cluster.monotonicMs() - listedMs;
    const nextMs = dueInMs(cluster, scope);
    return decideStandBy({ namespace, seen: scope.seen.get(namespace) ?? unseen, ageMs, nextMs, failure });
  };
  const standBy = async (namespace: string): Promise<StandBy | undefined> => {
    const scope = scopeOf(namespace);
    // A namespace that is not served: each function answers for itself that it does nothing there.
    if (scope === undefined) return undefined;
    await refresh(scope);
    return decideIn(scope, namespace);
  };
  const standByAnywhere = async (): Promise<StandBy | undefined> => {
    await Promise.all(scopes.map(refresh));
    const places = scopes.flatMap((scope) =>
      scope.namespace === undefined ? [...scope.seen.keys(), ""] : [scope.namespace],
    );
    return places.map((place) => decideIn(scopeOf(place) as Scope, place)).find((one) => one !== undefined);
  };
  return {
    sentEvents: new BoundedSet(mostEvents),
    standBy: (namespace) => (namespace === "" ? standByAnywhere() : standBy(namespace)),
    pods() {
      for (const scope of scopes) void refresh(scope);
      return scopes.flatMap(({ seen }) => [...seen].flatMap(podsIn)).slice(0, mostShown);
    },
  };
}

function podsIn([namespace, { running, gone }]: readonly [string, SeenOperator]): OperatorPod[] {
  const names = gone === undefined ? running.map(({ name }) => name) : [gone.pod];
  return names.map((pod) => ({ namespace, pod }));
}

/** Milliseconds until the next LIST is due; none or less where it is. */
function dueInMs(cluster: Lister, { listedMs, failure, seen }: Scope): number {
  const nowMs = cluster.monotonicMs();
  if (failure !== undefined) return failure.atMs + (failure.isRightMissing ? listEveryMs : listAgainMs) - nowMs;
  if (listedMs === undefined) return 0;
  const gone = [...seen.values()].flatMap((one) => (one.gone === undefined ? [] : [one.gone.sinceMs]));
  return Math.min(listedMs + listEveryMs - nowMs, ...gone.map((ms) => ms + goneForMs - lastedMs(cluster)));
}

/** Never rejects. */
async function listInto(cluster: Lister, scope: Scope): Promise<void> {
  const sentMs = cluster.monotonicMs();
  const lists = await listPods(cluster, scope.namespace);
  const running = lists.flatMap((list) => (list.status === "fulfilled" ? list.value : []));
  const found = Map.groupBy(running, ({ metadata }) => metadata.namespace ?? "");
  const answeredMs = lastedMs(cluster);
  const failed = lists.find((list) => list.status === "rejected");
  // A LIST that fails hides no pod that the other one shows, but no pod of it has gone.
  const places = new Set([...(failed === undefined ? scope.seen.keys() : []), ...found.keys()]);
  const noted = [...places].map((place) => {
    const pods = found.get(place)?.map(describePod) ?? [];
    return [place, noteListed(scope.seen.get(place) ?? unseen, pods, answeredMs)] as const;
  });
  const seen = new Map([...scope.seen, ...noted]);
  scope.seen = new Map([...seen].filter(([, { running: pods, gone }]) => pods.length > 0 || gone !== undefined));
  if (failed === undefined) {
    scope.listedMs = sentMs;
    scope.failure = undefined;
  } else {
    const { reason } = failed;
    scope.failure = { message: causeOf(reason), isRightMissing: hasCode(reason, 403), atMs: cluster.monotonicMs() };
  }
}

/** Selectors know no "or" between two labels. Never rejects. */
function listPods(cluster: Lister, namespace: string | undefined): Promise<PromiseSettledResult<PodObject[]>[]> {
  return Promise.allSettled(
    operatorLabels.map(async (label) => {
      const labelSelector = `${label}=${operatorName}`;
      const { items } = await cluster.list(
        "pods",
        namespace === undefined ? { labelSelector } : { namespace, labelSelector },
      );
      return items.filter(isOperator);
    }),
  );
}

function causeOf(error: unknown): string {
  if (isRightMissing(error)) return lackOf(error);
  return error instanceof ClusterError ? apiMessage(error) : messageOf(error);
}
