/** Plans in which processes restart in their pods beside other troubles. */
import { claiming } from "../claims/scenarios.ts";
import type { Plan } from "../plan.ts";
import { never } from "../rules.ts";
import { noFaults } from "../simulated-cluster.ts";

/** One zone whose users restart processes; two processes of the function are killed, stopped and late. */
export function restarting(plan: Plan, changes: Partial<Plan> = {}): Plan {
  return claiming(plan, [], {
    zones: 2,
    claims: { kinds: [], everyMs: 4_000, isForeign: false },
    restarts: { everyMs: 4_000 },
    safetyMs: 300_000,
    faults: { ...noFaults, latencyMs: 5, loseReply: 0.02 },
    every: { ...never, crash: 30_000, stopProcess: 30_000, deletePod: 60_000 },
    ...changes,
  });
}

/** The same where each write may be the last one of its process, beside rollouts, drains and scale-downs. */
export function restartingAnywhere(plan: Plan): Plan {
  return restarting(plan, {
    dieAfterWrite: 0.3,
    every: { ...never, crash: 30_000, deletePod: 60_000, evict: 20_000, changeTemplate: 90_000, scale: 60_000 },
  });
}
