/** HTTP from a process of the simulation to the pods of its world, with everything that can go wrong on the way. */

import type { PodHttp } from "../../functions/shared/http/pod-http.ts";
import type { Cluster } from "../../functions/shared/kubernetes/cluster.ts";
import { createWorldPodHttp, type WorldPodHttpOptions } from "../fake-cluster/pod-http.ts";
import type { Draw } from "./draw.ts";
import { type Process, runIn } from "./simulated-cluster.ts";

/** Probabilities of one message, and times in milliseconds. */
export interface PodFaults {
  /** The typical time of one message. */
  readonly latencyMs: number;
  /** It never arrives: what opens a connection, what is asked, or what is answered. */
  readonly lose: number;
  /** It takes up to `lateMs` more; what is asked may arrive when its sender has long given it up. */
  readonly late: number;
  readonly lateMs: number;
}

export const noPodFaults: PodFaults = { latencyMs: 1, lose: 0, late: 0, lateMs: 0 };

export interface SimulatedPodsOptions extends Pick<WorldPodHttpOptions, "world" | "answer" | "listens" | "calls"> {
  readonly draw: Draw;
  readonly process: Process;
  /** The process's own, for its time. */
  readonly cluster: Cluster;
  /** The faults of now. */
  readonly faults: () => PodFaults;
  /** Called when code of the process goes on. */
  readonly onResume: () => void;
}

/** Nothing of a process that has been killed goes on, and of one that is stopped when it goes on itself. */
export function createSimulatedPods(options: SimulatedPodsOptions): PodHttp {
  const { draw, process, cluster, faults, onResume, ...rest } = options;
  return createWorldPodHttp({
    ...rest,
    clock: cluster,
    way: () => {
      const { latencyMs, lose, late, lateMs } = faults();
      if (draw.chance(lose)) return "lost";
      return draw.between(0.3, 1.7) * latencyMs + (draw.chance(late) ? draw.between(0, lateMs) : 0);
    },
    resume: (go) =>
      runIn(process, () => {
        onResume();
        go();
      }),
  });
}
