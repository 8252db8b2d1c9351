/** A FoundationDBCluster with its volume claims and pods as raw objects, which the product's code parses. */
import type { RemovalsSnapshot } from "../../functions/hold-process-groups/decide.ts";
import {
  parseFoundationCluster,
  parseGroupPod,
  parseProcessGroupPvc,
} from "../../functions/hold-process-groups/foundation-cluster.ts";
import type { Metadata, OtherObject, PodObject, PvcObject } from "../../functions/shared/kubernetes/cluster.ts";
import { minutesAgo, nowMs } from "./suspended.ts";

type Texts = Readonly<Record<string, string | null>>;
type Group = Readonly<Record<string, unknown>>;

const ownerReference = {
  apiVersion: "apps.foundationdb.org/v1beta2",
  kind: "FoundationDBCluster",
  name: "orders",
  uid: "uid-orders",
};

/** Three process groups, `storage-1` to `storage-3`, each with a fault domain, a pod and a volume claim of its own. */
export class HeldGroups {
  readonly groups = new Map<string, Group>();
  readonly claims = new Map<string, PvcObject>();
  readonly pods = new Map<string, PodObject>();
  /** Volume claims without a label of their process group. */
  readonly unplaced: PvcObject[] = [];
  readonly spec: Record<string, unknown> = {};
  readonly annotations: Record<string, string> = {};
  metadata: Partial<Metadata> = {};
  holds = true;
  isNamespaceEnding = false;
  isGone = false;

  constructor(annotations: Texts = { "suspend-duration": "7d" }) {
    this.annotateCluster(annotations);
    for (const number of [1, 2, 3]) {
      const id = `storage-${number}`;
      this.groups.set(id, { processGroupID: id, faultDomain: `zone-${number}`, addresses: [`10.1.0.${number}:4501`] });
      const metadata = { name: `orders-${id}-data`, namespace: "db", uid: `uid-${id}-data`, resourceVersion: "9" };
      this.claims.set(id, { metadata: { ...metadata, annotations: {}, ownerReferences: [ownerReference] } });
      this.addPod(id);
    }
  }

  addPod(id: string, createdMinutesAgo = 600, isReady = true): void {
    const creationTimestamp = minutesAgo(createdMinutesAgo);
    const metadata = {
      name: `orders-${id}`,
      namespace: "db",
      uid: `uid-${id}`,
      resourceVersion: "8",
      creationTimestamp,
    };
    const conditions = [{ type: "Ready", status: isReady ? "True" : "False" }];
    this.pods.set(id, { metadata, status: { phase: "Running", conditions } });
  }

  /** Sets our annotations, given without their prefix; null removes one. */
  annotateCluster(texts: Texts): void {
    for (const [key, text] of Object.entries(texts)) {
      if (text === null) delete this.annotations[`sluice.dev/${key}`];
      else this.annotations[`sluice.dev/${key}`] = text;
    }
  }

  annotate(id: string, texts: Texts): void {
    const claim = this.claims.get(id) as PvcObject;
    const annotations = { ...claim.metadata.annotations };
    for (const [key, text] of Object.entries(texts)) {
      if (text === null) delete annotations[`sluice.dev/${key}`];
      else annotations[`sluice.dev/${key}`] = text;
    }
    this.claims.set(id, { ...claim, metadata: { ...claim.metadata, annotations } });
  }

  change(id: string, metadata: Partial<Metadata>): void {
    const claim = this.claims.get(id) as PvcObject;
    this.claims.set(id, { ...claim, metadata: { ...claim.metadata, ...metadata } });
  }

  set(id: string, status: Group): void {
    this.groups.set(id, { ...this.groups.get(id), ...status });
  }

  /** A user has listed these groups, and the operator has marked them. */
  remove(...ids: readonly string[]): void {
    this.spec.processGroupsToRemove = ids;
    for (const id of ids) this.set(id, { removalTimestamp: minutesAgo(30) });
  }

  /** We have blocked the group, and recorded that. */
  hold(id: string, recoveringMinutesAgo?: number): void {
    const blocked = (this.spec.buggify as { blockRemoval: readonly string[] } | undefined)?.blockRemoval ?? [];
    this.spec.buggify = { blockRemoval: [...blocked, id] };
    const record: Record<string, object> = JSON.parse(this.annotations["sluice.dev/held-process-groups"] ?? "{}");
    const recovering = recoveringMinutesAgo === undefined ? {} : { recovering: minutesAgo(recoveringMinutesAgo) };
    record[id] = { since: minutesAgo(20), ...recovering };
    this.annotateCluster({ "held-process-groups": JSON.stringify(record) });
    if (this.claims.has(id)) this.annotate(id, { "removal-held": recoveringMinutesAgo === undefined ? "true" : null });
  }

  /** The group is marked, blocked by us, excluded, and its suspension is requested. */
  exclude(id: string): void {
    this.remove(id);
    this.hold(id);
    this.set(id, { exclusionTimestamp: minutesAgo(10) });
    this.annotate(id, { suspend: "true", "drained-at": minutesAgo(10) });
  }

  /** Writes what the function itself writes to volume claims before a removal. */
  furnish(): void {
    for (const [id, group] of this.groups)
      this.annotate(id, {
        owner: "FoundationDBCluster.apps.foundationdb.org/orders",
        zone: String(group.faultDomain),
        "suspend-duration": this.annotations["sluice.dev/suspend-duration"] ?? null,
      });
  }

  get object(): OtherObject {
    const metadata = { name: "orders", namespace: "db", uid: "uid-orders", resourceVersion: "7", ...this.metadata };
    const status = { processGroups: [...this.groups.values()] };
    return { metadata: { ...metadata, annotations: this.annotations }, spec: this.spec, status };
  }

  get snapshot(): RemovalsSnapshot {
    return {
      nowMs,
      cluster: this.isGone ? undefined : parseFoundationCluster(this.object),
      pvcs: [...this.claims].map(([group, one]) => parseProcessGroupPvc(one, group)),
      unplaced: this.unplaced.map((one) => parseProcessGroupPvc(one, "")),
      pods: [...this.pods].map(([group, one]) => parseGroupPod(one, group)),
      keepsVolumes: this.holds,
      isNamespaceEnding: this.isNamespaceEnding,
    };
  }
}
