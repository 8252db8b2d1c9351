/** A group in another namespace, which may have the name of the first group: the two must not affect each other. */

import { ledgerName } from "../../functions/shared/ledger/lease-name.ts";
import type { GroupKey } from "../../functions/shared/workloads/statefulsets.ts";
import { groupOf } from "../support/checkers/budgets.ts";
import { unrolledOf, unsettledOf } from "../support/checkers/liveness.ts";
import type { Actor } from "./actor.ts";
import type { Caller, Checker, LedgerWrite } from "./checker.ts";
import { readClaims } from "./claims/checker.ts";
import { TakenPods } from "./promises.ts";
import type { SeedRun } from "./seed.ts";

const namespace = "elsewhere";
const zones = ["a", "b"];

export class Elsewhere implements Actor {
  readonly name = "elsewhere";
  readonly checkers: readonly Checker[];
  readonly #run: SeedRun;
  readonly #group: string;
  #version = 1;

  constructor(run: SeedRun) {
    this.#run = run;
    const { plan } = run;
    this.#group = plan.elsewhere?.isNamesake === true ? run.group : "distant";
    if (plan.elsewhere === undefined) {
      this.checkers = [new Apart(run)];
      return;
    }
    run.pasts.sets(namespace);
    this.#make();
    this.checkers = [
      new Apart(run),
      new TakenPods(run, namespace),
      { invariants: ["L1"], missing: () => this.#missing() },
    ];
  }

  #make(): void {
    const { world, plan } = this.#run;
    const labels = { "rollout-group": this.#group };
    world.addGroup({ namespace, group: this.#group, zones, replicas: 2, maxUnavailable: 1, podLabels: labels });
    if (plan.budget === undefined) return;
    const spec = { selector: { matchLabels: labels }, maxUnavailable: 1 };
    world.store.create("zoneawarepoddisruptionbudgets", namespace, { metadata: { name: "budget" }, spec });
  }

  begin(): void {
    const { world, draw, plan, isFaulty } = this.#run;
    const { ending } = plan.elsewhere ?? {};
    if (ending === "stuck") this.#changeTemplates("app:broken-CrashLoopBackOff");
    if (ending !== "rolls") return;
    this.#changeTemplates(`app:${++this.#version}`);
    world.timeline.after(draw.between(0, plan.safetyMs), () => {
      if (isFaulty()) this.#changeTemplates(`app:${++this.#version}`);
    });
  }

  #changeTemplates(image: string): void {
    this.#run.log("user", `every template of ${namespace}: ${image}`);
    for (const zone of zones) this.#run.world.changeTemplate({ namespace, name: `${this.#group}-${zone}` }, image);
  }

  /** What this group still lacks; nothing if it is stuck, which it stays without blocking the other group. */
  #missing(): string | undefined {
    const { world, plan } = this.#run;
    if (plan.elsewhere?.ending === "stuck") return undefined;
    const left =
      unrolledOf(world, { namespace, isLoose: () => false, absent: [] }) ??
      unsettledOf(world, namespace, [ledgerName(this.#group)]);
    return left === undefined ? undefined : `in namespace ${namespace} ${left}`;
  }
}

/** N1: no ledger names pods of another group, and no group waits for a zone of another. */
class Apart implements Checker {
  readonly invariants = ["N1"];
  readonly #run: SeedRun;

  constructor(run: SeedRun) {
    this.#run = run;
  }

  onLedgerWritten({ caller, lease, group, made }: LedgerWrite): void {
    const key = { namespace: lease.metadata.namespace ?? "", group };
    for (const { set, ordinal, uid } of made) {
      const what = `${caller.process.name} reserves ${set}-${ordinal} in the ledger of ${key.namespace}/${group}`;
      const pods = this.#run.world.store.versionsOf("pods", { ...key, name: `${set}-${ordinal}` });
      if (!pods.some(({ object }) => object?.metadata.uid === uid))
        this.#run.violate("N1", `${what}, and no pod of that namespace has the uid ${uid}`);
      if (!this.#isOf(key, set)) this.#run.violate("N1", `${what}, and ${set} is of another group`);
    }
  }

  onVerdict({ process }: Caller, key: GroupKey, zone: string): void {
    if (zone !== "" && !this.#isOf(key, zone) && !this.#isClaimed(key, zone))
      this.#run.violate(
        "N1",
        `${process.name} names ${zone} over ${key.namespace}/${key.group}, which it is no zone of`,
      );
  }

  /** True if the group's ledger has a claim on the zone. A claim may last longer than a StatefulSet's past is remembered. */
  #isClaimed({ namespace, group }: GroupKey, zone: string): boolean {
    const ledger = this.#run.world.store.find("leases", { namespace, name: ledgerName(group) });
    return ledger !== undefined && readClaims(ledger as never).some((claim) => claim.zone === zone);
  }

  /** True if the StatefulSet was ever in the group: a reservation may long outlive the StatefulSet. */
  #isOf({ namespace, group }: GroupKey, set: string): boolean {
    const { pasts } = this.#run;
    const budgets = pasts.budgets(namespace).lately(Number.POSITIVE_INFINITY);
    return pasts
      .sets(namespace)
      .lately(set, Number.POSITIVE_INFINITY)
      .some((state) => budgets.some((objects) => groupOf(state, objects) === group));
  }
}
