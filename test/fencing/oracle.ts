/** What must be true of each fence, by the records of the function, the journals of the pods and the machines themselves. */
import { follow } from "../controlplane/follow.ts";
import { type FencingCluster, type LeaseObject, namespace } from "./cluster.ts";
import type { Machine } from "./machine.ts";

/** A fence that goes on has a step, a wait of T or a reason by then: T is 6.5 s here, and the function sweeps every 10 s. */
const silentForMs = 18_000;
const key = (name: string) => `sluice.dev/${name}`;

export interface SeenFence {
  readonly id: string;
  readonly node: string;
  readonly bootId: string;
  phase: string;
  /** What it waits for. */
  cause: string | undefined;
  evidence: string | undefined;
  /** When its record changed last, of `performance.now()`. */
  changedMs: number;
  isOver: boolean;
}

interface RecordLease extends LeaseObject {
  readonly metadata: LeaseObject["metadata"] & { readonly name: string };
}

export class FenceOracle {
  readonly violations: string[] = [];
  /** Two nodes have run a pod of one name. */
  hasOverlap = false;
  readonly #cluster: FencingCluster;
  readonly #note: (line: string) => void;
  readonly #fences = new Map<string, SeenFence>();
  /** The fences of the records that there are, by the uid of the record. */
  readonly #open = new Map<string, SeenFence>();
  readonly #uids = new Map<string, string>();
  readonly #stopping = new AbortController();
  readonly #resetsBefore = new Map<string, number>();
  readonly #starvationsBefore = new Map<string, number>();

  private constructor(cluster: FencingCluster, note: (line: string) => void) {
    this.#cluster = cluster;
    this.#note = note;
  }

  /** @param note gets a line for each change of a fence */
  static async follow(cluster: FencingCluster, note: (line: string) => void): Promise<FenceOracle> {
    const oracle = new FenceOracle(cluster, note);
    const path = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases?labelSelector=${key("fence-record")}=true`;
    const gone = (uid: string) => oracle.#end(uid);
    await follow<RecordLease>(
      cluster.api,
      { path, known: oracle.#open, seen: (one) => oracle.#seen(one), gone },
      oracle.#stopping.signal,
    );
    for (const { name } of cluster.machines) oracle.#uids.set(name, (await cluster.node(name)).metadata.uid);
    return oracle;
  }

  /** Before the cluster stops. */
  stop(): void {
    this.#stopping.abort();
  }

  /** Forgets what an earlier script has shown. */
  begin(): void {
    this.violations.length = 0;
    this.hasOverlap = false;
    this.#fences.clear();
    for (const machine of this.#cluster.machines) {
      this.#resetsBefore.set(machine.name, machine.resets.length);
      this.#starvationsBefore.set(machine.name, starvationsOf(machine));
    }
  }

  get fences(): readonly SeenFence[] {
    return [...this.#fences.values()];
  }

  get resets(): number {
    return this.#cluster.machines.reduce((sum, { name, resets }) => sum + resets.length - this.#before(name), 0);
  }

  #before(node: string): number {
    return this.#resetsBefore.get(node) ?? 0;
  }

  #violate(message: string): void {
    if (this.violations.includes(message)) return;
    this.violations.push(message);
    this.#note(`BROKEN ${message}`);
  }

  #seen({ metadata }: RecordLease): void {
    const text = (name: string) => metadata.annotations?.[key(name)];
    const [id, bootId, phase] = [text("fence-id") ?? "", text("fence-boot-id") ?? "", text("fence-phase") ?? ""];
    const node = metadata.name.replace(/^fence-/, "");
    const before = this.#open.get(metadata.uid);
    if (before !== undefined && before.id !== id) before.isOver = true;
    const known = before?.id === id ? before : undefined;
    const fence = known ?? {
      id,
      node,
      bootId,
      phase,
      cause: undefined,
      evidence: undefined,
      changedMs: 0,
      isOver: false,
    };
    const [cause, evidence] = [text("fence-hold"), text("fence-evidence")];
    const isSame = known?.phase === phase && known.cause === cause && known.evidence === evidence;
    if (evidence === "time" && fence.evidence !== "time") this.#checkReset(fence);
    Object.assign(fence, { phase, cause, evidence, changedMs: performance.now() });
    this.#open.set(metadata.uid, fence);
    this.#fences.set(id, fence);
    if (!isSame) this.#note([`fence of ${node}: ${phase}`, cause ?? "", evidence ?? ""].filter(Boolean).join(", "));
  }

  #end(uid: string): void {
    const fence = this.#open.get(uid);
    this.#open.delete(uid);
    if (fence === undefined) return;
    fence.isOver = true;
    this.#note(`fence of ${fence.node}: over`);
  }

  /** The function has known this for some milliseconds: a boot that is reset in these is missed, and none is blamed wrongly. */
  #checkReset({ node, bootId }: SeenFence): void {
    const machine = this.#cluster.machine(node);
    if (machine.isOn && machine.bootId === bootId)
      this.#violate(`A1: time is evidence, but the fenced boot of ${node} was not reset`);
  }

  checkOverlaps(): void {
    for (const overlap of this.#cluster.overlaps) {
      this.#violate(overlap);
      this.hasOverlap = true;
    }
  }

  /**
   * Each fence that does not go on names a reason (L1).
   *
   * @param sinceMs since when the function has been able to run
   */
  checkCauses(sinceMs: number): void {
    for (const { node, phase, cause, changedMs } of this.#open.values()) {
      const isSilent = performance.now() - Math.max(changedMs, sinceMs) > silentForMs;
      if (cause === undefined && (phase === "claimed" || phase === "armed") && isSilent)
        this.#violate(`L1: the fence of ${node} is ${phase}, and names no reason`);
    }
  }

  /**
   * What the end of a script shows.
   *
   * @param blameless the nodes that nothing happened to: they were not marked, cut off or paused
   */
  async conclude(blameless: readonly string[]): Promise<void> {
    this.checkOverlaps();
    for (const { node, isOver } of this.#fences.values())
      if (!isOver) this.#violate(`L1: the fence of ${node} did not end`);
    for (const machine of this.#cluster.machines) {
      const { name } = machine;
      const uid = await this.#cluster.node(name).then(
        ({ metadata }) => metadata.uid,
        () => undefined,
      );
      if (uid !== this.#uids.get(name)) this.#violate(`the Node ${name} is lost`);
      const isReset = machine.resets.length > this.#before(name);
      if (blameless.includes(name) && isReset && starvationsOf(machine) > (this.#starvationsBefore.get(name) ?? 0))
        this.#violate(`A8: the agent of ${name} stopped to feed, though nothing had happened to it`);
      for (const id of resetTwice(machine.log, this.#fences))
        this.#violate(`A8: ${name} was reset twice for fence ${id}`);
    }
  }
}

/** How often its agents have decided to starve the watchdog. Without a decision, a busy machine has starved the agent itself. */
const starvationsOf = ({ log }: Machine): number => log.split("the watchdog is not fed any more").length - 1;

/** The fences for which the agents of two boots have stopped. */
function resetTwice(log: string, fences: ReadonlyMap<string, SeenFence>): readonly string[] {
  const boots = log.split(/^-- .* reset by .* --$/m);
  const stopped = (id: string) =>
    boots.filter((boot) => boot.includes(`fence ${id} is armed for this boot: the watchdog`));
  return [...fences.keys()].filter((id) => stopped(id).length > 1);
}
