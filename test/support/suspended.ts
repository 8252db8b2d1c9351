/** Zones of pods with volumes as raw objects, which the product's code parses: for decisions about suspension. */

import { surveyZone, type Zone } from "../../functions/shared/groups/zones.ts";
import type { PodObject, PvcObject, StatefulSetObject } from "../../functions/shared/kubernetes/cluster.ts";
import { makeClaim } from "../../functions/shared/ledger/claim.ts";
import { findMembers, type Member, parseVolumeUser } from "../../functions/shared/volumes/members.ts";
import { parsePvc } from "../../functions/shared/volumes/pvc.ts";
import { parseSuspendableSet } from "../../functions/shared/volumes/suspendable-set.ts";
import { parsePod } from "../../functions/shared/workloads/pods.ts";
import { parseStatefulSet, type ZoneWorkload } from "../../functions/shared/workloads/statefulsets.ts";

export const nowMs = Date.parse("2026-06-01T12:00:00Z");
/** Both clocks show that time. */
export const now = { nowMs, wallMs: nowMs };
export const minutesAgo = (minutes: number): string => new Date(nowMs - minutes * 60_000).toISOString();

type Texts = Readonly<Record<string, string | undefined>>;

/** Our annotations, given without their prefix; undefined removes one. */
function annotations(texts: Texts): Record<string, string> {
  const given = Object.entries(texts).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return Object.fromEntries(given.map(([key, text]) => [key.includes("/") ? key : `sluice.dev/${key}`, text]));
}

/** Each zone is a StatefulSet `db-ZONE` with one volume claim template, `data`. Tests change it before it is parsed. */
export class Suspended {
  readonly sets = new Map<string, StatefulSetObject>();
  readonly claims = new Map<string, PvcObject>();
  readonly pods = new Map<string, PodObject>();
  /** Further claims in the ledger. */
  readonly ledgerClaims: ReturnType<typeof makeClaim>[] = [];

  static of(
    zones: readonly string[] = ["a", "b"],
    replicas = 3,
    policy: Texts = { "suspend-duration": "1h" },
  ): Suspended {
    const made = new Suspended();
    for (const zone of zones) made.addZone(zone, replicas, policy);
    return made;
  }

  addZone(zone: string, replicas: number, policy: Texts): void {
    const name = `db-${zone}`;
    this.sets.set(zone, {
      metadata: {
        name,
        namespace: "db",
        uid: `uid-${name}`,
        resourceVersion: "7",
        generation: 1,
        labels: { "rollout-group": "db" },
        annotations: annotations(policy),
      },
      spec: {
        replicas,
        volumeClaimTemplates: [{ metadata: { name: "data" } }],
        selector: { matchLabels: { name } },
        template: { metadata: { labels: { name } } },
      },
      status: { observedGeneration: 1, replicas, readyReplicas: replicas, updateRevision: "r1" },
    });
    for (let ordinal = 0; ordinal < replicas; ordinal++) {
      this.addClaim(`data-${name}-${ordinal}`);
      this.addPod(`${name}-${ordinal}`, `uid-${name}`);
    }
  }

  addClaim(name: string, texts: Texts = {}): void {
    const metadata = {
      name,
      namespace: "db",
      uid: `uid-${name}`,
      resourceVersion: "9",
      creationTimestamp: minutesAgo(700),
      annotations: annotations(texts),
    };
    const status = { phase: "Bound", capacity: { storage: "10Gi" } };
    this.claims.set(name, { metadata, spec: { volumeName: `pv-${name}` }, status });
  }

  addPod(name: string, ownerUid: string, claims: readonly string[] = [`data-${name}`]): void {
    const owner = { kind: "StatefulSet", name: name.replace(/-\d+$/, ""), uid: ownerUid, controller: true };
    const volumes = claims.map((claimName) => ({ persistentVolumeClaim: { claimName } }));
    const conditions = [{ type: "Ready", status: "True", lastTransitionTime: minutesAgo(600) }];
    const labels = { "controller-revision-hash": "r1" };
    const metadata = {
      name,
      namespace: "db",
      uid: `uid-${name}`,
      resourceVersion: "8",
      creationTimestamp: minutesAgo(600),
      labels,
      ownerReferences: [owner],
    };
    this.pods.set(name, { metadata, spec: { volumes }, status: { phase: "Running", conditions } });
  }

  /** Sets annotations of the volume claim of `db-ZONE-ORDINAL`. */
  annotate(zone: string, ordinal: number, texts: Texts): void {
    this.change(zone, ordinal, ({ metadata, ...rest }) => ({
      ...rest,
      metadata: { ...metadata, annotations: changed(metadata.annotations, texts) },
    }));
  }

  change(zone: string, ordinal: number, change: (claim: PvcObject) => PvcObject): void {
    const name = `data-db-${zone}-${ordinal}`;
    this.claims.set(name, change(this.claims.get(name) as PvcObject));
  }

