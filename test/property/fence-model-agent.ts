/** An agent of the modelled fence with its machine, and what a script of the model may change. */

export type Random = () => number;

/** Seconds of the model throughout; negative infinity is never. */
export class ModelAgent {
  readonly index: number;
  group = 0;
  isUp = true;
  booted = 0;
  downSince = 0;
  started = 0;
  lastSuccess = Number.NEGATIVE_INFINITY;
  contact: { sinceMs: number; lastMs: number } | undefined;
  nextRenewal: number;
  failures = 0;
  permit = 0;
  isArmed = true;
  isStopping = false;
  fed = 0;
  pausedUntil: number | undefined;
  renewals = 0;
  isAcknowledged = true;
  knownVersion = 0;
  list: readonly number[];
  pending: readonly number[] | undefined;
  seenProposal: readonly number[] | undefined;
  /** So many of its next renewals are carried out late. */
  lateRenewals = 0;
  lateListChance = 0;
  isToRestart = false;

  constructor(index: number, nextRenewal: number, list: readonly number[]) {
    this.index = index;
    this.nextRenewal = nextRenewal;
    this.list = list;
  }
}

export interface ModelCluster {
  readonly random: Random;
  readonly agents: readonly ModelAgent[];
  /** The machine that is fenced. */
  readonly target: ModelAgent;
  isApiDown: boolean;
}
