/** What users, an autoscaler and other controllers do to volume claims and their StatefulSets. */
import type { StoredObject, StoredStatefulSet } from "../../fake-cluster/objects.ts";
import type { SuspensionDeed } from "../plan.ts";
import type { SeedRun } from "../seed.ts";
import { annotationOf, firstOf, hasOurFinalizer, isDeleted, key, ourFinalizer, podOf, templates } from "./raw.ts";

const claimsResource = "persistentvolumeclaims";
const stuckFinalizer = "other.test/stuck";
/** Prefix of the names of pods without a controller that mount a volume claim. */
const debuggerName = "debugger";

export class Deeds {
  readonly #run: SeedRun;
  #debuggers = 0;

  constructor(run: SeedRun) {
    this.#run = run;
  }

  /** Throws ClusterError if the API server refuses. */
  do(deed: SuspensionDeed): void {
    const { draw } = this.#run;
    const sets = this.sets();
    const claims = this.claims();
    if (sets.length === 0 || claims.length === 0) return;
    const set = draw.pick(sets);
    const claim = draw.pick(claims);
    const either = draw.chance(0.5) ? set : claim;
    const begun = draw.pick(this.#begun(claims));
    const annotate = (object: StoredObject, name: string, texts: readonly (string | null)[]) => () =>
      this.#annotate(object, { [name]: draw.pick(texts) });
    const deeds: Readonly<Record<SuspensionDeed, () => void>> = {
      request: () => this.#request(set),
      withdraw: annotate(begun, "suspend", [null, "false", "perhaps"]),
      recover: annotate(begun, "recover", ["true", "true", "true", "true", "perhaps"]),
      drain: annotate(claim, "drained-at", [this.#now()]),
      undrain: annotate(begun, "drained-at", [null, "lately", this.#now(86_400_000)]),
      duration: annotate(either, "suspend-duration", ["0", "20s", "60", "3m", "soon", null, null]),
      hold: annotate(either, "hold", ["true", "yes", "false", null, null]),
      mode: annotate(set, "removal-mode", ["Zone", "Zone", "Group", "All", "None", "some", null]),
      wait: annotate(set, "wait-between-removals", ["0s", "10s", "-5s", "later"]),
      scaleUp: () => this.#scaleUp(set),
      scaleDown: () => this.#scaleDown(set),
      shift: () => this.#shift(set),
      restore: () => this.#replace(begun, begun.metadata.annotations),
      correct: () => this.#correct(either),
      deleteClaim: () => this.#deleteClaim(begun),
      retention: () => this.#retain(set, draw.pick(["Delete", "Retain", "Retain"])),
      stick: () => this.#stick(),
      debug: () => this.#debug(begun),
      forge: () => this.#forge(begun),
    };
    deeds[deed]();
  }

  /** Claims that the volume has been suspended for an hour. The API server notes who has written that, and when. */
  #forge(claim: StoredObject): void {
    const { world, namespace, log } = this.#run;
    if (annotationOf(claim, "suspended-at") === undefined) return;
    const { name } = claim.metadata;
    log("user", `writes that ${name} has been suspended for an hour`);
    const annotation = key("suspended-at");
    const fieldsV1 = { "f:metadata": { "f:annotations": { [`f:${annotation}`]: {} } } };
    const managedFields = [{ manager: "kubectl-annotate", operation: "Update", time: this.#now(1_000), fieldsV1 }];
    const metadata = { annotations: { [annotation]: this.#now(-3_600_000) }, managedFields };
    world.store.patch(claimsResource, { namespace, name }, { metadata });
  }

  #retain({ metadata: { name } }: StoredStatefulSet, whenScaled: "Delete" | "Retain"): void {
    const { world, namespace, log } = this.#run;
    log("user", `says of ${name}: whenScaled ${whenScaled}`);
    const spec = { persistentVolumeClaimRetentionPolicy: { whenScaled } };
    world.store.patch("statefulsets", { namespace, name }, { spec });
  }

  /** A user reacts as soon as a volume claim has changed, so that the deed may come between any two calls of ours. */
  react(name: string): void {
    const { draw, world, namespace } = this.#run;
    const deed = draw.pick([
      "recover",
      "recover",
      "withdraw",
      "undrain",
      "hold",
      "replace",
      "debug",
      "scaleUp",
    ] as const);
    const now = world.store.find(claimsResource, { namespace, name });
    if (now === undefined) return;
    if (deed === "recover") this.#annotate(now, { recover: "true" });
    else if (deed === "withdraw") this.#annotate(now, { suspend: null });
    else if (deed === "undrain") this.#annotate(now, { "drained-at": null });
    else if (deed === "hold") this.#annotate(now, { hold: "true" });
    else if (deed === "replace") this.#replace(now);
    else if (deed === "debug") this.#debug(now);
    else {
      const set = this.sets().find(({ metadata }) => podOf(now).startsWith(`${metadata.name}-`));
      if (set !== undefined) this.#scaleUp(set);
    }
  }

  sets(): StoredStatefulSet[] {
    const { world, namespace, group } = this.#run;
    const { items } = world.store.list("statefulsets", { namespace });
    return items.filter(({ metadata }) => metadata.labels?.["rollout-group"] === group);
  }

  claims(): StoredObject[] {
    const { world, namespace } = this.#run;
    return world.store.list(claimsResource, { namespace }).items;
  }

  /** The claims that a user has asked to suspend; all claims if there are none. */
  #begun(claims: readonly StoredObject[]): readonly StoredObject[] {
    const begun = claims.filter((claim) => hasOurFinalizer(claim) || annotationOf(claim, "suspend") !== undefined);
    return begun.length > 0 ? begun : claims;
  }

  #now(aheadMs = 0): string {
    return new Date(this.#run.world.timeline.nowMs() + aheadMs - 1_000).toISOString();
  }

  #annotate(object: StoredObject, entries: Readonly<Record<string, string | null>>): void {
    const { world, log, namespace } = this.#run;
    const annotations = Object.fromEntries(Object.entries(entries).map(([name, text]) => [key(name), text]));
    log("user", `says of ${object.metadata.name}: ${JSON.stringify(entries)}`);
    const resource = object.kind === "StatefulSet" ? "statefulsets" : claimsResource;
    world.annotate({ namespace, name: object.metadata.name }, annotations, resource);
  }

  /** Most users ask for the highest ordinals, and state that these are drained. */
  #request(set: StoredStatefulSet): void {
    const { draw, world, namespace, plan } = this.#run;
    const count = draw.whole(1, 2);
    for (let index = 0; index < count; index++) {
      const ordinal =
        firstOf(set) + (draw.chance(0.85) ? set.spec.replicas - 1 - index : draw.whole(0, set.spec.replicas));
      const proof = draw.chance(0.85) ? { "drained-at": this.#now() } : {};
      const volumes = plan.suspension?.volumes ?? 1;
      for (const template of templates.slice(0, volumes)) {
        const name = `${template}-${set.metadata.name}-${ordinal}`;
        const claim = world.store.find(claimsResource, { namespace, name });
        // A user may forget that a pod has two claims.
        if (claim === undefined || (volumes > 1 && draw.chance(0.05))) continue;
        this.#annotate(claim, { suspend: "true", ...proof });
      }
    }
  }

  #scaleUp(set: StoredStatefulSet): void {
    const { plan, log, draw } = this.#run;
    const replicas = Math.min(plan.replicas, set.spec.replicas + draw.whole(1, 2));
    if (replicas <= set.spec.replicas) return;
    log("autoscaler", `scales ${set.metadata.name} up to ${replicas}`);
    this.#change(set, "replicas", { replicas });
  }

  /** A user removes pods without asking Sluice, and may bring one back a moment later. */
  #scaleDown(set: StoredStatefulSet): void {
    const { world, log, namespace, draw } = this.#run;
    const { name } = set.metadata;
    const replicas = Math.max(1, set.spec.replicas - draw.whole(1, 2));
    if (replicas >= set.spec.replicas) return;
    log("user", `scales ${name} down to ${replicas}`);
    this.#change(set, "replicas", { replicas });
    if (!draw.chance(0.5)) return;
    world.timeline.after(draw.between(1_000, 20_000), () => {
      const now = world.store.find("statefulsets", { namespace, name });
      if (now !== undefined) this.#change(now, "replicas", { replicas: now.spec.replicas + 1 });
    });
  }

  /** Changes the first ordinal: pods leave at one end, and as many come at the other. */
  #shift(set: StoredStatefulSet): void {
    const { log, draw } = this.#run;
    const start = Math.max(0, Math.min(2, firstOf(set) + draw.pick([-1, 1])));
    if (start === firstOf(set)) return;
    log("user", `has the ordinals of ${set.metadata.name} begin at ${start}`);
    this.#change(set, "ordinals", { ordinals: { start } });
  }

  /** The API server notes who has changed a size, and when. */
  #change({ metadata: { name } }: StoredStatefulSet, field: string, spec: object): void {
    const { world, namespace } = this.#run;
    const fieldsV1 = { "f:spec": { [`f:${field}`]: {} } };
    const managedFields = [{ manager: "kubectl", operation: "Update", time: this.#now(1_000), fieldsV1 }];
    world.store.patch("statefulsets", { namespace, name }, { metadata: { managedFields }, spec });
  }

  /** Corrects the annotations that Sluice cannot read. */
  #correct(object: StoredObject): void {
    const right: Readonly<Record<string, { readonly grammar: RegExp; readonly text: string | null }>> = {
      "suspend-duration": { grammar: /^\d+[smh]?$/, text: "20s" },
      hold: { grammar: /^(true|false)$/, text: null },
      "removal-mode": { grammar: /^(Zone|Group|All|None)$/, text: "Zone" },
      "wait-between-removals": { grammar: /^\d+s$/, text: "10s" },
      suspend: { grammar: /^(true|false)$/, text: "true" },
      recover: { grammar: /^true$/, text: null },
      "drained-at": { grammar: /^\d{4}-/, text: this.#now() },
    };
    const wrong = Object.entries(right).filter(([name, { grammar }]) => {
      const text = annotationOf(object, name);
      return text !== undefined && !grammar.test(text);
    });
    if (wrong.length > 0) this.#annotate(object, Object.fromEntries(wrong.map(([name, { text }]) => [name, text])));
  }

  #deleteClaim({ metadata: { name } }: StoredObject): void {
    const { world, log, namespace } = this.#run;
    log("user", `deletes ${name}`);
    world.store.delete(claimsResource, { namespace, name }, {});
  }

  /**
   * Deletes the claim, removes its finalizers, and creates another one of its name, which may be a copy with the old
   * annotations.
   */
  #replace(claim: StoredObject, annotations: Readonly<Record<string, string>> = {}): void {
    const { world, log, namespace } = this.#run;
    const { name } = claim.metadata;
    const isCopy = Object.keys(annotations).length > 0;
    log("user", isCopy ? `restores ${name} from a copy` : `replaces ${name}`);
    const fields = Object.fromEntries(Object.keys(annotations).map((one) => [`f:${one}`, {}]));
    const fieldsV1 = { "f:metadata": { "f:annotations": fields } };
    const managedFields = [{ manager: "velero", operation: "Update", time: this.#now(1_000), fieldsV1 }];
    const restored = { annotations, managedFields };
    if (!isDeleted(claim)) world.store.delete(claimsResource, { namespace, name }, {});
    if (world.store.find(claimsResource, { namespace, name }) !== undefined)
      world.store.patch(claimsResource, { namespace, name }, { metadata: { finalizers: null } });
    if (world.store.find(claimsResource, { namespace, name }) === undefined)
      world.store.create(claimsResource, namespace, { metadata: { name, ...(isCopy ? restored : {}) }, spec: {} });
  }

  /** Keeps a pod from going for a while. */
  #stick(): void {
    const { world, draw, log, namespace } = this.#run;
    const { items } = world.store.list("pods", { namespace });
    if (items.length === 0) return;
    const { name, uid, finalizers = [] } = draw.pick(items).metadata;
    log("user", `keeps ${name} from going`);
    world.store.patch("pods", { namespace, name }, { metadata: { finalizers: [...finalizers, stuckFinalizer] } });
    world.timeline.after(draw.between(5_000, 90_000), () => this.#free(name, uid));
  }

  #free(name: string, uid: string): void {
    const { world, namespace } = this.#run;
    const pod = world.store.find("pods", { namespace, name });
    if (pod?.metadata.uid !== uid) return;
    const finalizers = pod.metadata.finalizers?.filter((one) => one !== stuckFinalizer) ?? [];
    world.store.patch("pods", { namespace, name }, { metadata: { finalizers } });
  }

  /** A user mounts the volume in a pod of their own. */
  #debug({ metadata }: StoredObject): void {
    const { world, draw, log, namespace } = this.#run;
    const name = `${debuggerName}-${++this.#debuggers}`;
    log("user", `looks into ${metadata.name} with ${name}`);
    const volumes = [{ name: "data", persistentVolumeClaim: { claimName: metadata.name } }];
    const { uid } = world.store.create("pods", namespace, {
      metadata: { name },
      spec: { containers: [{ name: "app", image: "app:1" }], volumes },
    }).metadata;
    world.timeline.after(draw.between(5_000, 120_000), () => this.#takeDebugger(name, uid));
  }

  #takeDebugger(name: string, uid: string): void {
    const { world, namespace } = this.#run;
    if (world.store.find("pods", { namespace, name })?.metadata.uid === uid)
      world.store.delete("pods", { namespace, name }, { gracePeriodSeconds: 0 });
  }

  /**
   * Lets users want only what can come true: short durations, modes and holds that permit removal, and statements that volumes
   * are drained.
   */
  makePeace(): void {
    const { draw, world, namespace } = this.#run;
    for (const { metadata } of world.store.list("pods", { namespace }).items) this.#free(metadata.name, metadata.uid);
    for (const set of this.sets()) {
      this.#annotate(set, {
        "suspend-duration": "20s",
        hold: null,
        "removal-mode": "Zone",
        "wait-between-removals": "5s",
      });
      this.#retain(set, "Retain");
      // Below the first ordinal a user cannot get a pod back.
      const spec = { ordinals: { start: 0 }, replicas: set.spec.replicas + firstOf(set) };
      if (firstOf(set) > 0) world.store.patch("statefulsets", { namespace, name: set.metadata.name }, { spec });
    }
    const asks = (claim: StoredObject) =>
      annotationOf(claim, "suspend") !== undefined && annotationOf(claim, "suspend") !== "false";
    // A user who asked for one volume of a pod asks for all of them.
    const asked = new Set(this.claims().filter(asks).map(podOf));
    for (const claim of this.claims()) {
      const isAsked = asked.has(podOf(claim));
      const wish = annotationOf(claim, "recover") === undefined ? null : draw.pick([null, "true"]);
      this.#annotate(claim, {
        hold: null,
        "suspend-duration": null,
        recover: wish,
        suspend: isAsked ? "true" : null,
        ...(isAsked ? { "drained-at": this.#now() } : {}),
      });
    }
  }

  /** True if the removal of all volume claims of its pod has begun. */
  #isRemoving(claim: StoredObject): boolean {
    const own = this.claims().filter((one) => podOf(one) === podOf(claim));
    return own.every((one) => annotationOf(one, "suspend-state") === "Removing");
  }

  /** A user removes our finalizer from a deleted claim that no process removes: until then the claim keeps its name. */
  takeWhatHangs(): void {
    const { world, namespace, log } = this.#run;
    // Bringing a pod back made the statement about its data void, so the user drains the data again.
    for (const claim of this.claims())
      if (annotationOf(claim, "suspend") === "true" && annotationOf(claim, "drained-at") === undefined)
        this.#annotate(claim, { "drained-at": this.#now() });
    for (const claim of this.claims()) {
      // The pod or the claim is newer than the statement, so the user drains the data again.
      if (/^(pod|claim)-newer: /.test(annotationOf(claim, "suspend-message") ?? ""))
        this.#annotate(claim, { "drained-at": this.#now() });
      if (!isDeleted(claim) || !hasOurFinalizer(claim) || this.#isRemoving(claim)) continue;
      const { name, finalizers = [] } = claim.metadata;
      log("user", `takes our finalizer from ${name}`);
      const kept = finalizers.filter((one) => one !== ourFinalizer);
      world.store.patch(claimsResource, { namespace, name }, { metadata: { finalizers: kept } });
    }
  }
}
