/** The claims of one seed: who makes them, what they are about besides pods, and who looks at them. */
import type { Cluster } from "../../../functions/shared/kubernetes/cluster.ts";
import type { KindName } from "../../../functions/shared/ledger/claim.ts";
import { protocol } from "../../../functions/shared/ledger/protocol.ts";
import { createMemory } from "../../../functions/shared/pass/definition.ts";
import { silentReporter } from "../../../functions/shared/pass/reporter.ts";
import type { Views } from "../../../functions/shared/views/view.ts";
import type { World } from "../../world/world.ts";
import type { Draw } from "../draw.ts";
import type { Plan } from "../plan.ts";
import type { Process } from "../simulated-cluster.ts";
import { Apps } from "./apps.ts";
import { ClaimsChecker } from "./checker.ts";
import { type ClaimRules, shippedRules, Taker, takerOf, volumeOf } from "./taker.ts";

export interface ClaimsOptions {
  readonly world: World;
  readonly draw: Draw;
  readonly plan: Plan;
  readonly namespace: string;
  readonly group: string;
  readonly rules: Partial<ClaimRules> | undefined;
  /** False once the faults have stopped: what was begun is ended, and nothing else is. */
  readonly isFaulty: () => boolean;
  readonly violate: (invariant: string, sentence: string) => void;
  readonly log: (who: string, what: string) => void;
}

/** What a later version of Sluice may have written. */
const foreign = '{ "id":"later-ID", "kind":"later","zone":"ZONE","n":1.50,"by":"take-later" }';
const claims = "sluice.dev/claims";

export class Claims {
  readonly checker: ClaimsChecker;
  readonly #options: ClaimsOptions;
  readonly #apps: Apps;

  constructor(options: ClaimsOptions) {
    const { world, namespace, group, violate } = options;
    this.#options = options;
    this.#apps = new Apps(world);
    this.checker = new ClaimsChecker({ world, apps: this.#apps, namespace, ledger: `sluice-${group}`, violate });
    if (options.plan.claims?.kinds.includes("volume") === true) this.#keepVolumes();
    if (options.plan.claims?.isForeign === true) this.#claimLater();
  }

  /** Starts a process that makes claims of a kind. */
  open(
    kind: KindName,
    connection: { readonly process: Process; readonly cluster: Cluster; readonly views: Views },
  ): void {
    const { world, draw, plan, namespace, group, rules, isFaulty, log } = this.#options;
    const { process, cluster, views } = connection;
    this.checker.functions.set(process.name, takerOf(kind));
    const taker = new Taker({
      kind,
      context: {
        cluster,
        views,
        protocol,
        reporter: { ...silentReporter, conflict: () => log(process.name, "conflict on the ledger") },
        mode: "act",
        namespaces: undefined,
        memoryOf: createMemory(),
      },
      key: { namespace, group },
      rules: { ...shippedRules, ...rules },
      world,
      draw,
      apps: this.#apps,
      isActive: isFaulty,
      onActed: (id, name) => this.checker.onActed(id, name),
      everyMs: plan.claims?.everyMs ?? 1_000,
      latencyMs: () => plan.faults.latencyMs * draw.between(0.3, 2),
      log: (what) => log(process.name, what),
    });
    void taker.run();
  }

  /** Leases stand for the volume claims of pods: one that was removed is made again after a while. */
  #keepVolumes(): void {
    const { world, draw, namespace } = this.#options;
    for (const { metadata } of world.store.list("pods", { namespace }).items) {
      const name = volumeOf(metadata.name);
      if (world.store.find("leases", { namespace, name }) === undefined)
        world.store.create("leases", namespace, { metadata: { name } });
    }
    world.timeline.after(draw.between(5_000, 20_000), () => this.#keepVolumes());
  }

  /** A later version claims something for a purpose that nobody here knows, and ends it after a while. */
  #claimLater(): void {
    const { world, draw, isFaulty } = this.#options;
    world.timeline.after(draw.between(15_000, 40_000), () => {
      if (!isFaulty()) return;
      const zones = world.store.list("statefulsets", { namespace: this.#options.namespace }).items;
      if (zones.length === 0) return;
      const line = foreign.replace("ZONE", draw.pick(zones).metadata.name).replace("ID", String(draw.whole(1, 1e9)));
      if (this.#edit((lines) => [...lines, line])) {
        world.timeline.after(draw.between(2_000, 30_000), () => {
          this.#edit((lines) => lines.filter((one) => one !== line));
        });
      }
      this.#claimLater();
    });
  }

  #edit(change: (lines: readonly string[]) => readonly string[]): boolean {
    const { world, namespace, group, log } = this.#options;
    const key = { namespace, name: `sluice-${group}` };
    const text = world.store.find("leases", key)?.metadata.annotations?.[claims];
    const before = (text ?? "").split("\n").filter((line) => line !== "");
    const after = change(before);
    if (world.store.find("leases", key) === undefined || new Set(after).size < after.length) return false;
    if (after.length === before.length) return true;
    const annotations = { [claims]: after.join("\n") };
    this.checker.noteEdited(world.store.patch("leases", key, { metadata: { annotations } }));
    log("later", `${after.length > before.length ? "claims" : "ends its claim on"} a zone`);
    return true;
  }
}
