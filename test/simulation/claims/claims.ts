/** The claims of one seed: the processes that make them, the objects besides pods that they name, and their checkers. */

import { createMemory } from "../../../functions/shared/contract/memory.ts";
import { silentReporter } from "../../../functions/shared/contract/reporter.ts";
import type { KindName } from "../../../functions/shared/ledger/claim.ts";
import { ledgerName } from "../../../functions/shared/ledger/lease-name.ts";
import { protocol } from "../../../functions/shared/ledger/protocol.ts";
import type { Actor } from "../actor.ts";
import type { Checker } from "../checker.ts";
import type { Connection, Role } from "../roles.ts";
import type { SeedRun } from "../seed.ts";
import { LaterKind, laterKindName } from "../versions/later-kind.ts";
import { neighbourGroup } from "../workloads.ts";
import { Apps } from "./apps.ts";
import { askPods, QuorumChecker } from "./asked.ts";
import { ClaimsChecker } from "./checker.ts";
import { FenceChecker } from "./fences.ts";
import { MovesChecker } from "./moves.ts";
import { fenceOn, Machines } from "./shipped-fences.ts";
import { SizeReviews } from "./sizes.ts";
import { shippedRules, Taker, takerName, takerOf, volumeOf } from "./taker.ts";

/** A claim as a later version of Sluice may have written it. */
const foreign = '{ "id":"later-ID", "kind":"later","zone":"ZONE","n":1.50,"by":"take-later" }';
const claims = "sluice.dev/claims";

export class Claims implements Actor {
  readonly name = "claims";
  readonly roles: readonly Role[];
  readonly checkers: readonly Checker[];
  readonly #run: SeedRun;
  readonly #apps: Apps;
  /** Function of each process that makes claims, by the name of the process. */
  readonly #functions = new Map<string, string>();
  readonly #checker: ClaimsChecker;
  readonly #moves: MovesChecker;
  readonly #fences: FenceChecker;
  readonly #reviews: SizeReviews;
  /** Groups that a fence may concern. The checkers check the claims of the first. */
  readonly #groups: readonly string[];

