/** What happens to a cluster besides us: users who edit in the middle, pods that break, nodes that go. */
import type { LeaseObject, ObjectKey } from "../../functions/shared/kubernetes/cluster.ts";
import { ledgerName } from "../../functions/shared/ledger/name.ts";
import { ordinalIn, setNameOf, wantsOrdinal } from "../stage/checkers/raw.ts";
import { brokenBy, causes } from "../world/kubelet.ts";
import type { StoredPod } from "../world/objects.ts";
import type { World } from "../world/world.ts";
import { Budgets } from "./budgets.ts";
import type { Draw } from "./draw.ts";
import { disturbLedger } from "./ledger-edits.ts";
import type { Disturbance, Plan } from "./plan.ts";
import { Workloads } from "./workloads.ts";

const crashLoop = "CrashLoopBackOff";

export interface UsersOptions {
  readonly world: World;
  readonly draw: Draw;
  readonly plan: Plan;
  readonly namespace: string;
  readonly group: string;
  /** A user has written a ledger. */
  readonly onLedgerEdited: (lease: LeaseObject) => void;
  readonly log: (who: string, what: string) => void;
}

export class Users {
  readonly workloads: Workloads;
  readonly #world: World;
  readonly #draw: Draw;
  readonly #options: UsersOptions;
  readonly #log: (who: string, what: string) => void;
  readonly #budgets: Budgets;
  readonly #lost = new Set<string>();
  readonly #gone = new Set<string>();

  constructor(options: UsersOptions) {
    this.#options = options;
    this.#world = options.world;
    this.#draw = options.draw;
    this.#log = options.log;
    this.workloads = new Workloads(options);
    this.#budgets = new Budgets(options);
  }

