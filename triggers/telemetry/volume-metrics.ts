/** The metrics of suspended volumes: how many, how large, and when the next one may be removed. By the processes that live. */
import { Gauge, type Registry } from "prom-client";
import type { SuspendedVolume } from "./volumes.ts";

type ReadVolumes = () => Promise<readonly SuspendedVolume[]>;

/** Gauges that are empty until `showVolumes` says where volumes can be seen, by what never rejects. */
export function createSuspendedMetrics(registers: Registry[]) {
  let look: ReadVolumes = async () => [];
  const define = <Label extends string>(
    gauge: { name: string; help: string; labelNames: readonly Label[] },
    labelsOf: (volume: SuspendedVolume) => Readonly<Record<Label, string>>,
    measure: (some: readonly SuspendedVolume[]) => number | undefined,
  ) =>
    new Gauge<Label>({
      ...gauge,
      registers,
      async collect() {
        const volumes = await look();
        // What has been removed vanishes here.
        this.reset();
        const series = Map.groupBy(volumes, (volume) => JSON.stringify(labelsOf(volume)));
        for (const some of series.values()) {
          const value = measure(some);
          const [first] = some;
          if (value !== undefined && first !== undefined) this.set(labelsOf(first), value);
        }
      },
    });
  const zoneLabels = ["namespace", "zone"] as const;
  const zoneOf = ({ namespace, zone }: SuspendedVolume) => ({ namespace, zone });
  define(
    {
      name: "sluice_suspended_volume_claims",
      help: "Volume claims that are kept after their pods have gone, or are about to be, by how far that is.",
      labelNames: [...zoneLabels, "state"] as const,
    },
    ({ state, ...volume }) => ({ ...zoneOf({ state, ...volume }), state }),
    (some) => some.length,
  );
  define(
    { name: "sluice_suspended_bytes", help: "How large the suspended volumes of a zone are.", labelNames: zoneLabels },
    zoneOf,
    (some) => some.reduce((sum, { bytes }) => sum + bytes, 0),
  );
  define(
    {
      name: "sluice_volume_removal_timestamp_seconds",
      help: "When the next suspended volume of a zone may be removed, unless a user recovers or holds it; in seconds since the epoch.",
      labelNames: zoneLabels,
    },
    zoneOf,
    (some) => {
      const times = some.flatMap(({ removableMs }) => removableMs ?? []);
      return times.length === 0 ? undefined : Math.min(...times) / 1000;
    },
  );
  return {
    showVolumes(volumes: ReadVolumes): void {
      look = volumes;
    },
  };
}
