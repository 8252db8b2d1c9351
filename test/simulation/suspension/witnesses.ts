/**
 * The answers of pods about each other's data, where StatefulSets have them asked: all of it is needed at first, and none
 * later. One pod is compromised, and says from the beginning that no data is needed.
 */

import { fieldsOf } from "../../../functions/shared/base/fields.ts";
import type { Resource } from "../../../functions/shared/kubernetes/cluster.ts";
import type { StoredObject, StoredPod } from "../../fake-cluster/objects.ts";
import type { PodReply } from "../../fake-cluster/pod-http.ts";
import type { Caller, Checker } from "../checker.ts";
import type { Connection } from "../roles.ts";
import type { SeedRun } from "../seed.ts";
import { createSimulatedPods } from "../simulated-pods.ts";
import { annotationOf, key } from "./raw.ts";

const port = 8080;

export class Witnesses implements Checker {
  readonly invariants = ["S1"];
  readonly #run: SeedRun;
  readonly #compromised: string;
  readonly #startMs: number;

  constructor(run: SeedRun) {
    this.#run = run;
    this.#compromised = `${run.group}-a-0`;
    this.#startMs = run.world.timeline.nowMs();
    run.world.store.onChange("persistentvolumeclaims", ({ previous, current }) => {
      const [before, now] = [previous, current].map(
        (claim) => claim && annotationOf(claim as StoredObject, "suspend-state"),
      );
      if (now === "Removing" && before !== "Removing" && this.#isNeeded)
        run.violate("S1", `${current?.metadata.name} is removed, and all pods but one say that its data is needed`);
    });
  }

  get annotations(): Readonly<Record<string, string>> {
    return { [key("drain-url")]: `http://:${port}/drained/{pod}` };
  }

  podsOf({ process, cluster }: Connection) {
    const { world, draw, plan, onResume } = this.#run;
    const faults = () => ({ latencyMs: plan.faults.latencyMs, lose: 0, late: 0, lateMs: 0 });
    return createSimulatedPods({ world, draw, process, cluster, faults, answer: this.#answer, onResume });
  }

  get #isNeeded(): boolean {
    const { plan, world, isFaulty } = this.#run;
    return isFaulty() && world.timeline.nowMs() - this.#startMs < plan.safetyMs / 2;
  }

  readonly #answer = ({ metadata: { name } }: StoredPod): PodReply => {
    if (name === this.#compromised) return { status: 200 };
    const { draw, isFaulty } = this.#run;
    if (isFaulty() && draw.chance(0.03)) return "hang";
    return { status: this.#isNeeded ? 503 : 200 };
  };

  onPatched({ process, role }: Caller, resource: Resource, after: object, body: object): void {
    const isResized = fieldsOf(fieldsOf(body)?.spec)?.replicas !== undefined;
    if (role.name !== "suspender" || resource !== "statefulsets" || !isResized || !this.#isNeeded) return;
    const { name } = (after as StoredObject).metadata;
    this.#run.violate("S1", `${process.name} makes ${name} smaller, and all pods but one say that its data is needed`);
  }
}
