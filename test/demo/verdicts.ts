/** Why the rollout waits, by Sluice's own message: the log has it at once, and the group's ledger keeps it for all readers. */
import { parseLedger } from "../../functions/shared/ledger/contents.ts";
import type { RecordedVerdict, Reservation } from "../../functions/shared/ledger/reservation.ts";
import type { World } from "../fake-cluster/world.ts";
import type { Journal } from "../support/journal.ts";
import { groupName, namespace } from "../support/served-group.ts";
import type { LogLine } from "./sluice.ts";

export interface ReportedVerdict {
  readonly guard: string;
  /** The StatefulSet that it concerns, or "" if it concerns several. */
  readonly zone: string;
  readonly message: string;
}

/** Guards that every zone of a healthy rollout reports for pod after pod. */
const rollingGuards: ReadonlySet<string> = new Set(["rolling", "budget"]);
/** While Sluice alternates between two verdicts, because a watch and a list differ, neither is repeated sooner than this. */
const repeatAfterMs = 5_000;
export const advanceZoneRollout = "advance-zone-rollout";

export class Verdicts {
  readonly #journal: Journal;
  #now: ReportedVerdict | undefined;
  #recorded: RecordedVerdict | undefined;
  #reservations: readonly Reservation[] = [];
  #recordedAtMs = 0;
  readonly #journalledMs = new Map<string, number>();

  constructor(world: World, journal: Journal) {
    this.#journal = journal;
    const key = { namespace, group: groupName };
    world.store.onChange("leases", ({ current }) => {
      if (current === undefined) return;
      const ledger = parseLedger(key, current);
      this.#reservations = ledger.reservations;
      this.#noteLedger(ledger.verdicts[advanceZoneRollout]);
    });
  }

  /** The last reported verdict. */
  get now(): ReportedVerdict | undefined {
    return this.#now;
  }

  /** The verdict in the ledger, which `kubectl` shows in the Lease's annotation `sluice.dev/verdicts`. */
  get recorded(): RecordedVerdict | undefined {
    return this.#recorded;
  }

  /** When the ledger got it, by the journal's clock. */
  get recordedAtMs(): number {
    return this.#recordedAtMs;
  }

  get reservations(): readonly Reservation[] {
    return this.#reservations;
  }

  /** True while Sluice does not roll although pods are outdated. */
  get waits(): boolean {
    return this.#now !== undefined && this.#now.guard !== "done" && !rollingGuards.has(this.#now.guard);
  }

  noteLog({ msg, guard, zone }: LogLine): void {
    if (guard !== undefined) this.#note({ guard, zone: zone ?? "", message: msg });
  }

  #noteLedger(recorded: RecordedVerdict | undefined): void {
    if (recorded === undefined || recorded.at === this.#recorded?.at) return;
    this.#recorded = recorded;
    this.#recordedAtMs = this.#journal.nowMs;
    this.#record("the ledger says ", { ...recorded, message: recorded.sentence });
  }

  #note(reported: ReportedVerdict): void {
    this.#now = reported;
    this.#record("", reported);
  }

  #record(introduction: string, { guard, zone, message }: ReportedVerdict): void {
    const isRolling = rollingGuards.has(guard);
    if (isRolling && introduction !== "") return;
    const state = `${introduction}${isRolling ? "rolling" : guard} ${zone}`;
    const { nowMs } = this.#journal;
    const reportedMs = this.#journalledMs.get(state);
    this.#journalledMs.set(state, nowMs);
    if (reportedMs !== undefined && nowMs - reportedMs < repeatAfterMs) return;
    this.#journal.add(zone, `${introduction}${guard}: ${message}`);
  }
}
