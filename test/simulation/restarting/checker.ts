/**
 * The invariants of restarts, by what the processes did and what was in the ledger.
 *
 * P1: no process stops because of us while one of another restart is down because of us, parked ones apart, and none of a
 * restart of many starts before all of its members are down. P2: no process starts with other files than its claim says. P3: at
 * rest allocation is as the user had it, and neither a marker nor a claim is left. P4: a restart starts one process of a pod,
 * and stops only the process that its claim names. P5: no process of a pod stops that leaves, or that another claim names. P6:
 * each restart ends.
 */
import type { ProcessCall } from "../../../functions/advance-process-restart/process-manager/decide-call.ts";
import type { StoredPod } from "../../fake-cluster/objects.ts";
import type { World } from "../../fake-cluster/world.ts";
import { setNameOf } from "../../support/checkers/raw.ts";
import { allocationKey, markerKey, type StandInDatabase } from "../../support/stand-in-database.ts";
import type { Checker, LedgerWrite } from "../checker.ts";
import { Barriers } from "./barriers.ts";
import { namesPod, phaseKey, type RawClaim, readClaims, stemOf } from "./raw-claims.ts";
import type { SimulatedManager } from "./simulated-process.ts";

/** A pod whose deletion began so long ago must be known to leave, in milliseconds. */
const knownAfterMs = 15_000;

export interface RestartsCheckerOptions {
  readonly world: World;
  readonly namespace: string;
  readonly ledger: string;
  readonly database: StandInDatabase;
  readonly managerOf: (pod: StoredPod) => SimulatedManager;
  /** The value that the user has set; `lost` if a call of ours was under way meanwhile. */
  readonly wanted: () => string | undefined | "lost";
  readonly violate: (invariant: string, message: string) => void;
}

export class RestartsChecker implements Checker {
  readonly invariants = ["P1", "P2", "P3", "P4", "P5", "P6"];
  readonly #options: RestartsCheckerOptions;
  readonly #barriers: Barriers;
  /** The process that each claim named first, by `STEM UID`: empty for a pod that ran none. */
  readonly #named = new Map<string, string>();
  /** The last content of each claim, by `STEM ZONE`. */
  readonly #claims = new Map<string, RawClaim>();
  /** The claims of the ledger now. */
  #current: readonly RawClaim[] = [];
  /** Pods by name whose process is down because of us. */
  readonly #down = new Map<string, { readonly uid: string; readonly restartId: string }>();
  /** Stems of claims whose process a user has parked: it may be down for as long as the user likes. */
  readonly #parked = new Set<string>();
  /** How often a restart has started a process, by `STEM UID`. */
  readonly #started = new Map<string, number>();

