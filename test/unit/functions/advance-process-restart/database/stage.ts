/** A group whose processes are nodes of a stand-in database: a node is a member while its process runs. */
import type { Delivery } from "../../../../../functions/shared/http/calls.ts";
import type { StoredPod } from "../../../../fake-cluster/objects.ts";
import type { PodReply } from "../../../../fake-cluster/pod-http.ts";
import { allocationKey, markerKey, StandInDatabase } from "../../../../support/stand-in-database.ts";
import { namespace } from "../../../shared/reconcile/harness.ts";
import { RestartStage } from "../stage.ts";

export const annotations = {
  "sluice.dev/restart-database": "opensearch",
  "sluice.dev/restart-database-url": "http://:9200",
};

const podNames: readonly string[] = ["group-a-0", "group-a-1", "group-a-2"];

export class DatabaseStage extends RestartStage {
  readonly standIn: StandInDatabase;
  /** The writes of the function: `leases PHASE`, `pods`, `PUT`, `POST /_flush`, `POST /es/stop`. */
  readonly writes: string[] = [];
  /** The number of writes after which the function is dead: no request of it goes out. */
  mostWrites = Number.POSITIVE_INFINITY;
  /** True: no node of the database answers. */
  isSilent = false;

  /** `elsewhere`: nodes that run in no pod. */
  constructor(elsewhere: readonly string[] = []) {
    super(annotations);
    this.standIn = new StandInDatabase([...podNames, ...elsewhere]);
    this.interfere = ({ verb, resource, given }) => {
      if (this.isDead) throw new Error("killed");
      if (verb === "patch") this.writes.push(`${resource}${phaseIn(given)}`);
    };
  }

  get isDead(): boolean {
    return this.writes.length >= this.mostWrites;
  }

  /** Another process of the function takes the place of the dead one. */
  takeOver(): void {
    this.mostWrites = Number.POSITIVE_INFINITY;
    this.anew();
  }

  /** Steps of a function until it is dead. */
  async untilDead(most = 40): Promise<void> {
    for (let steps = 0; !this.isDead && steps < most; steps++) await this.step().catch(() => {});
    if (!this.isDead) throw new Error(`alive after ${this.writes.join(", ")}`);
  }

  override answer(pod: StoredPod, delivery: Delivery): PodReply {
    const { method, path, headers, body = "" } = delivery;
    if (this.isDead) return "break";
    if (method !== "GET") this.writes.push(`${method} ${path}`);
    if (delivery.port !== 9200) return super.answer(pod, delivery);
    if (this.isSilent) return "break";
    const { name, uid } = pod.metadata;
    for (const node of this.standIn.nodes) node.isUp = !podNames.includes(node.name) || this.#runs(node.name);
    if (this.managerOf(uid).state !== "started") return "break";
    return this.standIn.answer(name, { method, path, headers, body });
  }

  /** Not while no pod has its name. */
  #runs(name: string): boolean {
    const pod = this.world.store.find("pods", { namespace, name });
    return pod !== undefined && this.managerOf(pod.metadata.uid).state === "started";
  }

  /** The settings that stand now: the value, and the marker. */
  get allocation(): readonly (string | undefined)[] {
    return [this.standIn.persistent[allocationKey], this.standIn.persistent[markerKey]];
  }
}

/** The phase of the claim that a write of a ledger has; empty for other writes. */
function phaseIn(given: readonly unknown[]): string {
  const found = /\\"phase\\":\\"(\w+)\\"/.exec(JSON.stringify(given));
  return found === null ? "" : ` ${found[1]}`;
}
