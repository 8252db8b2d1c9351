/** P7: no Secret with files is removed that a StatefulSet names, or that a sweep has seen named within the last 15 minutes. */
import type { ObjectKey, Resource } from "../../../functions/shared/kubernetes/cluster.ts";
import type { StoredStatefulSet } from "../../fake-cluster/objects.ts";
import type { Caller, Checker } from "../checker.ts";
import type { SeedRun } from "../seed.ts";
import { sweepMs } from "./collector.ts";
import { configKey } from "./secrets.ts";

/** A Secret stays for so long, in milliseconds. The clocks of two API servers may differ a little. */
const staysMs = 900_000 - 30_000;
/** A StatefulSet that names a Secret so shortly before it is removed may be missed, in milliseconds. */
const missedMs = 2_000;
/** Sweeps alone look for names: one that stood for less than three of them may be missed, in milliseconds. */
const seenForSureMs = 3 * sweepMs;

export class ConfigsChecker implements Checker {
  readonly invariants = ["P7"];
  readonly #run: SeedRun;
  /** Since when a StatefulSet names a Secret, and until when one has named it, by the name of the Secret. */
  readonly #since = new Map<string, number>();
  readonly #until = new Map<string, number>();

  constructor(run: SeedRun, sets: () => readonly StoredStatefulSet[]) {
    this.#run = run;
    const { world } = run;
    world.store.onChange("statefulsets", () => this.#note(sets(), world.timeline.nowMs()));
  }

  #note(sets: readonly StoredStatefulSet[], nowMs: number): void {
    const named = new Set(sets.map(({ metadata }) => metadata.annotations?.[configKey] ?? ""));
    for (const one of named) if (!this.#since.has(one)) this.#since.set(one, nowMs);
    for (const [one, since] of this.#since) {
      if (named.has(one)) continue;
      this.#since.delete(one);
      const isFirst = !this.#until.has(one);
      if (isFirst || nowMs - since >= seenForSureMs) this.#until.set(one, nowMs);
    }
  }

  onDeletionSent({ process }: Caller, resource: Resource, { namespace, name }: ObjectKey): void {
    const { violate, world } = this.#run;
    if (resource !== "secrets" || namespace !== this.#run.namespace) return;
    const nowMs = world.timeline.nowMs();
    const since = this.#since.get(name);
    if (since !== undefined && nowMs - since > missedMs)
      violate("P7", `${process.name} removes ${name}, which a StatefulSet has named for ${nowMs - since} ms`);
    const until = this.#until.get(name);
    if (since === undefined && (until === undefined || nowMs - until < staysMs))
      violate("P7", `${process.name} removes ${name}, which was named ${nowMs - (until ?? nowMs)} ms ago`);
  }
}
