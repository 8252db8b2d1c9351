/** Zones of pods with volumes whose owner is no StatefulSet, as raw objects that the product's code parses. */

import { surveyZone } from "../../functions/shared/groups/zones.ts";
import type { PodObject, PvcObject } from "../../functions/shared/kubernetes/cluster.ts";
import { makeClaim } from "../../functions/shared/ledger/claim.ts";
import { parseVolumeUser } from "../../functions/shared/volumes/members.ts";
import { findOwnedZones } from "../../functions/shared/volumes/owner-zones.ts";
import { findOwned } from "../../functions/shared/volumes/owners.ts";
import { parsePvc } from "../../functions/shared/volumes/pvc.ts";
import { type OwnerRemovalPolicy, parseOwnerRemovalPolicy } from "../../functions/shared/volumes/removal-policy.ts";
import { decidedOn, minutesAgo, nowMs } from "./suspended.ts";

type Texts = Readonly<Record<string, string | undefined>>;

export const owner = "FoundationDBCluster.apps.foundationdb.org/orders";
export const group = `owner:${owner}`;
export const uidOf = (zone: string): string => `${owner} ${zone}`;

/** A pod `ZONE-N` with the volume claim `ZONE-N-data` for each number. An annotation of the claim names its zone. */
export class Owned {
  readonly claims = new Map<string, PvcObject>();
  readonly pods = new Map<string, PodObject>();
  readonly ledgerClaims: ReturnType<typeof makeClaim>[] = [];
  /** The owner's own settings; undefined if the owner is gone. */
  removalPolicy: OwnerRemovalPolicy | undefined;

  static of(zones: readonly string[] = ["a", "b"], size = 2): Owned {
    const made = new Owned();
    for (const zone of zones)
      for (let number = 0; number < size; number++) {
        made.addClaim(`${zone}-${number}-data`, { owner, zone, "suspend-duration": "1h" });
        made.addPod(`${zone}-${number}`);
      }
    return made;
  }

  addClaim(name: string, texts: Texts, labels: Readonly<Record<string, string>> = {}): void {
    const metadata = {
      name,
      namespace: "db",
      uid: `uid-${name}`,
      resourceVersion: "9",
      creationTimestamp: minutesAgo(700),
      annotations: {},
      labels,
    };
    const status = { phase: "Bound", capacity: { storage: "10Gi" } };
    this.claims.set(name, { metadata, spec: { volumeName: `pv-${name}` }, status });
    this.log(name, texts);
  }

  addPod(
    name: string,
    changes: Partial<PodObject["metadata"]> = {},
    claims: readonly string[] = [`${name}-data`],
  ): void {
    const controller = {
      apiVersion: "apps.foundationdb.org/v1beta2",
      kind: "FoundationDBCluster",
      name: "orders",
      uid: "uid-orders",
      controller: true,
    };
    const volumes = claims.map((claimName) => ({ persistentVolumeClaim: { claimName } }));
    const conditions = [{ type: "Ready", status: "True", lastTransitionTime: minutesAgo(600) }];
    const metadata = {
      name,
      namespace: "db",
      uid: `uid-${name}`,
      resourceVersion: "8",
      creationTimestamp: minutesAgo(600),
      ownerReferences: [controller],
    };
    this.pods.set(name, {
      metadata: { ...metadata, ...changes },
      spec: { volumes },
      status: { phase: "Running", conditions },
    });
  }

  /** Sets our annotations on a volume claim, given without their prefix; undefined removes one. */
  log(name: string, texts: Texts): void {
    const claim = this.claims.get(name) as PvcObject;
    const annotations: Record<string, string> = { ...claim.metadata.annotations };
    for (const [key, text] of Object.entries(texts)) {
      if (text === undefined) delete annotations[`sluice.dev/${key}`];
      else annotations[`sluice.dev/${key}`] = text;
    }
    this.claims.set(name, { ...claim, metadata: { ...claim.metadata, annotations } });
  }

  change(name: string, metadata: Partial<PvcObject["metadata"]>): void {
    const claim = this.claims.get(name) as PvcObject;
    this.claims.set(name, { ...claim, metadata: { ...claim.metadata, ...metadata } });
  }

  /** A user asks for the suspension, and states that the volumes are drained. */
  ask(...names: readonly string[]): void {
    for (const name of names) this.log(`${name}-data`, { suspend: "true", "drained-at": minutesAgo(90) });
  }

  /** The suspension is requested, and our finalizer is set. */
  protect(...names: readonly string[]): void {
    this.ask(...names);
    for (const name of names) {
      const zone = this.claims.get(`${name}-data`)?.metadata.annotations?.["sluice.dev/zone"] ?? "unknown";
      this.log(`${name}-data`, { "suspend-state": "Suspending", "suspend-owner-uid": uidOf(zone) });
      this.change(`${name}-data`, { finalizers: ["sluice.dev/volume-hold"] });
    }
  }

  /** The volume is suspended, and its pod has been gone for this time. */
  suspend(name: string, minutes: number, state = "Suspended"): void {
    this.protect(name);
    this.log(`${name}-data`, {
      "suspend-state": state,
      "suspend-pod-uid": `uid-${name}`,
      "suspend-pod-created": minutesAgo(600),
      "suspended-at": minutesAgo(minutes),
    });
    this.pods.delete(name);
  }

  unready(name: string): void {
    const pod = this.pods.get(name) as PodObject;
    this.pods.set(name, { ...pod, status: { phase: "Running", conditions: [{ type: "Ready", status: "False" }] } });
  }

  terminate(name: string): void {
    const pod = this.pods.get(name) as PodObject;
    this.pods.set(name, { ...pod, metadata: { ...pod.metadata, deletionTimestamp: minutesAgo(1) } });
  }

  /** A claim of the ledger on a zone, which names no existing pod. */
  claim(zone: string, by: string, kind: "scale-down" | "volume"): void {
    const content = { id: `${kind}-${zone}`, kind, zone, members: [{ first: 2 ** 30, last: 2 ** 30 }], by };
    this.ledgerClaims.push(makeClaim({ ...content, stampMs: nowMs - 1_000, phase: "confirmed", terms: "asked" }));
  }

  get members() {
    return findOwned(group, this.#claims, [...this.pods.values()].map(parseVolumeUser), this.removalPolicy);
  }

  /** The owner's own settings in its object. */
  set(automationOptions: object, annotations: Readonly<Record<string, string>> = {}): void {
    const metadata = { annotations, name: "orders", namespace: "db", uid: "uid-orders", resourceVersion: "1" };
    this.removalPolicy = parseOwnerRemovalPolicy({ metadata, spec: { automationOptions } });
  }

  get zones() {
    const key = { namespace: "db", group };
    const { zones, podsOf } = findOwnedZones(key, this.#claims, [...this.pods.values()]);
    const survey = zones.map((set) => surveyZone(set, podsOf.get(set.uid) ?? [], [], nowMs, this.ledgerClaims));
    return survey.sort((one, other) => (one.workload.name < other.workload.name ? -1 : 1));
  }

  around(by: string, kind: "scale-down" | "volume") {
    return { group, ...decidedOn(this, by, kind) };
  }

  get #claims() {
    return [...this.claims.values()].map(parsePvc);
  }
}
