/**
 * The barriers of restarts of many: which processes must be down before the first one starts.
 *
 * These are the processes of all pods that a claim has named, and of the members' pods that stood when the files were fixed. A
 * pod that was made later starts with the files of the restart, and counts as soon as a claim names it. A member that a person
 * takes out no longer counts. A restart that was withdrawn has no barrier.
 */
import type { StoredPod } from "../../fake-cluster/objects.ts";
import type { World } from "../../fake-cluster/world.ts";
import { namesPod, phaseKey, type RawClaim, stemOf } from "./raw-claims.ts";
import type { SimulatedManager } from "./simulated-process.ts";

export interface BarriersOptions {
  readonly world: World;
  readonly namespace: string;
  readonly managerOf: (pod: StoredPod) => SimulatedManager;
  /** Whether a restart has started a process of the pod of this uid. */
  readonly hasStarted: (restartId: string, uid: string) => boolean;
}

interface Barrier {
  claims: readonly RawClaim[];
  isFixed: boolean;
  isWithdrawn: boolean;
  /** Names of the pods that must be down, by uid. */
  readonly members: Map<string, string>;
  readonly out: Set<string>;
  /** By uid the members whose phase was off at some time: a person may write another one before the claim goes. */
  readonly off: Set<string>;
}

export class Barriers {
  readonly #options: BarriersOptions;
  readonly #barriers = new Map<string, Barrier>();

  constructor(options: BarriersOptions) {
    this.#options = options;
  }

  /** Notes what a ledger says now. Returns the names of pods that were taken out of a restart that goes on. */
  note(claims: readonly RawClaim[]): readonly string[] {
    const coordinated = claims.filter(({ mode }) => mode === "coordinated");
    const byStem = Object.groupBy(coordinated, stemOf);
    const left = Object.entries(byStem).flatMap(([stem, some = []]) => this.#noteOne(stem, some));
    const gone = [...this.#barriers].flatMap(([stem, one]) => (byStem[stem] === undefined ? [one] : []));
    return [...left, ...gone.flatMap((one) => this.#noteGone(one))];
  }

  /** Notes what a pod shows now. */
  notePod({ metadata: { uid, annotations } }: StoredPod): void {
    if (annotations?.[phaseKey] !== undefined) return;
    for (const { claims, members, off } of this.#barriers.values())
      if (claims.length > 0 && members.has(uid)) off.add(uid);
  }

  /** With the last member its claim goes. A member that a person has taken out has shown no phase by then, and any other has. */
  #noteGone(barrier: Barrier): readonly string[] {
    if (barrier.claims.length === 0) return [];
    barrier.claims = [];
    return this.#pods()
      .filter(({ metadata }) => barrier.off.has(metadata.uid))
      .map(({ metadata }) => metadata.name);
  }

  #noteOne(stem: string, claims: readonly RawClaim[]): readonly string[] {
    const none = { claims: [], isFixed: false, isWithdrawn: false };
    const barrier = this.#barriers.get(stem) ?? { ...none, members: new Map(), out: new Set(), off: new Set() };
    this.#barriers.set(stem, barrier);
    barrier.claims = claims;
    if (claims.some(({ phase }) => phase === "withdrawing")) barrier.isWithdrawn = true;
    const isNamed = (pod: string) => claims.some((claim) => namesPod(claim, pod));
    const left = [...barrier.members].filter(([, pod]) => !isNamed(pod));
    for (const [uid] of left) {
      barrier.members.delete(uid);
      barrier.out.add(uid);
    }
    for (const { uids = {} } of claims) for (const [pod, uid] of Object.entries(uids)) barrier.members.set(uid, pod);
    if (!barrier.isFixed && claims.every(({ phase }) => phase !== "preparing")) {
      barrier.isFixed = true;
      for (const { metadata } of this.#pods())
        if (isNamed(metadata.name)) barrier.members.set(metadata.uid, metadata.name);
    }
    return left.map(([, pod]) => pod);
  }

  #pods(): readonly StoredPod[] {
    const { world, namespace } = this.#options;
    return world.store.list("pods", { namespace }).items;
  }

  /** True for a pod that a person has taken out of the restart. */
  isOut(restartId: string, uid: string): boolean {
    return this.#barriers.get(restartId)?.out.has(uid) ?? false;
  }

  /** The pod of a member whose process still runs as it ran before the restart; undefined if all are down. */
  runningBefore(restartId: string): string | undefined {
    const { managerOf, hasStarted } = this.#options;
    const barrier = this.#barriers.get(restartId);
    if (barrier === undefined || barrier.isWithdrawn) return undefined;
    const running = this.#pods().find(
      (pod) =>
        barrier.members.has(pod.metadata.uid) && !hasStarted(restartId, pod.metadata.uid) && managerOf(pod).isRunning,
    );
    return running?.metadata.name;
  }
}
