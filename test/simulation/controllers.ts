/** The controllers of the world, which are slow at times. */
import type { Timeline } from "../fake-cluster/timeline.ts";
import type { Actor } from "./actor.ts";
import type { Draw } from "./draw.ts";
import type { Plan } from "./plan.ts";

const slowForMs = 20_000;
const slowDelayMs = 15_000;

export class Controllers implements Actor {
  readonly name = "controllers";
  readonly disturbances = { slowController: () => this.#slow() };
  readonly #options: ControllersOptions;
  #slowUntilMs = 0;

  constructor(options: ControllersOptions) {
    this.#options = options;
  }

  /** How long after a change they act, in milliseconds. */
  delayMs(): number {
    const { timeline, draw, plan } = this.#options;
    return timeline.nowMs() < this.#slowUntilMs ? slowDelayMs : plan.controllerDelayMs * draw.between(0.2, 2);
  }

  #slow(): void {
    this.#options.log("world", "the StatefulSet controller is slow for 20 s");
    this.#slowUntilMs = this.#options.timeline.nowMs() + slowForMs;
  }
}

export interface ControllersOptions {
  readonly timeline: Timeline;
  readonly draw: Draw;
  readonly plan: Plan;
  readonly log: (who: string, what: string) => void;
}
