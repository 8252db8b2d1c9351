/**
 * The metrics of suspended volumes: their number, their size, and when the next one may be removed. Long-lived processes have
 * them. A scrape lists the volumes.
 */

import type { Registry } from "prom-client";
import { limitReads } from "../../functions/shared/base/limit-reads.ts";
import type { Cluster } from "../../functions/shared/kubernetes/cluster.ts";
import { listSuspendedVolumes, type SuspendedVolume } from "../../functions/shared/suspension/suspended-volumes.ts";
import { liveGauges, scrapeLimits } from "./live-gauges.ts";

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
        known.set(scope, await listSuspendedVolumes(cluster, scope === "" ? undefined : scope));
      }),
    ),
  );
  return () => read().then(() => [...known.values()].flat());
}
