/** HTTP from a simulated process to the pods of its world, with everything that can go wrong on the way. */

import type { PodHttp } from "../../functions/shared/http/pod-http.ts";
import type { Cluster } from "../../functions/shared/kubernetes/cluster.ts";
import { createWorldPodHttp, type WorldPodHttpOptions } from "../fake-cluster/pod-http.ts";
import type { Draw } from "./draw.ts";
import { type Process, runIn } from "./simulated-cluster.ts";

/** Probabilities for one message, and times in milliseconds. */
export interface PodFaults {
  /** Typical time of one message. */
  readonly latencyMs: number;
  /** The message never arrives: it opens a connection, asks or answers. */
  readonly lose: number;
  /** The message takes up to `lateMs` longer. A request may arrive long after its sender has given it up. */
  readonly late: number;
  readonly lateMs: number;
}

export const noPodFaults: PodFaults = { latencyMs: 1, lose: 0, late: 0, lateMs: 0 };

export interface SimulatedPodsOptions extends Pick<WorldPodHttpOptions, "world" | "answer" | "listens" | "calls"> {
  readonly draw: Draw;
  readonly process: Process;
  /** The process's own connection, for its clock. */
  readonly cluster: Cluster;
  /** The faults at this time. */
  readonly faults: () => PodFaults;
  /** Called when code of the process goes on. */
  readonly onResume: () => void;
}

/** Creates the client. Its calls never go on in a killed process, and in a stopped process only when that goes on. */
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
