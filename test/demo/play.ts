/** The state of the demo, which its picture, its story and its summary read. */
import type { Journal } from "../support/journal.ts";
import { replacedAfterMs } from "../support/served-group.ts";
import type { Downscale } from "./downscale.ts";
import type { DemoOptions } from "./options.ts";
import { isUp } from "./referee.ts";
import { evaluateEviction, Refusals } from "./refusals.ts";
import type { LogLine, Sluice } from "./sluice.ts";
import { isNew, type Stage } from "./stage.ts";
import type { Storm } from "./storm.ts";
import { advanceZoneRollout, Verdicts } from "./verdicts.ts";

export type Phase = "starting" | "standing" | "rolling" | "broken" | "healed" | "storm" | "downscale" | "rolled";
export type Outcome = "rolled" | "late" | "broken promise" | "sluice ended" | "sluice not ready" | "interrupted";

export interface RunOptions extends DemoOptions {
  readonly signal: AbortSignal;
  readonly journal: Journal;
  /** Called about ten times a second. */
  readonly show: (play: Play) => void;
  /** Called when the story has ended. The cluster and Sluice go on until the returned promise resolves. */
  readonly linger?: (play: Play) => Promise<void>;
  /** For tests: called in the middle of the rollout, to do what no user should. */
  readonly meddle?: (play: Play) => void;
}

/** The state of the demo. */
export class Play {
  readonly options: RunOptions;
  readonly journal: Journal;
  readonly stage: Stage;
  readonly sluice: Sluice;
  readonly verdicts: Verdicts;
  readonly refusals: Refusals;
  /** Undefined until it begins. */
  storm: Storm | undefined;
  /** Undefined until it begins. */
  downscale: Downscale | undefined;
  phase: Phase = "starting";
  outcome: Outcome | undefined;
  /** By the journal's clock: when the rollout began and ended, and when a pod was broken and healed. */
  startedMs: number | undefined;
  endedMs: number | undefined;
  brokenMs: number | undefined;
  healedMs: number | undefined;
  /** Sluice's message about the broken pod. */
  reason: string | undefined;

  constructor(options: RunOptions, stage: Stage, sluice: Sluice) {
    this.options = options;
    this.journal = options.journal;
    this.stage = stage;
    this.sluice = sluice;
    this.verdicts = new Verdicts(stage.world, options.journal);
    this.refusals = new Refusals(options.journal);
  }

  /** Called with each line of Sluice's log, once. */
  note(line: LogLine): void {
    const { level, msg, tlsPort } = line;
    if (level === "warn" || level === "error") this.journal.add("", `Sluice warns: ${msg}`);
    if (tlsPort !== undefined) this.journal.add("", msg);
    if (line.function === advanceZoneRollout) this.verdicts.noteLog(line);
    if (line.function === evaluateEviction) this.refusals.noteLog(line);
  }

  get total(): number {
    return this.options.pods * this.stage.group.statefulSets.length;
  }

  /** Number of pods that run the wanted revision and are ready. */
  get done(): number {
    // Pods that a later downscale removed were rolled as well.
    if (this.endedMs !== undefined) return this.total;
    const { items } = this.stage.world.store.list("pods");
    return items.filter((pod) => isUp(pod) && isNew(pod)).length;
  }

  /** Duration of the rollout so far, in milliseconds. */
  get tookMs(): number {
    return this.startedMs === undefined ? 0 : (this.endedMs ?? this.journal.nowMs) - this.startedMs;
  }

  /** Time for which the pod has been broken, in milliseconds. */
  get brokenForMs(): number {
    return this.brokenMs === undefined ? 0 : (this.healedMs ?? this.journal.nowMs) - this.brokenMs;
  }

  /** An estimate of the rollout's remaining time, in milliseconds: the remaining pods take as long as those before. */
  get leftMs(): number {
    const { done, total } = this;
    const eachMs = Math.max(this.fastestMs / total, done === 0 ? 0 : (this.tookMs - this.brokenForMs) / done);
    return this.endedMs === undefined ? (total - done) * eachMs : 0;
  }

  /**
   * Number of pods of a zone that must be replaced, as far as is known: each once, and some a second time because of
   * evictions.
   */
  #replacedIn(zone: string): number {
    return Math.max(this.options.pods, this.stage.referee.deletedIn(zone));
  }

  /** Number of pods that were evicted although they were new already. */
  get twice(): number {
    const { statefulSets } = this.stage.group;
    return statefulSets.reduce((sum, { name }) => sum + this.#replacedIn(name), 0) - this.total;
  }

  /** The shortest possible time of the rollout: all pods, as many at once as the budget allows, each as long as it takes. */
  get fastestMs(): number {
    const rounds = this.stage.group.statefulSets.map(({ name }) =>
      Math.ceil(this.#replacedIn(name) / this.stage.budget),
    );
    return rounds.reduce((sum, count) => sum + count, 0) * replacedAfterMs;
  }
}
