/** Five nodes in virtual time, beside a process of `watch-node-health` and one of `fence-node`. */
import type { Context } from "../../../../functions/shared/contract/context.ts";
import type { ObjectRef } from "../../../../functions/shared/contract/keys.ts";
import { createMemory } from "../../../../functions/shared/contract/memory.ts";
import { watchNodeHealth } from "../../../../functions/watch-node-health/function.ts";
import { played } from "../../shared/reconcile/harness.ts";
import { type NodeWorld, nodeWorld } from "../fence-node/node-world.ts";

const minuteMs = 60_000;
const tickMs = 10_000;
export const mark = "sluice.dev/unhealthy";
export const others = ["b-1", "c-2", "d-3", "e-4"];

export class HealthWorld {
  /** The node `a-0`, its agent, and fence-node. */
  readonly world: NodeWorld = nodeWorld();
  context: Context;

  constructor(settings: Context["settings"] = { nodeHealthAfterMs: minuteMs }) {
    for (const name of others) {
      this.#store.create("nodes", "", { metadata: { name } });
      this.becomes("True", name);
    }
    this.context = this.#begin({ settings });
  }

  get #store() {
    return this.world.harness.world.store;
  }

  #begin(changes: Partial<Context>): Context {
    const { context, cluster } = this.world.harness;
    return { ...context, cluster: { ...cluster }, memoryOf: createMemory(), ...changes };
  }

  /** Another process: what this one has counted is lost. */
  restart(changes: Partial<Context> = {}): void {
    this.context = this.#begin({ settings: this.context.settings ?? {}, ...changes });
  }

  /** The condition Ready of a node changes. */
  becomes(status: "True" | "False" | "Unknown", name = "a-0", bootID = "boot-1"): void {
    const lastTransitionTime = new Date(this.world.harness.cluster.serverTimeMs()).toISOString();
    const conditions = [{ type: "Ready", status, lastTransitionTime }];
    const nodeInfo = { bootID, systemUUID: "machine-1" };
    this.#store.patch("nodes", { namespace: "", name }, { status: { conditions, nodeInfo } }, "status");
  }

  patch(body: object, name = "a-0"): void {
    this.#store.patch("nodes", { namespace: "", name }, body);
  }

  setMark(text: string | null, name = "a-0"): void {
    this.patch({ metadata: { annotations: { [mark]: text } } }, name);
  }

  markOf(name = "a-0"): string | undefined {
    return this.#store.get("nodes", { namespace: "", name }).metadata.annotations?.[mark];
  }

  /** One tick of the schedule, and a reconcile of each node that it finds. Resolves to these nodes. */
  async tick(): Promise<readonly string[]> {
    const due = await played(this.world.harness.timeline, watchNodeHealth.listKeys(this.context, undefined));
    for (const key of due) await this.reconcile(key);
    return due.map(({ name }) => name);
  }

  async reconcile(key: ObjectRef): Promise<void> {
    await played(this.world.harness.timeline, watchNodeHealth.reconcile(this.context, key, { sweep: false }));
  }

  /** Time passes, with a tick each ten seconds, the first of them now. */
  async goOn(ms: number): Promise<void> {
    for (let passedMs = 0; passedMs < ms; passedMs += tickMs) {
      await this.tick();
      await this.world.harness.goOn(Math.min(tickMs, ms - passedMs));
    }
  }

  /** Until the node has a mark, or has none any more, in seconds; undefined: it takes more than three times the setting. */
  async secondsUntil(isMarked: boolean, name = "a-0"): Promise<number | undefined> {
    for (let seconds = 0; seconds <= 180; seconds += tickMs / 1_000) {
      await this.tick();
      if ((this.markOf(name) !== undefined) === isMarked) return seconds;
      await this.world.harness.goOn(tickMs);
    }
    return undefined;
  }
}
