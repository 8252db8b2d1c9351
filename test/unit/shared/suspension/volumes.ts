/** Reconciles of suspend-group and gc-suspended-groups in a fake cluster in virtual time: volumes are suspended and removed. */
import assert from "node:assert/strict";
import { gcSuspendedGroups } from "../../../../functions/gc-suspended-groups/function.ts";
import type { PvcObject } from "../../../../functions/shared/kubernetes/cluster.ts";
import { suspendGroup } from "../../../../functions/suspend-group/function.ts";
import type { GroupOptions } from "../../../fake-cluster/world.ts";
import { Harness, key, namespace, played, refused } from "../reconcile/harness.ts";

export const volumes = "persistentvolumeclaims" as const;
/** The volume claim of the highest pod of zone a. */
export const top = "data-group-a-2";

const of = (name: string): string => `sluice.dev/${name}`;
type Texts = Readonly<Record<string, string | null>>;

export class Volumes extends Harness {
  constructor(duration = "600s", policy: Texts = {}, group: Partial<GroupOptions> = {}) {
    super({ zones: ["a", "b"], replicas: 3, volumes: ["data"], ...group });
    for (const { metadata } of this.world.store.list("statefulsets").items)
      this.policy(metadata.name, { "suspend-duration": duration, "wait-between-removals": "0s", ...policy });
  }

  /** Sets our annotations of a volume claim, given without their prefix; null removes one. */
  annotate(name: string, texts: Texts): void {
    this.world.annotate({ namespace, name }, prefixed(texts), volumes);
  }

  /** Sets those of a StatefulSet. */
  policy(name: string, texts: Texts): void {
    this.world.annotate({ namespace, name }, prefixed(texts));
  }

  recorded(name: string, what: string): string | undefined {
    return this.claim(name)?.metadata.annotations?.[of(what)];
  }

  claim(name: string): PvcObject | undefined {
    return this.world.store.find(volumes, { namespace, name }) as PvcObject | undefined;
  }

  pod(name: string) {
    return this.world.store.find("pods", { namespace, name });
  }

  /** True while the volume claim exists and is not deleted. */
  isKept(name: string): boolean {
    const claim = this.claim(name);
    return claim !== undefined && claim.metadata.deletionTimestamp === undefined;
  }

  /** A client other than Sluice changes the size of a StatefulSet. */
  scale(name: string, replicas: number): void {
    this.world.scale({ namespace, name }, replicas);
  }

  /** A user requests the suspension, and states that the data is not needed. */
  ask(name: string): void {
    this.annotate(name, { suspend: "true", "drained-at": new Date(this.timeline.nowMs()).toISOString() });
  }

  /** A PersistentVolume that is bound to the volume claim with this uid. */
  bind(name: string, uid = this.claim(name)?.metadata.uid, volume = `pv-${name}`): void {
    this.world.store.patch(volumes, { namespace, name }, { spec: { volumeName: volume } });
    const spec = { persistentVolumeReclaimPolicy: "Delete", claimRef: { namespace, name, uid } };
    this.world.store.create("persistentvolumes", "", { metadata: { name: volume }, spec } as never);
  }

  reclaimPolicyOf(name: string): unknown {
    const volume = this.world.store.find("persistentvolumes", { namespace: "", name: `pv-${name}` });
    return (volume as unknown as { spec?: { persistentVolumeReclaimPolicy?: string } })?.spec
      ?.persistentVolumeReclaimPolicy;
  }

  async suspend(sweep = true): Promise<void> {
    await this.#reconcile(suspendGroup, sweep);
  }

  async collect(sweep = true): Promise<void> {
    await this.#reconcile(gcSuspendedGroups, sweep);
  }

  /** The part of the collector's sweep besides triggering groups. */
  async sweepStrays(): Promise<void> {
    await played(this.timeline, gcSuspendedGroups.sweep?.(this.context, []) ?? Promise.resolve());
  }

  async #reconcile(definition: typeof suspendGroup | typeof gcSuspendedGroups, sweep: boolean): Promise<void> {
    const outcome = await played(this.timeline, definition.reconcile(this.context, key, { sweep }));
    if (outcome.pendingActs !== undefined) await played(this.timeline, outcome.pendingActs);
  }

  /** Reconciles every two seconds until the condition holds. */
  async until(isSo: () => boolean, step: () => Promise<void>, most = 100): Promise<void> {
    for (let tries = 0; tries < most && !isSo(); tries++) {
      await step();
      await this.goOn(2_000);
    }
    const last = this.verdicts.slice(-3).map(({ guard, message }) => `${guard}: ${message}`);
    assert.ok(isSo(), `the condition does not hold: ${last.join(" | ")}`);
  }

  /** Lets time pass, with a sweep every five minutes, as in a cluster. */
  async elapse(ms: number, run: () => Promise<void> = () => this.collect()): Promise<void> {
    for (let leftMs = ms; leftMs > 0; leftMs -= 300_000) {
      await run();
      await this.goOn(Math.min(leftMs, 300_000));
    }
  }

  /** A client other than Sluice writes the size of a StatefulSet, with managedFields as the API server keeps them. */
  resize(name: string, replicas: number, manager = "kube-controller-manager"): void {
    const time = new Date(this.timeline.nowMs()).toISOString().replace(/\.\d+Z$/, "Z");
    const managedFields = [{ manager, operation: "Update", time, fieldsV1: { "f:spec": { "f:replicas": {} } } }];
    this.world.store.patch("statefulsets", { namespace, name }, { metadata: { managedFields }, spec: { replicas } });
  }

  /** The pod of the claim is gone, and its duration runs. */
  async suspended(name = top): Promise<void> {
    this.ask(name);
    await this.until(
      () => this.recorded(name, "suspend-state") === "Suspended",
      () => this.suspend(),
    );
  }

  /** The process that removes the volume has died between the mark and the deletion, and another one takes its place. */
  async marked(name = top): Promise<void> {
    this.interfere = ({ verb, resource }) => {
      if (verb === "delete" && resource === volumes) throw refused(0, "died");
    };
    await this.until(
      () => this.recorded(name, "suspend-state") === "Removing",
      () => this.collect(),
    );
    this.interfere = () => {};
    this.restart();
  }
}

function prefixed(texts: Texts): Record<string, string | null> {
  return Object.fromEntries(Object.entries(texts).map(([key, text]) => [of(key), text]));
}
