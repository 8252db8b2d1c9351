/** Pods of rollout-operator that come and go in every way, in one of two namespaces, and LISTs of them that are refused. */
import type { StoredPod } from "../../fake-cluster/objects.ts";
import type { Actor } from "../actor.ts";
import type { Checker } from "../checker.ts";
import type { SeedRun } from "../seed.ts";
import { served, sharedOf } from "./beside.ts";
import { isOfOperator } from "./periods.ts";

const image = "registry:5000/grafana/rollout-operator:v0.40.0";
/** What the Deployment of the operator has after a swap. */
const otherImage = "registry:5000/sluice:1";

export class OtherOperator implements Actor {
  readonly name = "other-operator";
  readonly checkers: readonly Checker[];
  readonly #run: SeedRun;
  #made = 0;

  constructor(run: SeedRun) {
    this.#run = run;
    const isThere = run.plan.otherOperator !== undefined;
    this.checkers = isThere ? [{ invariants: ["O1"] }] : [];
    if (isThere) sharedOf(run);
  }

  start(): void {
    const { plan, draw } = this.#run;
    if (plan.otherOperator !== undefined && draw.chance(0.5)) this.#come();
  }

  begin(): void {
    if (this.#run.plan.otherOperator === undefined) return;
    this.#comeAgain();
    this.#refuse();
  }

  /** The operator is gone for good. Its pods are removed by force, those on lost nodes too. */
  makePeace(): void {
    if (this.#run.plan.otherOperator === undefined) return;
    for (const pod of this.#pods()) this.#run.world.store.delete("pods", pod.metadata, { gracePeriodSeconds: 0 });
  }

  #comeAgain(): void {
    const { world, plan, draw, isFaulty } = this.#run;
    world.timeline.after((plan.otherOperator?.awayMs ?? 0) * draw.between(0.2, 2), () => {
      if (!isFaulty()) return;
      this.#come();
      this.#comeAgain();
    });
  }

  #come(): void {
    const { world, plan, draw, log } = this.#run;
    const { staysMs = 0, replicas = 1 } = plan.otherOperator ?? {};
    const namespace = plan.elsewhere === undefined ? served[0] : draw.pick(served);
    for (let pod = 0; pod < replicas; pod++) this.#make(namespace, image);
    log("operator", `comes in ${namespace}`);
    world.timeline.after(staysMs * draw.between(0.2, 2), () => this.#leave(namespace));
  }

  #make(namespace: string, ofImage: string): void {
    const { world, draw } = this.#run;
    const key = draw.pick(["name", "name", "app.kubernetes.io/name"]);
    // A pod on a dead node stays Terminating.
    const goneAfterMs = draw.pick([0, 1_000, 1_000, 30_000, 120_000]);
    world.store.create("pods", namespace, {
      metadata: {
        name: `rollout-operator-${++this.#made}x`,
        labels: { [key]: "rollout-operator" },
        annotations: { "test.sluice.dev/gone-after-ms": String(goneAfterMs) },
      },
      spec: { nodeName: "node-of-operator", containers: [{ name: "operator", image: ofImage }] },
    });
  }

  #leave(namespace: string): void {
    const { world, draw, log, isFaulty } = this.#run;
    if (!isFaulty()) return;
    const pods = this.#pods().filter(({ metadata }) => metadata.namespace === namespace);
    const how = draw.pick(["deleted", "deleted", "ended", "swapped", "patched", "restarted"] as const);
    log("operator", `is ${how} in ${namespace}: ${pods.map(({ metadata }) => metadata.name).join()}`);
    if (how === "swapped") this.#make(namespace, otherImage);
    if (how === "restarted") this.#make(namespace, image);
    for (const { metadata, spec, status } of pods) {
      const containers = spec.containers.map((one) => ({ ...one, image: otherImage }));
      if (how === "ended")
        world.store.putStatus("pods", world.store.get("pods", metadata), { ...status, phase: "Succeeded" });
      else if (how === "patched") world.store.patch("pods", metadata, { spec: { containers } });
      else world.store.delete("pods", metadata, {});
    }
  }

  /** For a while LISTs of the operator's pods are refused, for want of a right or of an answer. */
  #refuse(): void {
    const { world, plan, draw, isFaulty, log } = this.#run;
    const { refusedMs = 0 } = plan.otherOperator ?? {};
    if (refusedMs === 0) return;
    world.timeline.after(draw.between(10_000, 120_000), () => {
      if (!isFaulty()) return;
      const forMs = refusedMs * draw.between(0.2, 2);
      const code = draw.pick([0, 403, 500]);
      log("api-server", `refuses LISTs of the operator's pods with ${code} for ${(forMs / 1000).toFixed(0)} s`);
      sharedOf(this.#run).refused = { untilMs: world.timeline.nowMs() + forMs, code };
      this.#refuse();
    });
  }

  #pods(): StoredPod[] {
    const { store } = this.#run.world;
    return served.flatMap((namespace) => store.list("pods", { namespace }).items.filter(isOfOperator));
  }
}
