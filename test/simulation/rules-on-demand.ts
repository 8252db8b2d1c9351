/** Rules that functions that watch on demand need, removed in plans in which all functions do so. */
import type { Ledger } from "../../functions/shared/ledger/reservation.ts";
import type { Plan } from "./plan.ts";
import { never, plain, type RemovedRule, wrapProtocol, wrapViews } from "./rules.ts";
import { noFaults } from "./simulated-cluster.ts";
import { noWatchFaults } from "./simulated-watch.ts";

/** Two processes, each with its own watches, which lag and freeze and are opened and closed again and again. */
export function onDemand(plan: Plan, changes: Partial<Plan> = {}): Plan {
  return plain(plan, {
    watching: true,
    onDemandIdleMs: 5_000,
    processes: 2,
    faults: { ...noFaults, latencyMs: 5, watch: { ...noWatchFaults, lagMs: 3_000, freeze: 0.05 } },
    safetyMs: 120_000,
    ...changes,
  });
}

/** The ledger as if a process had seen all its reservations overdue when they were made. */
function longOverdue<L extends Pick<Ledger, "reservations">>(ledger: L): L {
  return { ...ledger, reservations: ledger.reservations.map((one) => ({ ...one, overdueSeenMs: one.stampMs })) };
}

export const onDemandRules: readonly RemovedRule[] = [
  {
    rule: "R5",
    removed: "settled-through, by functions that watch on demand",
    breaks: ["Z1", "Z2"],
    aim: (plan) => onDemand(plan),
    wrappers: wrapViews(
      (cache) => (key, need) =>
        cache.read(key, { ...need, settledThrough: need.settledThrough === undefined ? undefined : 1 }),
    ),
  },
  {
    rule: "R10",
    removed: "a clock of one's own before an old reservation is dropped",
    breaks: ["Z1", "Z2"],
    aim: (plan) =>
      onDemand(plan, {
        faults: { ...noFaults, latencyMs: 5, slowDelete: 0.5, slowDeleteFromMs: 10_000, slowDeleteMs: 60_000 },
        every: { ...never, rollBack: 12_000, farClock: 10_000 },
      }),
    wrappers: wrapProtocol((protocol) => ({
      readLedger: async (...call) => {
        const ledger = await protocol.readLedger(...call);
        return ledger && longOverdue(ledger);
      },
    })),
  },
];