  disturb(kind: Disturbance): void {
    if (kind === "zoneBudget") this.#budgets.disturb();
    if (kind === "podDisruptionBudget") this.#budgets.writeDisruptionBudget(this.#draw.pick([0, 0, 3]));
    if (kind === "editLedger") disturbLedger(this.#options);
    const sets = this.workloads.members();
    const { items: pods } = this.#world.store.list("pods", { namespace: this.#options.namespace });
    const pod = pods.length > 0 ? this.#draw.pick(pods) : undefined;
    if (pod !== undefined && this.#disturbPod(kind, pod)) return;
    if (sets.length > 0) this.#disturbSet(kind, this.#draw.pick(sets));
  }

  #disturbPod(kind: Disturbance, pod: StoredPod): boolean {
    const { kubelet, store } = this.#world;
    const { name } = pod.metadata;
    if (kind === "breakPod") {
      this.#log("world", `pod ${name} breaks`);
      kubelet.breakPod(pod.metadata, this.#draw.pick([crashLoop, "Error", causes.unready]));
      if (this.#draw.chance(0.6)) this.#healLater(pod);
    } else if (kind === "failPod") {
      this.#log("world", `pod ${name} fails`);
      kubelet.failPod(pod.metadata);
    } else if (kind === "deletePod") {
      this.#log("user", `deletes pod ${name}`);
      store.delete("pods", pod.metadata, {});
    } else if ((kind === "loseNode" || kind === "loseNodeForGood") && pod.spec.nodeName !== undefined) {
      this.#loseNode(pod.spec.nodeName, kind === "loseNodeForGood");
    } else return false;
    return true;
  }

  #loseNode(nodeName: string, isForGood: boolean): void {
    const { kubelet, timeline } = this.#world;
    if (isForGood) {
      // One of each zone at most: a zone whose nodes are all gone has nowhere to come back to.
      const zone = nodeName.replace(/-\d+$/, "");
      if ([...this.#gone].some((gone) => gone.startsWith(`${zone}-`))) return;
      this.#log("world", `node ${nodeName} is gone for good`);
      this.#gone.add(nodeName);
      kubelet.loseNodeForGood(nodeName);
      if (this.#draw.chance(0.5)) timeline.after(this.#draw.between(1_000, 60_000), () => this.#clear(nodeName));
      return;
    }
    this.#log("world", `node ${nodeName} is lost for a while`);
    this.#lost.add(nodeName);
    kubelet.loseNode(nodeName);
    timeline.after(this.#draw.between(5_000, 60_000), () => this.#recover(nodeName));
  }

  /** Somebody deletes by force what a node has taken with it. */
  #clear(nodeName: string): void {
    const { store } = this.#world;
    this.#log("user", `deletes the pods of node ${nodeName} by force`);
    for (const pod of store.list("pods", { namespace: this.#options.namespace }).items) {
      if (pod.spec.nodeName === nodeName) store.delete("pods", pod.metadata, { gracePeriodSeconds: 0 });
    }
  }

  /** What crashes comes back by itself at times, just when it is about to be replaced. */
  #healLater({ metadata }: StoredPod): void {
    this.#world.timeline.after(this.#draw.between(100, 20_000), () => {
      const current = this.#world.store.find("pods", metadata);
      if (current?.metadata.uid !== metadata.uid || current.metadata.deletionTimestamp !== undefined) return;
      // What a broken revision lacks does not come by itself.
      if (this.#gone.has(current.spec.nodeName ?? "") || brokenBy(current) !== undefined) return;
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
    const { workloads } = this;
    if (this.#disturbSpec(kind, set)) return;
    switch (kind) {
      case "changeTemplate":
        if (this.#draw.chance(0.7)) workloads.changeTemplates();
        else workloads.changeTemplate(set);
        return;
      case "rollBack":
        workloads.rollBack();
        return;
      case "brokenTemplate":
        workloads.changeTemplates(`app:broken-${this.#draw.pick(this.#options.plan.causes)}`);
        return;
      case "loseLedger": {
        const key = { namespace: this.#options.namespace, name: ledgerName(this.#options.group) };
        if (this.#world.store.find("leases", key) === undefined) return;
        this.#log("user", "deletes the ledger");
        this.#world.store.delete("leases", key, {});
        return;
      }
      case "removeZone":
        if (workloads.zones < 2) return;
        this.#log("user", `deletes StatefulSet ${set.name}`);
        this.#world.removeStatefulSet(set);
        return;
      case "addZone":
        if (workloads.zones > 4) return;
        this.#log("user", "adds a zone");
        workloads.addZone();
        return;
      case "recreate":
        workloads.recreate(set);
        return;
      case "relabel":
        workloads.relabel(set);
        return;
      case "relabelTemplate":
        workloads.relabelTemplate(set);
        return;
      default:
    }
  }

  #disturbSpec(kind: Disturbance, set: ObjectKey): boolean {
    const world = this.#world;
    const draw = this.#draw;
    if (kind === "scale") {
      const replicas = draw.whole(0, 4);
      this.#log("user", `scales ${set.name} to ${replicas}`);
      world.scale(set, replicas);
    } else if (kind === "pause") {
      const paused = draw.chance(0.5);
      this.#log("user", `${paused ? "pauses" : "resumes"} ${set.name}`);
      world.pause(set, paused);
    } else if (kind === "budget" || kind === "malformed") {
      const text = kind === "malformed" ? draw.pick(["many", "-1", "0%", ""]) : draw.pick(["1", "2", "3", "50%"]);
      this.#log("user", `budget of ${set.name}: ${JSON.stringify(text)}`);
      world.annotate(set, { "rollout-max-unavailable": text });
    } else if (kind === "strategy") {
      const type = draw.chance(0.5) ? "RollingUpdate" : "OnDelete";
      this.#log("user", `update strategy of ${set.name}: ${type}`);
      world.store.patch("statefulsets", set, { spec: { updateStrategy: { type } } });
    } else return false;
    return true;
  }

  /** An unwanted pod that never becomes ready can hold up an OrderedReady scale-down for ever: no rollout's business. */
  #isWanted({ metadata }: StoredPod): boolean {
    const name = setNameOf(metadata.name);
    const set = this.#world.store.find("statefulsets", { namespace: metadata.namespace, name });
    return set !== undefined && wantsOrdinal(set, ordinalIn(metadata.name));
  }

  #isForsaken({ metadata }: StoredPod): boolean {
    const name = setNameOf(metadata.name);
    const set = this.#world.store.find("statefulsets", { namespace: metadata.namespace, name });
    return set === undefined && !this.workloads.missing().includes(name);
  }

  /** Ends every disturbance: what users want is sane again, and what was broken works. */
  makePeace(): void {
    const { namespace } = this.#options;
    for (const nodeName of [...this.#lost]) this.#recover(nodeName);
    for (const nodeName of this.#gone) this.#clear(nodeName);
    this.#budgets.makePeace();
    this.workloads.makePeace();
    for (const pod of this.#world.store.list("pods", { namespace }).items) {
      if (pod.metadata.deletionTimestamp !== undefined) continue;
      // Failed pods that nobody wants can hold up an OrderedReady scale-down for ever: somebody cleans up. So does somebody
      // where a StatefulSet has left pods behind and does not come back.
      if (pod.status.phase === "Failed" || this.#isForsaken(pod)) {
        this.#world.store.delete("pods", pod.metadata, {});
        continue;
      }
      const broken = brokenBy(pod) !== undefined;
      // A broken revision stays broken: replacing it is the rollout's work (rule R13).
      if (!broken || !this.#isWanted(pod)) this.#world.kubelet.healPod(pod.metadata);
    }
  }
}