  /** Sets annotations of the StatefulSet `db-ZONE`. */
  policy(zone: string, texts: Texts): void {
    const set = this.sets.get(zone) as StatefulSetObject;
    const metadata = { ...set.metadata, annotations: changed(set.metadata.annotations, texts) };
    this.sets.set(zone, { ...set, metadata });
  }

  spec(zone: string, change: object): void {
    const set = this.sets.get(zone) as StatefulSetObject;
    this.sets.set(zone, { ...set, spec: { ...set.spec, ...change } });
  }

  /** A user asks for the suspension, and states that the volumes are drained. */
  ask(zone: string, ...ordinals: readonly number[]): void {
    for (const ordinal of ordinals) this.annotate(zone, ordinal, { suspend: "true", "drained-at": minutesAgo(90) });
  }

  /** The state after suspend-group: the volume is suspended, its pod is gone, and the StatefulSet is smaller. */
  suspend(zone: string, ordinal: number, minutes: number, state = "Suspended"): void {
    this.ask(zone, ordinal);
    this.annotate(zone, ordinal, {
      "suspend-state": state,
      "suspend-owner-uid": `uid-db-${zone}`,
      "suspend-pod-uid": `uid-db-${zone}-${ordinal}`,
      "suspend-pod-created": minutesAgo(600),
      "suspended-at": state === "Suspending" ? undefined : minutesAgo(minutes),
      "suspend-kept-for": this.sets.get(zone)?.metadata.annotations?.["sluice.dev/suspend-duration"],
    });
    this.hold(zone, ordinal, ["sluice.dev/volume-hold", "kubernetes.io/pvc-protection"]);
    this.pods.delete(`db-${zone}-${ordinal}`);
    const replicas = Math.min(ordinal, this.sets.get(zone)?.spec?.replicas ?? 0);
    this.spec(zone, { replicas });
  }

  hold(zone: string, ordinal: number, finalizers: readonly string[]): void {
    this.change(zone, ordinal, (claim) => ({ ...claim, metadata: { ...claim.metadata, finalizers } }));
  }

  delete(zone: string, ordinal: number): void {
    const deletionTimestamp = minutesAgo(1);
    this.change(zone, ordinal, (claim) => ({ ...claim, metadata: { ...claim.metadata, deletionTimestamp } }));
  }

  /** A claim of the ledger on pods of a zone. `prefix`: beginning of its id. */
  claim(zone: string, by: string, kind: "scale-down" | "volume", ordinal: number, prefix = ""): void {
    const anchor = { resource: "persistentvolumeclaims", name: `data-db-${zone}-${ordinal}`, annotation: "x" };
    const members = [{ first: ordinal, last: ordinal }];
    const id = `${prefix}${kind}-${zone}-${ordinal}`;
    const content = { id, kind, zone: `db-${zone}`, members, by, stampMs: nowMs - 1_000 };
    this.ledgerClaims.push(
      makeClaim({ ...content, phase: "confirmed", terms: "asked", ...(kind === "volume" ? { anchor } : {}) }),
    );
  }

  get members(): readonly Member[] {
    const sets = [...this.sets.values()].map(parseSuspendableSet);
    const claims = [...this.claims.values()].map(parsePvc);
    return findMembers(sets, claims, [...this.pods.values()].map(parseVolumeUser));
  }

  get zones(): readonly Zone[] {
    const pods = [...this.pods.values()].map(parsePod);
    return [...this.sets.values()].map(parseStatefulSet).map((set) =>
      surveyZone(
        set,
        pods.filter(({ ownerUid }) => ownerUid === set.uid),
        [],
        nowMs,
        this.ledgerClaims,
      ),
    );
  }

  around(by: string, kind: "scale-down" | "volume") {
    return { group: "db", ...decidedOn(this, by, kind) };
  }
}

function changed(before: Readonly<Record<string, string>> = {}, texts: Texts): Record<string, string> {
  const keys = Object.keys(texts).map((key) => (key.includes("/") ? key : `sluice.dev/${key}`));
  const kept = Object.entries(before).filter(([key]) => !keys.includes(key));
  return { ...Object.fromEntries(kept), ...annotations(texts) };
}

/** The fields of the snapshot that both functions decide on. */
export function decidedOn(
  {
    zones,
    members,
    ledgerClaims,
  }: {
    readonly zones: readonly Zone<ZoneWorkload>[];
    readonly members: readonly Member[];
    readonly ledgerClaims: ReturnType<typeof makeClaim>[];
  },
  by: string,
  kind: "scale-down" | "volume",
) {
  const claims = ledgerClaims.filter((claim) => claim.by === by && claim.kind === kind);
  const times = { looks: { sinceMs: 0, untilMs: nowMs } };
  return {
    ...now,
    zones,
    departed: [],
    strayClaims: [],
    members,
    claims,
    isNamespaceEnding: false,
    times,
    recentMessages: new Set<string>(),
  };
}
