/** The rules that keep suspended volumes safe from a clock that is days ahead, removed from the shipped functions. */
import { never, type RemovedRule, wrapCluster } from "../rules.ts";
import { suspended } from "./scenarios.ts";

const dayMs = 86_400_000;

/** Users delete suspended volume claims, and withdraw their requests, while all API servers are days ahead at times. */
const chosen = {
  everyMs: 4_000,
  deeds: ["request", "request", "deleteClaim", "withdraw"],
  durationMs: 60_000,
  waitMs: 0,
  mode: "Zone",
  reacts: 0,
  volumes: 1,
} as const;

export const clockRules: readonly RemovedRule[] = [
  {
    rule: "S1",
    removed: "the clock of the process: a time is over by the API server's alone",
    breaks: ["S1"],
    aim: (plan) =>
      suspended(plan, chosen, { farAheadMs: 8 * dayMs, every: { ...never, crash: 60_000, farClock: 40_000 } }),
    wrappers: wrapCluster((cluster) => ({ wallTimeMs: () => cluster.serverTimeMs() })),
  },
];
