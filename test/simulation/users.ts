/** What happens to a cluster besides us: users who edit in the middle, pods that break, nodes that go. */

import type { ObjectKey } from "../../functions/shared/cluster.ts";
import { ordinalOf } from "../../functions/shared/pods.ts";
import { ledgerName } from "../../functions/shared/reservation.ts";
import { isWanted } from "../../functions/shared/statefulsets.ts";
import type { StoredPod } from "../world/objects.ts";
import type { World } from "../world/world.ts";
import type { Draw } from "./draw.ts";
import type { Disturbance, Plan, PlannedBudget } from "./plan.ts";
import { statefulSetOf } from "./stale-views.ts";

export class Users {
  readonly #world: World;
  readonly #draw: Draw;
  readonly #plan: Plan;
  readonly #namespace: string;
  readonly #group: string;
  readonly #log: (who: string, what: string) => void;
  readonly #lost = new Set<string>();
  readonly #budgetName = "budget";
  #version = 1;
  #zonesMade = 0;

  constructor(options: {
    world: World;
    draw: Draw;
    plan: Plan;
    namespace: string;
    group: string;
    log: (who: string, what: string) => void;
  }) {
    this.#world = options.world;
    this.#draw = options.draw;
    this.#plan = options.plan;
    this.#namespace = options.namespace;
    this.#group = options.group;
    this.#log = options.log;
    for (let zone = 0; zone < options.plan.zones; zone++) this.#makeZone();
    this.#writeBudget(this.#plan.budget);
    if (this.#plan.isHeld) this.#writeDisruptionBudget(0);
  }

  #writeBudget(budget: PlannedBudget | undefined, more: object = {}): void {
    if (budget === undefined) return;
    const { maxUnavailable, isPartitioned, delaySeconds } = budget;
    const limit =
      typeof maxUnavailable === "number"
        ? { maxUnavailable, maxUnavailablePercentage: null }
        : { maxUnavailablePercentage: Number.parseInt(maxUnavailable, 10), maxUnavailable: null };
    const partitions = { podNamePartitionRegex: isPartitioned ? "[a-z]+-[a-z]+-([0-9]+)" : null };
    const delay = delaySeconds > 0 ? { crossZoneEvictionDelay: `${delaySeconds}s` } : {};
    const selector = { matchLabels: { "rollout-group": this.#group } };
    const spec = { selector, ...limit, ...partitions, ...delay, ...more };
    this.#write("zoneawarepoddisruptionbudgets", this.#budgetName, { spec });
  }

  #writeDisruptionBudget(disruptionsAllowed: number): void {
    const selector = { matchLabels: { "rollout-group": this.#group } };
    this.#write("poddisruptionbudgets", "held", {
      spec: { selector },
      status: { disruptionsAllowed, observedGeneration: 1_000 },
    });
  }

  /** As kubectl apply: a patch of what is there, or new. */
  #write(resource: "zoneawarepoddisruptionbudgets" | "poddisruptionbudgets", name: string, body: object): void {
    const { store } = this.#world;
    const key = { namespace: this.#namespace, name };
    if (store.find(resource, key) === undefined) store.create(resource, this.#namespace, { metadata: { name } });
    store.patch(resource, key, body);
    if (resource === "poddisruptionbudgets") store.patch(resource, key, body, "status");
  }

  #disturbBudget(): void {
    const { budget } = this.#plan;
    if (budget === undefined) return;
    const key = { namespace: this.#namespace, name: this.#budgetName };
    const draw = this.#draw;
    if (draw.chance(0.15) && this.#world.store.find("zoneawarepoddisruptionbudgets", key) !== undefined) {
      this.#log("user", "deletes the budget");
      this.#world.store.delete("zoneawarepoddisruptionbudgets", key, {});
    } else if (draw.chance(0.2)) {
      this.#log("user", "makes the budget invalid");
      this.#writeBudget(budget, { podNameRegexGroup: 7, podNamePartitionRegex: "(" });
    } else {
      const maxUnavailable = draw.pick([0, 1, 2, 3]);
      this.#log("user", `makes the budget ${maxUnavailable}`);
      this.#writeBudget({ ...budget, maxUnavailable }, { podNameRegexGroup: null });
    }
  }

  #makeZone(): void {
    const { maxUnavailable, minReadySeconds, podManagementPolicy, replicas } = this.#plan;
    const zone = String.fromCharCode(97 + this.#zonesMade++);
    this.#world.addGroup({
      namespace: this.#namespace,
      group: this.#group,
      zones: [zone],
      replicas,
      maxUnavailable,
      minReadySeconds,
      podManagementPolicy,
      image: `app:${this.#version}`,
    });
  }

