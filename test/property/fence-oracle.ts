/**
 * What must be true of a simulated fence at each write of its Node, its record and the Lease of its agent (A1, A2, A3, A5, A6,
 * A7).
 */
import { isDeepStrictEqual } from "node:util";
import { fenceTaint, outOfServiceTaint } from "../../functions/shared/annotations/fencing.ts";
import { agentName, recordName, slotsName } from "../../functions/shared/annotations/fencing-leases.ts";
import type { StoredTypes } from "../fake-cluster/objects.ts";
import type { Change } from "../fake-cluster/watch-log.ts";
import type { World } from "../fake-cluster/world.ts";

type StoredNode = StoredTypes["nodes"];
type StoredLease = StoredTypes["leases"];

type Texts = Readonly<Record<string, string | undefined>>;

/** What others have put on the Node. A fence leaves it as it is. */
export const foreign = {
  labels: { "example.com/rack": "7" },
  annotations: { "example.com/note": "kept" },
  taint: { key: "example.com/special", value: "yes", effect: "NoSchedule" },
} as const;

export interface Fenced {
  readonly name: string;
  /** The boot that runs now; undefined: the machine is off. */
  runningBoot(): string | undefined;
}

export class FenceOracle {
  readonly #world: World;
  readonly #namespace: string;
  readonly #fenced: Fenced;
  /** The first promise that was broken, with its id. */
  broken: string | undefined;
  /** The evidence by which the Node was evacuated. */
  evidence: string | undefined;
  isDeleted = false;

  constructor(world: World, namespace: string, fenced: Fenced) {
    this.#world = world;
    this.#namespace = namespace;
    this.#fenced = fenced;
    world.store.onChange("nodes", (change) => {
      if (change.final.metadata.name === fenced.name) this.#onNode(change);
    });
    world.store.onChange("leases", (change) => {
      const { name } = change.final.metadata;
      if (name === agentName(fenced.name)) this.#onAgent(change);
      if (name === recordName(fenced.name)) this.#onRecord(change);
    });
  }

  #node(): StoredNode | undefined {
    return this.#world.store.find("nodes", { namespace: "", name: this.#fenced.name });
  }

  #record(): Texts | undefined {
    return this.#lease(recordName(this.#fenced.name));
  }

  #lease(name: string): Texts | undefined {
    const lease = this.#world.store.find("leases", { namespace: this.#namespace, name });
    return lease && (lease.metadata.annotations ?? {});
  }

  #expect(id: string, isKept: boolean, message: string): void {
    if (!isKept) this.broken ??= `${id}: ${message}`;
  }

  #onNode({ previous, current }: Change<StoredNode>): void {
    const [before, taints] = [taintsOf(previous), taintsOf(current)];
    const { key } = outOfServiceTaint;
    if (current === undefined) {
      this.isDeleted = true;
      this.#onEvacuation(before, "the Node is deleted");
      this.#expect("A5", this.#record()?.["sluice.dev/node-backup"] !== undefined, "a Node is gone without a backup");
      return;
    }
    if (taints.includes(key) && !before.includes(key)) this.#onEvacuation(taints, `${key} is set`);
    const isOurs = taints.includes(fenceTaint.key);
    this.#expect("A6", !isOurs || this.#record() !== undefined, "a Node has our taint, and there is no record");
  }

  /** At the write that lets the pods start elsewhere. */
  #onEvacuation(taints: readonly string[], what: string): void {
    const record = this.#record() ?? {};
    const evidence = record["sluice.dev/fence-evidence"];
    this.evidence = evidence;
    const boot = this.#fenced.runningBoot();
    this.#expect("A1", boot !== record["sluice.dev/fence-boot-id"], `${what}, and the fenced boot runs`);
    this.#expect("A2", evidence !== undefined, `${what} without evidence`);
    this.#expect("A2", taints.includes(fenceTaint.key), `${what} on a Node without our taint`);
    this.#expect("A3", evidence !== "boot-id", `${what} after evidence by boot id`);
  }

  #onAgent({ previous, current }: Change<StoredLease>): void {
    const texts: Texts = current?.metadata.annotations ?? {};
    const armed = texts["sluice.dev/fence-armed"];
    if (armed === undefined || armed === previous?.metadata.annotations?.["sluice.dev/fence-armed"]) return;
    const node = this.#node();
    this.#expect("A2", node === undefined || taintsOf(node).includes(fenceTaint.key), "it is armed before the taint");
    const noted = JSON.parse(this.#record()?.["sluice.dev/fence-agent"] ?? "{}");
    const isSame =
      noted.bootId === texts["sluice.dev/agent-boot-id"] && noted.peers === texts["sluice.dev/agent-peers"];
    this.#expect("A1", isSame, "the record notes another boot or other peers than the Lease that was armed");
    const isOverrated = noted.mode === "armed" && texts["sluice.dev/agent-mode"] !== "armed";
    this.#expect(
      "A1",
      !isOverrated,
      "the record notes that the watchdog counts, and the Lease that was armed does not",
    );
  }

  #onRecord({ current }: Change<StoredLease>): void {
    const hasBackup = current?.metadata.annotations?.["sluice.dev/node-backup"] !== undefined;
    this.#expect("A5", hasBackup || this.#node() !== undefined, "a Node is gone, and its backup as well");
    if (current === undefined) this.#onEnd();
  }

  /** The record is the last that goes. */
  #onEnd(): void {
    const node = this.#node();
    const { annotations = {}, labels = {} } = node?.metadata ?? {};
    const ours = Object.keys(annotations).filter((key) => /^sluice\.dev\/(unhealthy|fence-(?!strategy))/.test(key));
    this.#expect("A6", ours.length === 0, `${ours.join(", ")} is left on the Node`);
    const taints = taintsOf(node).filter((key) => key !== foreign.taint.key);
    this.#expect("A6", taints.length === 0, `${taints.join(", ")} is left on the Node`);
    const armed = this.#lease(agentName(this.#fenced.name))?.["sluice.dev/fence-armed"];
    this.#expect("A6", armed === undefined, "the fence is left in the Lease of the agent");
    this.#expect("A6", !this.#hasSlot(), "its slot is taken");
    const isKept = (given: object, all: object) => isDeepStrictEqual({ ...all, ...given }, all);
    const isWhole = isKept(foreign.labels, labels) && isKept(foreign.annotations, annotations);
    this.#expect("A7", isWhole && taintsOf(node).includes(foreign.taint.key), "what others put on the Node is gone");
  }

  #hasSlot(): boolean {
    const { slots }: { slots: { readonly node: string }[] } = JSON.parse(
      this.#lease(slotsName)?.["sluice.dev/fence-slots"] ?? '{"slots":[]}',
    );
    return slots.some(({ node }) => node === this.#fenced.name);
  }
}

const taintsOf = (node: StoredNode | undefined): readonly string[] =>
  (node?.spec?.taints ?? []).map(({ key }: { readonly key: string }) => key);
