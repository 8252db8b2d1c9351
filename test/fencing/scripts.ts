/** Scripts of cuts: what happens to the network, to the agents and to the function while nodes are fenced. */
import { type Random, seededRandom } from "../fake-cluster/random.ts";

/** The API server, as a destination beside the names of the nodes. */
export const apiServer = "api-server";
const count = 5;
export const nodeNames: readonly string[] = Array.from({ length: count }, (_, at) => `node-${at + 1}`);

/**
 * - `far-end-down`, `own-end-down`: the node reaches nothing. It gets no answer, or an error at once.
 * - `lose`, `refuse`: the nodes do not reach the destinations. They get no answer, or an error at once.
 * - `mend`: all cuts end.
 * - `await-taint`: what follows waits until the Node has the taint of a fence.
 */
export type ScriptEvent =
  | { readonly kind: "mark" | "unmark" | "far-end-down" | "own-end-down" | "await-taint"; readonly node: string }
  | { readonly kind: "pause-agent"; readonly node: string; readonly forMs: number }
  | { readonly kind: "lose" | "refuse"; readonly nodes: readonly string[]; readonly to: readonly string[] }
  | { readonly kind: "pause-function"; readonly forMs: number }
  | { readonly kind: "kill-function" | "mend" };

export interface CutScript {
  readonly name: string;
  /** The nodes that are fenced: each has a pod of a StatefulSet. */
  readonly marked: readonly string[];
  /** The nodes whose machines stay off after a reset, until everything is healed. */
  readonly staysOff: readonly string[];
  /** In their order. Times are since the begin of the script. */
  readonly events: readonly { readonly atMs: number; readonly event: ScriptEvent }[];
  /** When every cut ends, and every process goes on. */
  readonly healsAtMs: number;
}

/** Draws from a seed. A fence by time needs some seven seconds without the node, so that about half of the scripts see one. */
class ScriptDraw {
  readonly #random: Random;
  readonly #events: { atMs: number; event: ScriptEvent }[] = [];
  readonly #marked: readonly string[];
  readonly #healsAtMs: number;

  constructor(seed: number) {
    this.#random = seededRandom(seed);
    this.#marked = this.#some(this.#chance(0.35) ? 2 : 1);
    this.#healsAtMs = Math.round(this.#between(5_000, 14_000));
  }

  script(name: string): CutScript {
    const staysOff = this.#marked.filter(() => this.#chance(0.4));
    for (const node of this.#marked) {
      const atMs = this.#between(0, 2_500);
      this.#add(atMs, { kind: "mark", node });
      // Cut off before the mark, as a health checker would find it, or just after it.
      if (this.#chance(0.75)) this.#cut(Math.max(0, atMs - this.#between(-1_000, 1_500)), node);
    }
    for (let more = 1 + Math.floor(this.#random() * 3); more > 0; more--) this.#disturb();
    const events = this.#events.sort((one, other) => one.atMs - other.atMs);
    return { name, marked: this.#marked, staysOff, events, healsAtMs: this.#healsAtMs };
  }

  #disturb(): void {
    const atMs = this.#between(0, this.#healsAtMs - 500);
    const kind = this.#random();
    if (kind < 0.55) this.#cut(atMs, this.#pick(nodeNames));
    else if (kind < 0.67) this.#add(atMs, { kind: "mend" });
    else if (kind < 0.77)
      this.#add(atMs, { kind: "pause-agent", node: this.#pick(nodeNames), forMs: this.#between(100, 2_000) });
    else if (kind < 0.85) this.#add(atMs, { kind: "pause-function", forMs: this.#between(500, 4_000) });
    else if (kind < 0.95) this.#add(atMs, { kind: "kill-function" });
    else this.#add(atMs, { kind: "unmark", node: this.#pick(this.#marked) });
  }

  #cut(atMs: number, node: string): void {
    const kind = this.#random();
    const how = this.#chance(0.5) ? "lose" : "refuse";
    if (kind < 0.25) this.#add(atMs, { kind: this.#chance(0.5) ? "far-end-down" : "own-end-down", node });
    else if (kind < 0.5) this.#add(atMs, { kind: how, nodes: this.#with(node), to: [apiServer] });
    else if (kind < 0.65) {
      const others = [apiServer, ...nodeNames].filter((one) => one !== node && this.#chance(0.5));
      this.#add(atMs, { kind: how, nodes: [node], to: others.length === 0 ? [apiServer] : others });
    } else {
      const part = this.#with(node);
      const outside = nodeNames.filter((one) => !part.includes(one));
      this.#add(atMs, { kind: how, nodes: part, to: this.#chance(0.85) ? [apiServer, ...outside] : outside });
    }
  }

  #add(atMs: number, event: ScriptEvent): void {
    const whole = "forMs" in event ? { ...event, forMs: Math.round(event.forMs) } : event;
    this.#events.push({ atMs: Math.round(atMs), event: whole });
  }

  /** The node and some others. */
  #with(node: string): readonly string[] {
    const others = this.#some(Math.floor(this.#random() * count)).filter((one) => one !== node);
    return [node, ...others];
  }

  #some(size: number): readonly string[] {
    const keys = new Map(nodeNames.map((node) => [node, this.#random()]));
    return nodeNames.toSorted((one, other) => (keys.get(one) ?? 0) - (keys.get(other) ?? 0)).slice(0, size);
  }

  #chance(probability: number): boolean {
    return this.#random() < probability;
  }

  #between(low: number, high: number): number {
    return low + this.#random() * (high - low);
  }

  #pick(choices: readonly string[]): string {
    return choices[Math.floor(this.#random() * choices.length)] ?? "";
  }
}

/** The same seed always draws the same script. */
export function drawCutScript(seed: number): CutScript {
  return new ScriptDraw(seed).script(`seed ${seed}`);
}

/** One event for people. */
export function describe(event: ScriptEvent): string {
  if ("nodes" in event) return `${event.kind} ${event.nodes.join(" ")} -> ${event.to.join(" ")}`;
  return [event.kind, "node" in event ? event.node : "", "forMs" in event ? `for ${event.forMs} ms` : ""]
    .filter((part) => part !== "")
    .join(" ");
}
