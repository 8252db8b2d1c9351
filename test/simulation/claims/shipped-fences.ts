/** Fences by processes of the shipped function, of nodes that users mark, and whose machines reset or stay off. */

import { fenceNode } from "../../../functions/fence-node/function.ts";
import { nodeOfRecord, slotsName } from "../../../functions/shared/annotations/fencing-leases.ts";
import { fenceSlots } from "../../../functions/shared/annotations/fencing-slots.ts";
import { read } from "../../../functions/shared/annotations/table.ts";
import type { Context } from "../../../functions/shared/contract/context.ts";
import { ClusterError } from "../../../functions/shared/kubernetes/cluster.ts";
import type { World } from "../../fake-cluster/world.ts";
import type { Draw } from "../draw.ts";

const fencing = "sluice-fencing";
const outOfService = "node.kubernetes.io/out-of-service";

export interface MachinesOptions {
  readonly world: World;
  readonly draw: Draw;
  readonly namespace: string;
  readonly isActive: () => boolean;
  readonly everyMs: number;
  /** Called when a machine resets itself because of a fence. */
  readonly onFenced: (id: string, node: string) => void;
  readonly log: (what: string) => void;
}

interface Boot {
  boots: number;
  isOn: boolean;
}

/** The machines of the nodes that have pods: each has an agent that resets it, and a kubelet that reports its boots. */
export class Machines {
  readonly #options: MachinesOptions;
  readonly #machines = new Map<string, Boot>();

  constructor(options: MachinesOptions) {
    this.#options = options;
    options.world.store.onChange("leases", ({ final }) => {
      if (final.metadata.namespace === fencing) this.#resetArmed();
    });
    this.#again();
  }

  #again(): void {
    const { world, draw, everyMs } = this.#options;
    world.timeline.after(everyMs * draw.between(0.5, 2), () => {
      this.#repair();
      this.#mark();
      this.#again();
    });
  }

  /** A person takes the mark off a node that was fenced too often within an hour. */
  #repair(): void {
    const { world, log } = this.#options;
    for (const { metadata } of world.store.list("leases", { namespace: fencing }).items) {
      const name = nodeOfRecord(metadata.name);
      if (name === undefined || metadata.annotations?.["sluice.dev/fence-hold"] !== "loop") continue;
      world.store.patch(
        "nodes",
        { namespace: "", name },
        { metadata: { annotations: { "sluice.dev/unhealthy": null } } },
      );
      log(`${name} is repaired`);
    }
  }

  /** A user marks one node at a time. */
  #mark(): void {
    const { world, draw, namespace, isActive, log } = this.#options;
    const { store } = world;
    const isUnderWay = store
      .list("leases", { namespace: fencing })
      .items.some(({ metadata: { name } }) => nodeOfRecord(name) !== undefined);
    const names = store.list("pods", { namespace }).items.flatMap(({ spec }) => spec.nodeName ?? []);
    if (!isActive() || isUnderWay || names.length === 0) return;
    for (const name of names) this.#machineOf(name);
    const name = draw.pick(names);
    store.patch("nodes", { namespace: "", name }, { metadata: { annotations: { "sluice.dev/unhealthy": "silent" } } });
    log(`marks ${name}`);
  }

  #machineOf(name: string): Boot {
    const known = this.#machines.get(name);
    if (known !== undefined) return known;
    const machine = { boots: 1, isOn: true };
    this.#machines.set(name, machine);
    const { store } = this.#options.world;
    store.create("nodes", "", { metadata: { name } });
    this.#report(name, machine);
    const annotations = {
      "sluice.dev/agent-mode": "explicit-only",
      "sluice.dev/agent-boot-id": `boot-${machine.boots}`,
    };
    store.create("leases", fencing, { metadata: { name: `agent-${name}`, annotations } });
    return machine;
  }

  #report(name: string, { boots, isOn }: Boot): void {
    const nodeInfo = { bootID: `boot-${boots}`, systemUUID: `machine-${name}` };
    const status = { nodeInfo, conditions: [{ type: "Ready", status: isOn ? "True" : "Unknown" }] };
    this.#options.world.store.patch("nodes", { namespace: "", name }, { status }, "status");
  }

  #resetArmed(): void {
    const { world, draw, onFenced, log } = this.#options;
    for (const [name, machine] of this.#machines) {
      const lease = world.store.find("leases", { namespace: fencing, name: `agent-${name}` });
      const [id = "", boot] = (lease?.metadata.annotations?.["sluice.dev/fence-armed"] ?? "").split(" ");
      if (!machine.isOn || boot !== `boot-${machine.boots}`) continue;
      machine.isOn = false;
      onFenced(id, name);
      const staysOff = draw.chance(0.4);
      log(`${name} resets itself${staysOff ? " and stays off" : ""}`);
      world.timeline.after(0, () => {
        world.kubelet.loseNode(name);
        this.#report(name, machine);
      });
      if (staysOff) world.timeline.after(draw.between(1_000, 10_000), () => this.#confirm(name, id));
      world.timeline.after(draw.between(5_000, 20_000) + (staysOff ? 60_000 : 0), () => this.#boot(name, machine));
    }
  }

  #confirm(name: string, id: string): void {
    const annotations = { "sluice.dev/fence-confirmed": id };
    this.#options.world.store.patch("nodes", { namespace: "", name }, { metadata: { annotations } });
  }

  #boot(name: string, machine: Boot): void {
    const { world, log } = this.#options;
    machine.boots++;
    machine.isOn = true;
    const annotations = { "sluice.dev/agent-boot-id": `boot-${machine.boots}` };
    world.store.patch("leases", { namespace: fencing, name: `agent-${name}` }, { metadata: { annotations } });
    this.#report(name, machine);
    world.kubelet.recoverNode(name);
    log(`${name} is back`);
  }

  /** What machines and fences still need before the world is done. */
  missing(): string | undefined {
    const { store } = this.#options.world;
    const leases = store.list("leases", { namespace: fencing }).items;
    const record = leases.find(({ metadata: { name } }) => nodeOfRecord(name) !== undefined);
    if (record !== undefined) return `the record ${record.metadata.name} is there`;
    const slots = leases.find(({ metadata: { name } }) => name === slotsName);
    if (((slots && read(fenceSlots, slots.metadata))?.slots.length ?? 0) > 0) return "a slot is taken";
    const tainted = store.list("nodes").items.find(({ spec }) => {
      return (spec?.taints ?? []).some(({ key }) => key === "sluice.dev/fence" || key === outOfService);
    });
    return tainted === undefined ? undefined : `${tainted.metadata.name} has the taint of a fence that is over`;
  }
}

/** One process of the function: it reconciles the nodes that are due, again and again, until it is dead. */
export async function fenceOn(context: Context, draw: Draw, everyMs: number): Promise<void> {
  for (;;) {
    try {
      for (const key of await fenceNode.listKeys(context, undefined))
        await fenceNode.reconcile(context, key, { sweep: false });
    } catch (error) {
      if (!(error instanceof ClusterError)) throw error;
    }
    await context.cluster.sleep(everyMs * draw.between(0.5, 1.5));
  }
}
