/**
 * Which volumes are suspended, for the metrics of processes that live. A scrape lists them by the label that all of
 * them have; StatefulSets are listed only where there is one.
 */

import { suspended } from "../../functions/shared/annotations/suspension.ts";
import type { Cluster } from "../../functions/shared/kubernetes/cluster.ts";
import { durationNow } from "../../functions/shared/suspension/time-left.ts";
import { isRecovering, type Member } from "../../functions/shared/volumes/members.ts";
import { findAll } from "../../functions/shared/volumes/owners.ts";
import { type Pvc, parsePvc, valueIn } from "../../functions/shared/volumes/pvc.ts";
import { parseSuspendableSet } from "../../functions/shared/volumes/suspendable-set.ts";
import { lookAgainAfterMs, lookWithinMs } from "./ledger-metrics-groups.ts";

export interface SuspendedVolume {
  readonly namespace: string;
  /** The name of its StatefulSet; empty for one whose StatefulSet is gone. */
  readonly zone: string;
  readonly state: string;
  /** Size of the volume; 0 if its claim does not tell it. */
  readonly bytes: number;
  /** Time from which it may be removed, in milliseconds since the epoch; undefined if that is unknown, or while it is held. */
  readonly removableMs: number | undefined;
}

export interface VolumeLookOptions {
  readonly cluster: Pick<Cluster, "list" | "monotonicMs" | "sleep">;
  /** Undefined: all of them. */
  readonly namespaces: readonly string[] | undefined;
}

/** Answers what tells which volumes are suspended, at most ten seconds old where the API server answers. It never rejects. */
export function createVolumeLook({
  cluster,
  namespaces,
}: VolumeLookOptions): () => Promise<readonly SuspendedVolume[]> {
  const known = new Map<string, readonly SuspendedVolume[]>();
  let askedMs = Number.NEGATIVE_INFINITY;
  let looking: Promise<unknown> | undefined;
  const look = () =>
    // One that may not be read hides no other: what it said last time stands.
    Promise.allSettled(
      (namespaces ?? [""]).map(async (scope) => {
        known.set(scope, await listVolumes(cluster, scope === "" ? {} : { namespace: scope }));
      }),
    );
  return async () => {
    if (looking === undefined && cluster.monotonicMs() - askedMs >= lookAgainAfterMs) {
      askedMs = cluster.monotonicMs();
      looking = look().finally(() => {
        looking = undefined;
      });
    }
    if (looking !== undefined) {
      const over = new AbortController();
      await Promise.race([looking, cluster.sleep(lookWithinMs, over.signal)]);
      over.abort("looked");
    }
    return [...known.values()].flat();
  };
}

/** Throws ClusterError. */
async function listVolumes(
  cluster: Pick<Cluster, "list">,
  scope: { readonly namespace?: string },
): Promise<readonly SuspendedVolume[]> {
  const labelSelector = `${suspended.key}=true`;
  const { items } = await cluster.list("persistentvolumeclaims", { ...scope, labelSelector });
  if (items.length === 0) return [];
  const sets = (await cluster.list("statefulsets", scope)).items.map(parseSuspendableSet);
  const pvcs = items.map(parsePvc);
  const namespaces = [...new Set(pvcs.map(({ namespace }) => namespace))];
  return namespaces.flatMap((namespace) => {
    const here = <T extends { namespace: string }>(all: readonly T[]) =>
      all.filter((one) => one.namespace === namespace);
    const members = findAll(here(sets), here(pvcs), []);
    const owned = new Map(members.flatMap((member) => member.pvcs.map((pvc) => [pvc, member] as const)));
    return here(pvcs).map((pvc) => volumeOf(pvc, owned.get(pvc)));
  });
}

function volumeOf(pvc: Pvc, member: Member | undefined): SuspendedVolume {
  const { namespace, bytes = 0, state, suspendedMs } = pvc;
  const kept = member && durationNow(member);
  const isHeld = member === undefined || pvc.isOnHold || member.set.policy.isOnHold || isRecovering(member);
  const removableMs =
    kept?.kind === "value" && suspendedMs !== undefined && !isHeld ? suspendedMs + kept.value : undefined;
  return { namespace, zone: member?.set.name ?? "", state: valueIn(state) ?? "unknown", bytes, removableMs };
}
