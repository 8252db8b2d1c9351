/**
 * O1: beside rollout-operator Sluice stands by. The checker knows the pods from the objects of the API server, and what each
 * process has seen from the answers to its LISTs.
 */
import type { AdmissionAnswer } from "../../../functions/shared/admission/definition.ts";
import type { World } from "../../fake-cluster/world.ts";
import type { Period, Periods } from "./periods.ts";

/** Time from the end of the last pod that a process has seen until the process may act, in milliseconds. */
const goneForMs = 30_000;
/** Within this time a process sees a new pod; within the longer one where one of its LISTs has failed. */
const seenWithinMs = 30_000;
const seenAtLastMs = 60_000;
/** Longest time for which what has begun may go on writing. A process that is stopped for a minute goes on after it. */
export const underWayMs = 30_000;
const stoppedMs = 61_000;

/** Guards of answers that rest on no ledger, and are the same beside rollout-operator. */
const withoutLedger = new Set([
  ...["out-of-scope", "exempt", "dry-run", "not-prepared", "settings-unread"],
  ...["not-a-downscale", "replicas-unclear", "unreadable-object"],
]);

/** What one process knows of rollout-operator. */
export interface Witness {
  readonly process: string;
  /** When an answer to a LIST first showed each pod to the process. */
  readonly seen: Map<Period, number>;
  /** True once one of these LISTs has failed. */
  hasFailed: boolean;
}

export interface StandByCheckerOptions {
  readonly world: World;
  readonly periods: Periods;
  /** True if processes are stopped and go on. */
  readonly stops: boolean;
  readonly violate: (invariant: string, message: string) => void;
}

export class StandByChecker {
  readonly #options: StandByCheckerOptions;

  constructor(options: StandByCheckerOptions) {
    this.#options = options;
  }

  /** A reconcile or a sweep begins. `namespaces`: those where it may act; undefined: all. */
  begins(witness: Witness, what: string, namespaces: readonly string[] | undefined): void {
    const nowMs = this.#options.world.timeline.nowMs();
    this.#check(witness, namespaces, nowMs, (why) => `begins ${what} ${why}`);
  }

  /** A review that came at `sinceMs` is answered. */
  answers(witness: Witness, namespace: string, sinceMs: number, answer: AdmissionAnswer): void {
    if (answer.guard === "other-operator" && (answer.allowed || answer.code !== 429))
      this.#options.violate("O1", `${witness.process} refuses beside rollout-operator with another code than 429`);
    if (!answer.allowed || withoutLedger.has(answer.guard)) return;
    this.#check(witness, [namespace], sinceMs, (why) => `allows ${answer.guard} ${why}`);
  }

  /** A write leaves the process, or a message to a pod. */
  sends(witness: Witness, namespace: string, what: string): void {
    const { periods, stops } = this.#options;
    const nowMs = this.#options.world.timeline.nowMs();
    const graceMs = underWayMs + (stops ? stoppedMs : 0);
    for (const period of periods.all()) {
      if (period.namespace !== namespace) continue;
      const seenMs = witness.seen.get(period);
      if (nowMs >= (period.untilMs ?? nowMs) + (seenMs === undefined ? 1 : goneForMs)) continue;
      const latestMs = seenMs ?? period.fromMs + this.#seenWithinMs(witness);
      if (nowMs > latestMs + graceMs)
        this.#violate(witness, period, `sends ${what} ${seconds(nowMs - latestMs)} after it must have seen`);
    }
  }

  /** Nothing that begins at `sinceMs` may rest on an older look than promised, nor on none of what the process has seen. */
  #check(
    witness: Witness,
    namespaces: readonly string[] | undefined,
    sinceMs: number,
    describe: (why: string) => string,
  ): void {
    const nowMs = this.#options.world.timeline.nowMs();
    for (const period of this.#options.periods.all()) {
      if (namespaces?.includes(period.namespace) === false) continue;
      const { fromMs, untilMs = Number.POSITIVE_INFINITY } = period;
      const seenMs = witness.seen.get(period);
      if (seenMs !== undefined && seenMs <= sinceMs && nowMs < untilMs + goneForMs) {
        const gone = untilMs <= nowMs ? `, ${seconds(nowMs - untilMs)} after the end of` : ", beside";
        this.#violate(witness, period, `${describe(`${seconds(nowMs - seenMs)} after it has seen`)}${gone}`);
      } else if (untilMs > nowMs && fromMs + this.#seenWithinMs(witness) <= sinceMs) {
        this.#violate(witness, period, describe(`${seconds(nowMs - fromMs)} after the start of, and has not seen`));
      }
    }
  }

  #seenWithinMs({ hasFailed }: Witness): number {
    return hasFailed ? seenAtLastMs : seenWithinMs;
  }

  #violate({ process }: Witness, { namespace, name }: Period, what: string): void {
    this.#options.violate("O1", `${process} ${what} pod ${namespace}/${name} of rollout-operator`);
  }
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(3)} s`;
}