  statefulSets(): ObjectKey[] {
    return this.#world.store.list("statefulsets", { namespace: this.#namespace }).items.map(({ metadata }) => metadata);
  }

  /** A new template for every zone, as a deployment tool applies it: one after another. */
  changeTemplates(image = `app:${++this.#version}`): void {
    this.#log("user", `every template: ${image}`);
    for (const key of this.statefulSets()) this.#world.changeTemplate(key, image);
  }

  disturb(kind: Disturbance): void {
    if (kind === "zoneBudget") this.#disturbBudget();
    if (kind === "podDisruptionBudget") this.#writeDisruptionBudget(this.#draw.pick([0, 0, 3]));
    const set = this.#draw.pick(this.statefulSets());
    const pods = this.#world.store.list("pods", { namespace: this.#namespace }).items;
    const pod = pods.length > 0 ? this.#draw.pick(pods) : undefined;
    if (set === undefined) return;
    if (pod !== undefined && this.#disturbPod(kind, pod)) return;
    this.#disturbSet(kind, set);
  }

  #disturbPod(kind: Disturbance, pod: StoredPod): boolean {
    const { kubelet, store } = this.#world;
    const { name } = pod.metadata;
    if (kind === "breakPod") {
      this.#log("world", `pod ${name} breaks`);
      kubelet.breakPod(pod.metadata, this.#draw.chance(0.5) ? "CrashLoopBackOff" : "Error");
      if (this.#draw.chance(0.6)) this.#healLater(pod);
    } else if (kind === "failPod") {
      this.#log("world", `pod ${name} fails`);
      kubelet.failPod(pod.metadata);
    } else if (kind === "deletePod") {
      this.#log("user", `deletes pod ${name}`);
      store.delete("pods", pod.metadata, {});
    } else if (kind === "loseNode" && pod.spec.nodeName !== undefined) {
      const { nodeName } = pod.spec;
      this.#log("world", `node ${nodeName} is lost for a while`);
      this.#lost.add(nodeName);
      kubelet.loseNode(nodeName);
      this.#world.timeline.after(this.#draw.between(5_000, 60_000), () => this.#recover(nodeName));
    } else return false;
    return true;
  }

  /** What crashes comes back by itself at times, just when it is about to be replaced. */
  #healLater({ metadata }: StoredPod): void {
    this.#world.timeline.after(this.#draw.between(100, 20_000), () => {
      const current = this.#world.store.find("pods", metadata);
      if (current?.metadata.uid !== metadata.uid || current.metadata.deletionTimestamp !== undefined) return;
      this.#log("world", `pod ${metadata.name} works again`);
      this.#world.kubelet.healPod(metadata);
    });
  }

  #recover(nodeName: string): void {
    if (!this.#lost.delete(nodeName)) return;
    this.#log("world", `node ${nodeName} is back`);
    this.#world.kubelet.recoverNode(nodeName);
  }

  #disturbSet(kind: Disturbance, set: ObjectKey): void {
    const world = this.#world;
    const draw = this.#draw;
    switch (kind) {
      case "changeTemplate":
        if (draw.chance(0.7)) {
          this.changeTemplates();
          return;
        }
        this.#log("user", `template of ${set.name} alone`);
        world.changeTemplate(set, `app:${++this.#version}`);
        return;
      case "rollBack":
        this.changeTemplates(`app:${Math.max(1, this.#version - 1)}`);
        return;
      case "brokenTemplate":
        this.changeTemplates("app:broken");
        return;
      case "scale": {
        const replicas = draw.whole(0, 4);
        this.#log("user", `scales ${set.name} to ${replicas}`);
        world.scale(set, replicas);
        return;
      }
      case "pause": {
        const paused = draw.chance(0.5);
        this.#log("user", `${paused ? "pauses" : "resumes"} ${set.name}`);
        world.pause(set, paused);
        return;
      }
      case "budget":
      case "malformed": {
        const text = kind === "malformed" ? draw.pick(["many", "-1", "0%", ""]) : draw.pick(["1", "2", "3", "50%"]);
        this.#log("user", `budget of ${set.name}: ${JSON.stringify(text)}`);
        world.annotate(set, { "rollout-max-unavailable": text });
        return;
      }
      case "strategy": {
        const type = draw.chance(0.5) ? "RollingUpdate" : "OnDelete";
        this.#log("user", `update strategy of ${set.name}: ${type}`);
        world.store.patch("statefulsets", set, { spec: { updateStrategy: { type } } });
        return;
      }
      case "loseLedger": {
        const key = { namespace: this.#namespace, name: ledgerName(this.#group) };
        if (world.store.find("leases", key) === undefined) return;
        this.#log("user", "deletes the ledger");
        world.store.delete("leases", key, {});
        return;
      }
      case "removeZone":
        if (this.statefulSets().length < 2) return;
        this.#log("user", `deletes StatefulSet ${set.name}`);
        world.removeStatefulSet(set);
        return;
      case "addZone":
        if (this.statefulSets().length > 4) return;
        this.#log("user", "adds a zone");
        this.#makeZone();
        return;
      default:
    }
  }

  /** An unwanted pod that never becomes ready can hold up an OrderedReady scale-down for ever: no rollout's business. */
  #isWanted({ metadata }: StoredPod): boolean {
    const name = metadata.name.replace(/-\d+$/, "");
    const set = this.#world.store.find("statefulsets", { namespace: metadata.namespace, name });
    return set !== undefined && isWanted(statefulSetOf(set), ordinalOf(metadata.name));
  }

  /** Ends every disturbance: what users want is sane again, and what was broken works. */
  makePeace(): void {
    for (const nodeName of [...this.#lost]) this.#recover(nodeName);
    for (const key of this.statefulSets()) {
      this.#world.pause(key, false);
      this.#world.annotate(key, { "rollout-max-unavailable": String(this.#plan.maxUnavailable) });
      this.#world.store.patch("statefulsets", key, { spec: { updateStrategy: { type: "OnDelete" } } });
      // A partition that only one zone has is never free (rollout-operator section 4.5): zones of one size end that.
      if (this.#plan.budget?.isPartitioned === true) this.#world.scale(key, this.#plan.replicas);
    }
    this.#writeBudget(this.#plan.budget, { podNameRegexGroup: null });
    const isThere = this.#world.store.list("poddisruptionbudgets", { namespace: this.#namespace }).items.length > 0;
    if (isThere && !this.#plan.isHeld) this.#writeDisruptionBudget(3);
    this.changeTemplates();
    for (const pod of this.#world.store.list("pods", { namespace: this.#namespace }).items) {
      if (pod.metadata.deletionTimestamp !== undefined) continue;
      // Failed pods that nobody wants can hold up an OrderedReady scale-down for ever: somebody cleans up.
      if (pod.status.phase === "Failed") {
        this.#world.store.delete("pods", pod.metadata, {});
        continue;
      }
      const broken = pod.spec.containers.some(({ image }) => image.endsWith(":broken"));
      // A broken revision stays broken: replacing it is the rollout's work (rule R13).
      if (broken && this.#isWanted(pod)) this.#world.kubelet.breakPod(pod.metadata);
      else this.#world.kubelet.healPod(pod.metadata);
    }
  }
}
