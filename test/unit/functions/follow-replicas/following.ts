/** One process of this function in a fake cluster: zones that follow each other, or mirror a size. */
import { followReplicas } from "../../../../functions/follow-replicas/function.ts";
import type { ReconcileResult } from "../../../../functions/shared/contract/definition.ts";
import { replicaTemplate, replicaTemplates } from "../../../fake-cluster/replica-template.ts";
import type { GroupOptions } from "../../../fake-cluster/world.ts";
import { Harness, key, namespace, played } from "../../shared/reconcile/harness.ts";

const grafana = (texts: Readonly<Record<string, string>>) =>
  Object.fromEntries(Object.entries(texts).map(([name, text]) => [`grafana.com/${name}`, text]));

/** Annotations of a StatefulSet, without `grafana.com/`, that make it mirror the ReplicaTemplate of {@link Following.mirror}. */
export const mirrors = {
  "rollout-mirror-replicas-from-resource-name": "template",
  "rollout-mirror-replicas-from-resource-kind": "ReplicaTemplate",
  "rollout-mirror-replicas-from-resource-api-version": "rollout-operator.grafana.com/v1",
};

export class Following {
  readonly harness: Harness;

  /** Zones a, b and c. By default b and c follow a. The ledger is old enough to permit something. */
  static async of(
    changes: Readonly<Record<string, Readonly<Record<string, string>>>> = {},
    { replicas = 4, ...more }: Partial<GroupOptions> = {},
  ): Promise<Following> {
    const following = new Following(new Harness({ zones: ["a", "b", "c"], replicas, ...more }));
    const { world } = following.harness;
    world.store.define(replicaTemplate);
    const leader = { "rollout-downscale-leader": "group-a" };
    for (const zone of ["b", "c"]) following.annotate(zone, changes[zone] ?? leader);
    for (const zone of ["a"]) following.annotate(zone, changes[zone] ?? {});
    world.settle();
    await following.run(true);
    await following.harness.goOn(11_000);
    following.harness.forget();
    return following;
  }

  private constructor(harness: Harness) {
    this.harness = harness;
  }

  annotate(zone: string, texts: Readonly<Record<string, string>>): void {
    this.harness.world.annotate({ namespace, name: `group-${zone}` }, grafana(texts));
  }

  label(zone: string, texts: Readonly<Record<string, string>>): void {
    const at = { namespace, name: `group-${zone}` };
    this.harness.world.store.patch("statefulsets", at, { metadata: { labels: grafana(texts) } });
  }

  /** Runs one reconcile with all its acts. */
  async run(sweep = false): Promise<ReconcileResult["requeueAfterMs"]> {
    const { timeline, context } = this.harness;
    const outcome = await played(timeline, followReplicas.reconcile(context, key, { sweep }));
    const acted = outcome.pendingActs === undefined ? undefined : await played(timeline, outcome.pendingActs);
    return acted === undefined ? outcome.requeueAfterMs : Math.min(acted, outcome.requeueAfterMs ?? acted);
  }

  /** Reconciles for this long, each time when the last one said, or when something may have changed. */
  async goOn(ms: number): Promise<void> {
    const endMs = this.harness.timeline.nowMs() + ms;
    while (this.harness.timeline.nowMs() < endMs) {
      const requeueAfterMs = (await this.run()) ?? 1_000;
      await this.harness.goOn(Math.max(10, Math.min(requeueAfterMs, 1_000, endMs - this.harness.timeline.nowMs())));
    }
  }

  scale(zone: string, replicas: number): void {
    this.harness.world.scale({ namespace, name: `group-${zone}` }, replicas);
  }

  /** Makes the ReplicaTemplate that {@link mirrors} names. */
  mirror(replicas: number): void {
    const { kind } = replicaTemplate;
    this.harness.world.store.create(replicaTemplates, namespace, {
      kind,
      metadata: { name: "template" },
      spec: { replicas },
    });
  }

  /** The number of replicas in the status of the ReplicaTemplate. */
  get mirroredStatus(): number | undefined {
    const { status } = this.harness.world.store.get(replicaTemplates, { namespace, name: "template" });
    return (status as { readonly replicas?: number } | undefined)?.replicas;
  }

  /** The sizes of a, b and c. */
  get sizes(): readonly (number | undefined)[] {
    const { store } = this.harness.world;
    return ["a", "b", "c"].map((zone) => store.get("statefulsets", { namespace, name: `group-${zone}` }).spec.replicas);
  }

  get claims(): readonly string[] {
    return this.harness.ledger.claims.map((claim) => `${claim.isKnown ? claim.phase : "?"} ${claim.zone}`);
  }
}
