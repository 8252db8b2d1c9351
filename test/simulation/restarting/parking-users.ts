/** Users who park processes for a while, and who write triggers on StatefulSets. */
import type { StoredPod } from "../../fake-cluster/objects.ts";
import { setNameOf } from "../../support/checkers/raw.ts";
import type { SeedRun } from "../seed.ts";

const stopKey = "sluice.dev/stop";
const triggerKey = "sluice.dev/restart-trigger";

export interface ParkingUsersOptions {
  readonly run: SeedRun;
  readonly pods: () => readonly StoredPod[];
}

export class ParkingUsers {
  readonly #options: ParkingUsersOptions;
  #triggers = 0;

  constructor(options: ParkingUsersOptions) {
    this.#options = options;
  }

  /** What they may do next, where chance has drawn a pod. */
  deedsTo(pod: StoredPod, isTogether: boolean): readonly (() => void)[] {
    const { draw } = this.#options.run;
    const park = () => this.#park(pod);
    const trigger = () => this.#trigger(setNameOf(pod.metadata.name), isTogether && draw.chance(0.5));
    return [park, park, trigger];
  }

  /** Some think better of it at once, and some write it again while the process starts. */
  #park({ metadata: { name, uid } }: StoredPod): void {
    const { world, draw } = this.#options.run;
    this.#write(name, "true");
    const isThere = () => this.#options.pods().some(({ metadata }) => metadata.uid === uid);
    const later = (ms: number, value: string | null) =>
      world.timeline.after(ms, () => {
        if (isThere() && this.#options.run.isFaulty()) this.#write(name, value);
      });
    const forMs = draw.between(500, draw.pick([15_000, 120_000]));
    later(forMs, draw.pick([null, null, "false"]));
    if (draw.chance(0.7)) return;
    later(forMs + 3_000, "true");
    later(forMs + draw.between(10_000, 60_000), null);
  }

  #trigger(set: string, isCoordinated: boolean): void {
    const { world, namespace, log } = this.#options.run;
    if (world.store.find("statefulsets", { namespace, name: set }) === undefined) return;
    const value = `${isCoordinated ? "coordinated:" : ""}${++this.#triggers}`;
    world.annotate({ namespace, name: set }, { [triggerKey]: value });
    log("users", `write trigger ${value} on ${set}`);
  }

  #write(name: string, value: string | null): void {
    const { world, namespace, log } = this.#options.run;
    world.annotate({ namespace, name }, { [stopKey]: value }, "pods");
    log("users", `write stop ${value} on ${name}`);
  }

  /** At peace every process runs. */
  mend(): void {
    for (const { metadata } of this.#options.pods())
      if (metadata.annotations?.[stopKey] !== undefined) this.#write(metadata.name, null);
  }
}