  constructor(options: RestartsCheckerOptions) {
    this.#options = options;
    const hasStarted = (restartId: string, uid: string) => this.#started.has(`${restartId} ${uid}`);
    this.#barriers = new Barriers({ ...options, hasStarted });
    // A failed process stays down, whatever a person writes on its pod then, and a person may restart others meanwhile.
    options.world.store.onChange("pods", ({ final }) => {
      this.#barriers.notePod(final);
      const { metadata } = final;
      const isFailed = metadata.annotations?.[phaseKey] === "failed";
      if (isFailed && this.#down.get(metadata.name)?.uid === metadata.uid) this.#down.delete(metadata.name);
    });
  }

  onLedgerWritten({ lease }: LedgerWrite): void {
    const { namespace, ledger } = this.#options;
    if (lease.metadata.name !== ledger || lease.metadata.namespace !== namespace) return;
    this.#current = readClaims(lease);
    for (const claim of this.#current) {
      const stem = stemOf(claim);
      this.#claims.set(`${stem} ${claim.zone}`, claim);
      if (claim.mode === "parked" && claim.phase === "parked") this.#parked.add(stem);
      for (const [pod, uid] of Object.entries(claim.uids ?? {})) {
        const key = `${stem} ${uid}`;
        if (!this.#named.has(key)) this.#named.set(key, claim.processes?.[pod] ?? "");
      }
    }
    // A person has taken them out, whatever their processes do.
    for (const pod of this.#barriers.note(this.#current)) this.#down.delete(pod);
  }

  /** The sum that the last claim of a restart names for the processes of a StatefulSet. */
  claimedSum(restartId: string, set: string): string | undefined {
    return this.#claims.get(`${restartId} ${set}`)?.sum;
  }

  onStop(pod: StoredPod, { restartId }: ProcessCall, processId: string | undefined): void {
    const { violate, world } = this.#options;
    const { name, uid, deletionTimestamp } = pod.metadata;
    const claim = this.#claims.get(`${restartId} ${setNameOf(name)}`);
    if (claim === undefined) violate("P4", `${name} stops, and no ledger has had the claim ${restartId}`);
    // A claim that was made while the runner was away names no process. Then a process that this restart has started is newer.
    const named = this.#named.get(`${restartId} ${uid}`);
    const isNewer = named === "" ? this.#started.has(`${restartId} ${uid}`) : named !== processId;
    if (processId !== undefined && named !== undefined && isNewer)
      violate("P4", `${restartId} stops ${processId} of ${name}, and its claim names ${named || "none"}`);
    const leavesMs = deletionTimestamp === undefined ? 0 : world.timeline.nowMs() - Date.parse(deletionTimestamp);
    if (leavesMs > knownAfterMs) violate("P5", `${restartId} stops ${name}, which leaves`);
    const other = this.#current.find((one) => stemOf(one) !== restartId && namesPod(one, name));
    if (other !== undefined) violate("P5", `${restartId} stops ${name}, which is of the claim ${other.id}`);
    const others = [...this.#down].filter(([other, of]) => other !== name && this.#isDownBesides(restartId, other, of));
    if (others.length > 0) violate("P1", `${name} stops while ${others.map(([other]) => other).join(", ")} is down`);
    if (!this.#barriers.isOut(restartId, uid)) this.#down.set(name, { uid, restartId });
  }

  /** The runner has read a call, and will start the process. */
  onStart({ metadata: { name } }: StoredPod, { restartId }: ProcessCall): void {
    const running = this.#barriers.runningBefore(restartId);
    if (running !== undefined) this.#options.violate("P1", `${restartId} starts ${name} while ${running} still runs`);
  }

  onStarted({ metadata: { name, uid } }: StoredPod, { restartId }: ProcessCall, sum: string | undefined): void {
    const { violate } = this.#options;
    const claimed = this.#claims.get(`${restartId} ${setNameOf(name)}`)?.sum;
    if (claimed !== undefined && sum !== claimed)
      violate("P2", `${name} starts with ${sum}, and its claim says ${claimed}`);
    const starts = (this.#started.get(`${restartId} ${uid}`) ?? 0) + 1;
    this.#started.set(`${restartId} ${uid}`, starts);
    if (starts > 1) violate("P4", `${restartId} starts a second process of ${name}`);
  }

  /** Its node is a member of the database again: what stops it from now on is another restart. */
  onJoined(pod: StoredPod): void {
    const { name, uid } = pod.metadata;
    const isBack = this.#options.managerOf(pod).state === "started";
    if (isBack && this.#down.get(name)?.uid === uid) this.#down.delete(name);
  }

  /** A process that is back and a member is no longer down because of us; nor is one whose restart has failed. */
  #isDownBesides(restartId: string, name: string, down: { readonly uid: string; readonly restartId: string }): boolean {
    const { world, namespace, managerOf, database } = this.#options;
    const pod = world.store.find("pods", { namespace, name });
    if (
      down.restartId === restartId ||
      this.#parked.has(down.restartId) ||
      pod === undefined ||
      pod.metadata.uid !== down.uid
    )
      return false;
    const { isRunning, state } = managerOf(pod);
    return !isRunning || state !== "started" || !database.node(name).isMember;
  }

  missing(): string | undefined {
    const { world, namespace, managerOf, database, wanted } = this.#options;
    const pods = world.store.list("pods", { namespace }).items;
    const shown = pods.find(({ metadata }) => metadata.annotations?.[phaseKey] !== undefined);
    if (shown !== undefined) return `${shown.metadata.name} shows a phase (P6)`;
    const stopped = pods.find((pod) => managerOf(pod).state !== "started");
    if (stopped !== undefined) return `the process of ${stopped.metadata.name} does not run (P6)`;
    const marker = database.persistent[markerKey];
    if (marker !== undefined) return `the database has the marker ${marker} (P3)`;
    const [value, expected] = [database.persistent[allocationKey], wanted()];
    return expected === "lost" || expected === value ? undefined : `allocation is ${value}, not ${expected} (P3)`;
  }
}
