/**
 * The invariants of restarts, by what the processes did and what was in the ledger.
 *
 * P1: no process stops because of us while another one of the group is down because of us. P2: no process starts with other
 * files than its claim says. P3: at rest allocation is as the user had it, and neither a marker nor a claim is left. P4: a
 * restart starts one process of a pod, and stops only the process that its claim names. P5: no process of a pod stops that
 * leaves, or that another claim names. P6: each restart ends.
 */
import type { ProcessCall } from "../../../functions/advance-process-restart/process-manager/decide-call.ts";
import type { StoredPod } from "../../fake-cluster/objects.ts";
import type { World } from "../../fake-cluster/world.ts";
import { ordinalIn, setNameOf } from "../../support/checkers/raw.ts";
import { allocationKey, markerKey, type StandInDatabase } from "../../support/stand-in-database.ts";
import type { Checker, LedgerWrite } from "../checker.ts";
import type { SimulatedManager } from "./simulated-process.ts";

export const phaseKey = "elasticsearch.k8s.elastic.co/restart-phase";

interface RawClaim {
  readonly id: string;
  readonly kind: string;
  readonly zone: string;
  readonly members?: string;
  readonly sum?: string;
  readonly processes?: Readonly<Record<string, string>>;
}

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
  /** Claims by their ids: as they were first, and as they are. */
  readonly #first = new Map<string, RawClaim>();
  readonly #claims = new Map<string, RawClaim>();
  /** The claims of the ledger now. */
  #current: readonly RawClaim[] = [];
  /** Pods by name whose process is down because of us, with the uid. */
  readonly #down = new Map<string, string>();
  /** `UID ID` of each start. */
  readonly #started = new Map<string, number>();

  constructor(options: RestartsCheckerOptions) {
    this.#options = options;
    // A failed process stays down, whatever a person writes on its pod then, and a person may restart others meanwhile.
    options.world.store.onChange("pods", ({ final: { metadata } }) => {
      const isFailed = metadata.annotations?.[phaseKey] === "failed";
      if (isFailed && this.#down.get(metadata.name) === metadata.uid) this.#down.delete(metadata.name);
    });
  }

  onLedgerWritten({ lease }: LedgerWrite): void {
    const { namespace, ledger } = this.#options;
    if (lease.metadata.name !== ledger || lease.metadata.namespace !== namespace) return;
    const lines = (lease.metadata.annotations?.["sluice.dev/claims"] ?? "").split("\n").filter((line) => line !== "");
    this.#current = lines.map((line) => JSON.parse(line) as RawClaim);
    for (const claim of this.#current) {
      if (!this.#first.has(claim.id)) this.#first.set(claim.id, claim);
      this.#claims.set(claim.id, claim);
    }
  }

  onStop(pod: StoredPod, call: ProcessCall, processId: string | undefined): void {
    const { violate, world } = this.#options;
    const { name, uid, deletionTimestamp } = pod.metadata;
    const claim = this.#first.get(call.restartId);
    if (claim === undefined) violate("P4", `${name} stops, and no ledger has had the claim ${call.restartId}`);
    // A claim that was made while the runner was away names no process. Then a process that this restart has started is newer.
    const named = claim?.processes?.[name];
    const isNewer = named === "" ? this.#started.has(`${uid} ${call.restartId}`) : named !== processId;
    if (processId !== undefined && named !== undefined && isNewer)
      violate("P4", `${call.restartId} stops ${processId} of ${name}, and its claim names ${named || "none"}`);
    const leavesMs = deletionTimestamp === undefined ? 0 : world.timeline.nowMs() - Date.parse(deletionTimestamp);
    if (leavesMs > knownAfterMs) violate("P5", `${call.restartId} stops ${name}, which leaves`);
    const other = this.#current.find((one) => one.id !== call.restartId && namesPod(one, name));
    if (other !== undefined) violate("P5", `${call.restartId} stops ${name}, which is of the claim ${other.id}`);
    const others = [...this.#down].filter(([other, of]) => other !== name && this.#isDown(other, of));
    if (others.length > 0) violate("P1", `${name} stops while ${others.map(([other]) => other).join(", ")} is down`);
    this.#down.set(name, uid);
  }

  onStarted({ metadata: { name, uid } }: StoredPod, call: ProcessCall, sum: string | undefined): void {
    const { violate } = this.#options;
    const claimed = this.#claims.get(call.restartId)?.sum;
    if (claimed !== undefined && sum !== claimed)
      violate("P2", `${name} starts with ${sum}, and its claim says ${claimed}`);
    const starts = (this.#started.get(`${uid} ${call.restartId}`) ?? 0) + 1;
    this.#started.set(`${uid} ${call.restartId}`, starts);
    if (starts > 1) violate("P4", `${call.restartId} starts a second process of ${name}`);
  }

  /** A process that is back and a member is no longer down because of us; nor is one whose restart has failed. */
  #isDown(name: string, uid: string): boolean {
    const { world, namespace, managerOf, database } = this.#options;
    const pod = world.store.find("pods", { namespace, name });
    if (pod === undefined || pod.metadata.uid !== uid) return false;
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

function namesPod({ zone, members = "" }: RawClaim, pod: string): boolean {
  if (zone !== setNameOf(pod)) return false;
  return members.split(",").some((part) => {
    const [first = 0, last = first] = part.split("-").map(Number);
    return ordinalIn(pod) >= first && ordinalIn(pod) <= last;
  });
}