  constructor(run: SeedRun) {
    const { world, namespace, group, violate, plan } = run;
    this.#run = run;
    this.#apps = new Apps(world);
    const functions = this.#functions;
    const ledger = ledgerName(group);
    const past = run.pasts.sets(namespace);
    const checkClaims = (name: string) => {
      return new ClaimsChecker({
        world,
        apps: this.#apps,
        namespace,
        ledger: ledgerName(name),
        group: name,
        past,
        violate,
        functions,
      });
    };
    this.#checker = checkClaims(group);
    this.#groups = plan.claims?.spansGroups === true ? [group, neighbourGroup] : [group];
    this.#moves = new MovesChecker({ world, namespace, ledger, violate });
    this.#fences = new FenceChecker({ world, namespace, groups: this.#groups, violate });
    this.#reviews = new SizeReviews(run.draw);
    const others = this.#groups.slice(1).map(checkClaims);
    const asks = plan.claims?.asks === "shipped";
    if (asks) askPods(run);
    this.checkers = [this.#checker, ...others, this.#moves, this.#fences, ...(asks ? [new QuorumChecker(run)] : [])];
    const { kinds = [], isForeign = false } = plan.claims ?? {};
    const taker = { watches: "itself", inPeace: "new", diesAfterWrite: true } as const;
    const takers = kinds.map((kind): Role => {
      return { ...taker, name: takerName, count: 2, open: (connection) => this.#open(kind, connection) };
    });
    const fencer: Role = { ...taker, name: "fencer", count: 2, open: (connection) => this.#openFencer(connection) };
    if (plan.claims?.fences === true) {
      takers.push(fencer);
      const { draw, isFaulty, log } = run;
      const everyMs = plan.claims.everyMs;
      const onFenced = (...fenced: Parameters<FenceChecker["onFenced"]>) => this.#fences.onFenced(...fenced);
      const options = { world, draw, namespace, isActive: isFaulty, everyMs, onFenced };
      const machines = new Machines({ ...options, log: (what) => log("machines", what) });
      this.checkers = [...this.checkers, { invariants: ["L1"], missing: () => machines.missing() }];
    }
    const later: Role = { ...taker, name: "later", count: 1, open: (connection) => this.#openLater(connection) };
    this.roles = plan.versions?.laterKind === true ? [...takers, later] : takers;
    if (kinds.includes("volume")) this.#keepVolumes();
    if (isForeign) this.#claimLater();
  }

  /** Starts a process that makes claims of one kind. */
  #open(kind: KindName, connection: Connection): undefined {
    const { group } = this.#run;
    this.#functions.set(connection.process.name, takerOf(kind));
    const groups = kind === "node" ? this.#groups : [group];
    // A fence of several groups begins in the first of them. In the others, its row of the table ends it.
    for (const own of groups) this.#take(kind, own, own === group ? groups : [own], connection);
  }

  #take(kind: KindName, own: string, groups: readonly string[], { process, cluster, cache }: Connection): void {
    const { world, draw, plan, namespace, group, wrappers, isFaulty, log } = this.#run;
    const asks = plan.claims?.asks === true;
    const taker = new Taker({
      kind,
      context: {
        cluster,
        cache,
        protocol,
        reporter: { ...silentReporter, conflict: () => log(process.name, "conflict on the ledger") },
        mode: "act",
        namespaces: undefined,
        memoryOf: createMemory(),
      },
      key: { namespace, group: own },
      rules: { ...shippedRules, ...wrappers.claims },
      world,
      draw,
      apps: this.#apps,
      isActive: () => isFaulty() && own === group,
      isAlive: () => process.alive,
      onActed: (id, name) => {
        this.#checker.onActed(id, name);
        if (asks) this.#moves.onRestarted(name);
      },
      onDecided: (...decided) => this.#moves.onDecided(...decided),
      onReviewed: (...reviewed) => this.#moves.onReviewed(...reviewed),
      onFenced: (...fenced) => this.#fences.onFenced(...fenced),
      reviews: this.#reviews,
      asks,
      groups,
      everyMs: plan.claims?.everyMs ?? 1_000,
      latencyMs: () => plan.faults.latencyMs * draw.between(0.3, 2),
      log: (what) => log(process.name, what),
    });
    void taker.run();
  }

  #openFencer({ cluster, cache }: Connection): undefined {
    const { draw } = this.#run;
    const memoryOf = createMemory();
    const context = {
      cluster,
      cache,
      protocol,
      reporter: silentReporter,
      mode: "act",
      namespaces: undefined,
      memoryOf,
    } as const;
    void fenceOn(context, draw, 3_000);
  }

  /** Starts a process of a later version, which claims by a kind that no other process knows. */
  #openLater({ process, cluster }: Connection): undefined {
    const { draw, namespace, group, isFaulty, log } = this.#run;
    this.#functions.set(process.name, laterKindName);
    const later = new LaterKind({
      cluster,
      draw,
      namespace,
      group,
      ledger: ledgerName(group),
      isActive: isFaulty,
      restart: (claim, name, uid, forMs) => {
        if (this.#apps.restart(name, namespace, uid, forMs)) this.#checker.onActed(claim, name);
      },
      log: (what) => log(process.name, what),
    });
    void later.run();
  }

  /** Leases play the volume claims of pods: a removed one is made again after a while. */
  #keepVolumes(): void {
    const { world, draw, namespace } = this.#run;
    for (const { metadata } of world.store.list("pods", { namespace }).items) {
      const name = volumeOf(metadata.name);
      if (world.store.find("leases", { namespace, name }) === undefined)
        world.store.create("leases", namespace, { metadata: { name } });
    }
    world.timeline.after(draw.between(5_000, 20_000), () => this.#keepVolumes());
  }

  /** Adds a claim of a later version, whose kind this version does not know, and ends it after a while. */
  #claimLater(): void {
    const { world, draw, isFaulty } = this.#run;
    world.timeline.after(draw.between(15_000, 40_000), () => {
      if (!isFaulty()) return;
      const zones = world.store.list("statefulsets", { namespace: this.#run.namespace }).items;
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
    const { world, namespace, group, checkers, log } = this.#run;
    const key = { namespace, name: `sluice-${group}` };
    const text = world.store.find("leases", key)?.metadata.annotations?.[claims];
    const before = (text ?? "").split("\n").filter((line) => line !== "");
    const after = change(before);
    if (world.store.find("leases", key) === undefined || new Set(after).size < after.length) return false;
    if (after.length === before.length) return true;
    const annotations = { [claims]: after.join("\n") };
    checkers.ledgerEdited(world.store.patch("leases", key, { metadata: { annotations } }));
    log("later", `${after.length > before.length ? "claims" : "ends its claim on"} a zone`);
    return true;
  }
}
