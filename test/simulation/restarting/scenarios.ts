/** Plans in which processes restart in their pods beside other troubles. */
import { claiming } from "../claims/scenarios.ts";
import type { Draw } from "../draw.ts";
import type { Plan } from "../plan.ts";
import { never } from "../rules.ts";
import { noFaults } from "../simulated-cluster.ts";

/** One zone whose users restart processes; two processes of the function are killed, stopped and late. */
export function restarting(plan: Plan, changes: Partial<Plan> = {}): Plan {
  return claiming(plan, [], {
    zones: 2,
    claims: { kinds: [], everyMs: 4_000, isForeign: false },
    restarts: { everyMs: 4_000, lose: 0.03, late: 0.1 },
    safetyMs: 300_000,
    faults: { ...noFaults, latencyMs: 5, loseReply: 0.02 },
    every: { ...never, crash: 30_000, stopProcess: 30_000, deletePod: 60_000 },
    ...changes,
  });
}

/** The same plan, whose users also park processes and write triggers. */
export function withParking(plan: Plan): Plan {
  return plan.restarts === undefined ? plan : { ...plan, restarts: { ...plan.restarts, isParking: true } };
}

/** Users who mostly park processes, at times when a group comes to rest, so that many stay parked beside what else happens. */
export function parking(plan: Plan): Plan {
  return withParking(
    restarting(plan, {
      restarts: { everyMs: 25_000, lose: 0.01, late: 0.05 },
      every: { ...never, crash: 60_000, stopProcess: 60_000, deletePod: 90_000, evict: 60_000 },
    }),
  );
}

/**
 * The same where each message arrives twice, the second time up to 40 s late, which is longer than three phases take. Processes
 * sleep for ten minutes, and then go on with what they were about to do.
 */
export function restartingLate(plan: Plan): Plan {
  return restarting(plan, {
    restarts: { everyMs: 5_000, lose: 0, late: 0.02, isTwice: true },
    safetyMs: 1_200_000,
    stoppedMs: [600_000, 610_000],
    every: { ...never, stopProcess: 600_000 },
  });
}

/** The same where each write may be the last one of its process, beside rollouts, drains and scale-downs. */
export function restartingAnywhere(plan: Plan): Plan {
  return restarting(plan, {
    dieAfterWrite: 0.3,
    every: { ...never, crash: 30_000, deletePod: 60_000, evict: 20_000, changeTemplate: 90_000, scale: 60_000 },
  });
}

/** Users of three zones restart many processes together, and a few alone, beside everything that happens to their pods. */
export function restartingTogether(plan: Plan): Plan {
  return restarting(plan, {
    ...{ watching: plan.watching, zones: 3, replicas: 2, budget: undefined },
    // A step needs the answers of all members.
    restarts: { everyMs: 15_000, lose: 0.005, late: 0.02, isTogether: true },
    safetyMs: 500_000,
    dieAfterWrite: 0.05,
    every: {
      ...never,
      crash: 60_000,
      stopProcess: 60_000,
      deletePod: 60_000,
      scale: 90_000,
      recreate: 180_000,
      removeZone: 400_000,
    },
  });
}

/**
 * The files of the processes stand in Secrets: users change these, and the function restarts what was started with others. In
 * some seeds Secrets that nothing names any more are collected meanwhile, which takes 15 minutes.
 */
export function restartingFiles(plan: Plan, draw: Draw): Plan {
  return withFiles(plan, draw.pick([3_000, 20_000, 90_000]), draw.chance(0.15));
}

/** The same in seeds that collect Secrets, all of them. */
export function collectingFiles(plan: Plan): Plan {
  return withFiles(plan, 3_000, true);
}

function withFiles(plan: Plan, bringsWithinMs: number, isCollecting: boolean): Plan {
  const everyMs = isCollecting ? 150_000 : 15_000 + bringsWithinMs / 2;
  return restarting(plan, {
    restarts: {
      ...{ everyMs, lose: 0.01, late: 0.05, isOfFiles: true, bringsWithinMs },
      ...(isCollecting ? { isCollecting } : {}),
    },
    safetyMs: isCollecting ? 1_500_000 : 400_000,
    dieAfterWrite: 0.05,
    every: { ...never, crash: 40_000, stopProcess: 40_000, deletePod: isCollecting ? 400_000 : 90_000 },
  });
}
