/**
 * The metrics of suspended volumes: their number, their size, and when the next one may be removed. Long-lived processes have
 * them. A scrape lists the volumes by the label that all of them have; StatefulSets are listed only if there is one.
 */

import type { Registry } from "prom-client";
import { suspended } from "../../functions/shared/annotations/suspension.ts";
import { limitReads } from "../../functions/shared/base/limit-reads.ts";
import type { Cluster } from "../../functions/shared/kubernetes/cluster.ts";
import { durationNow } from "../../functions/shared/suspension/time-left.ts";
import { isRecovering, type Member } from "../../functions/shared/volumes/members.ts";
import { findAll } from "../../functions/shared/volumes/owners.ts";
import { type Pvc, parsePvc, valueIn } from "../../functions/shared/volumes/pvc.ts";
import { parseSuspendableSet } from "../../functions/shared/volumes/suspendable-set.ts";
import { liveGauges, scrapeLimits } from "./live-gauges.ts";

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

type ReadVolumes = () => Promise<readonly SuspendedVolume[]>;

/** Gauges that are empty until `showVolumes` sets their source, which never rejects. */
export function createSuspendedMetrics(registers: Registry[]) {
  let read: ReadVolumes = async () => [];
  const live = liveGauges(registers);
  /** One series for the volumes that have the same labels, unless `measure` gives no value. */
  const define = (
    name: string,
    help: string,
    labelNames: readonly ("namespace" | "zone" | "state")[],
    measure: (some: readonly SuspendedVolume[]) => number | undefined,
  ) =>
    live<string>(name, help, labelNames, async () => {
      const alike = Map.groupBy(await read(), (volume) => labelNames.map((label) => volume[label]).join(" "));
      return [...alike.values()].flatMap((some) => {
        const value = measure(some);
        const labels = Object.fromEntries(labelNames.map((label) => [label, some[0]?.[label] ?? ""]));
        return value === undefined ? [] : [{ labels, value }];
      });
    });
  define(
    "sluice_suspended_volume_claims",
    "Volume claims that are kept after their pods have gone, or are about to be, by how far that is.",
    ["namespace", "zone", "state"],
    (some) => some.length,
  );
  define("sluice_suspended_bytes", "How large the suspended volumes of a zone are.", ["namespace", "zone"], (some) =>
    some.reduce((sum, { bytes }) => sum + bytes, 0),
  );
  define(
    "sluice_volume_removal_timestamp_seconds",
    "When the next suspended volume of a zone may be removed, unless a user recovers or holds it; in seconds since the epoch.",
    ["namespace", "zone"],
    (some) => {
      const times = some.flatMap(({ removableMs }) => removableMs ?? []);
      return times.length === 0 ? undefined : Math.min(...times) / 1000;
    },
  );
  return {
    showVolumes(volumes: ReadVolumes): void {
      read = volumes;
    },
  };
}

/**
 * Returns a function that reads the suspended volumes, at most ten seconds old while the API server answers. It never rejects.
 */
export function createVolumeReader(
  cluster: Pick<Cluster, "list" | "monotonicMs" | "sleep">,
  namespaces: readonly string[] | undefined,
): ReadVolumes {
  const known = new Map<string, readonly SuspendedVolume[]>();
  const read = limitReads(cluster, scrapeLimits, () =>
    // A namespace that may not be read hides no other: its last values stay.
    Promise.allSettled(
      (namespaces ?? [""]).map(async (scope) => {
        known.set(scope, await listVolumes(cluster, scope === "" ? {} : { namespace: scope }));
      }),
    ),
  );
  return () => read().then(() => [...known.values()].flat());
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
  const hasOurFinalizer = member === undefined || pvc.isOnHold || member.set.policy.isOnHold || isRecovering(member);
  const removableMs =
    kept?.kind === "value" && suspendedMs !== undefined && !hasOurFinalizer ? suspendedMs + kept.value : undefined;
  return { namespace, zone: member?.set.name ?? "", state: valueIn(state) ?? "unknown", bytes, removableMs };
}
