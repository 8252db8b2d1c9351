/** Users who restart many processes together, take phases off and bring files, and servers that are silent for a while. */
import type { StoredPod, StoredStatefulSet } from "../../fake-cluster/objects.ts";
import { setNameOf } from "../../support/checkers/raw.ts";
import type { SeedRun } from "../seed.ts";
import type { Files } from "./files.ts";
import { phaseKey } from "./raw-claims.ts";
import type { SimulatedManager } from "./simulated-process.ts";

/** The longest time until a kubelet brings files, in milliseconds. */
const bringsWithinMs = 20_000;

export interface TogetherUsersOptions {
  readonly run: SeedRun;
  readonly files: Files;
  readonly sets: () => readonly StoredStatefulSet[];
  readonly pods: () => readonly StoredPod[];
  readonly managerOf: (pod: StoredPod) => SimulatedManager;
  readonly write: (pod: string, phase: string | null) => void;
}

export class TogetherUsers {
  readonly #options: TogetherUsersOptions;
  /** Uids of pods whose phase a user has taken off: the process of such a pod may be left down. */
  readonly #takenOff = new Set<string>();

  constructor(options: TogetherUsersOptions) {
    this.#options = options;
  }

  /** What they may do next, where chance has drawn a pod. */
  deedsTo(pod: StoredPod): readonly (() => void)[] {
    const { run, sets, write } = this.#options;
    const { draw } = run;
    const { name } = pod.metadata;
    const all = () => {
      for (const { metadata } of sets()) this.#writeOn(metadata.name);
    };
    return [
      ...[all, all, all],
      () => this.#writeOn(setNameOf(name)),
      () => write(name, "schedule-coordinated"),
      () => write(name, draw.pick(["schedule", "schedule-rolling"])),
      () => this.#takeOff(pod),
      () => this.#bring(draw.chance(0.5) ? sets().map(({ metadata }) => metadata.name) : [setNameOf(name)]),
      () => this.#silence(pod),
    ];
  }

  #writeOn(set: string): void {
    const { world, namespace, log } = this.#options.run;
    if (world.store.find("statefulsets", { namespace, name: set }) === undefined) return;
    world.annotate({ namespace, name: set }, { [phaseKey]: "schedule-coordinated" });
    log("users", `write schedule-coordinated on ${set}`);
  }

  #takeOff({ metadata: { name, uid } }: StoredPod, phase = this.#options.run.draw.pick(["cancel", null])): void {
    this.#takenOff.add(uid);
    this.#options.write(name, phase);
  }

  /** One StatefulSet after the other, and each kubelet in its own time. */
  #bring(zones: readonly string[]): void {
    const { run, files, pods, managerOf } = this.#options;
    const { world, draw, log } = run;
    for (const zone of zones) {
      const { sum, text } = files.bring(draw, zone);
      log("users", `${zone} gets ${text}`);
      for (const pod of pods().filter(({ metadata }) => setNameOf(metadata.name) === zone)) {
        world.timeline.after(draw.between(0, bringsWithinMs), () => {
          if (files.newestOf(zone) === sum) managerOf(pod).mounted = sum;
        });
      }
    }
  }

  /** A server answers nothing for a while. Some users then take the phase of its pod off. */
  #silence(pod: StoredPod): void {
    const { run, managerOf, pods } = this.#options;
    const { world, draw, log, isFaulty } = run;
    const manager = managerOf(pod);
    if (manager.isSilent) return;
    const { name, uid } = pod.metadata;
    const forMs = draw.between(10_000, 90_000);
    manager.isSilent = true;
    log("manager", `the server of ${name} is silent for ${(forMs / 1000).toFixed(0)} s`);
    world.timeline.after(forMs, () => {
      manager.isSilent = false;
    });
    if (draw.chance(0.5)) return;
    world.timeline.after(draw.between(0, forMs), () => {
      const now = pods().find(({ metadata }) => metadata.uid === uid);
      const isShown = now?.metadata.annotations?.[phaseKey] === "stop-coordinated";
      if (now !== undefined && isShown && isFaulty()) this.#takeOff(now, null);
    });
  }

  /** At peace users start what was taken out of a restart, and restart together what has failed together. */
  mend(): void {
    const { pods, managerOf, write } = this.#options;
    for (const pod of pods()) {
      const { name, uid, annotations } = pod.metadata;
      const manager = managerOf(pod);
      manager.isSilent = false;
      if (annotations?.[phaseKey] !== undefined || manager.state === "started") continue;
      if (this.#takenOff.has(uid)) write(name, "schedule");
    }
  }
}
