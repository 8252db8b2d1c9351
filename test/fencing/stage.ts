/** Five machines and the shipped function, on which scripts of cuts are played one after another. */
import { setTimeout as delay } from "node:timers/promises";
import { fingerprintOf } from "../../functions/fence-node/fingerprint.ts";
import { slotsName } from "../../functions/shared/annotations/fencing-leases.ts";
import { eventually } from "../controlplane/api.ts";
import { Server } from "../support/server.ts";
import { FencingCluster, leasePath, namespace } from "./cluster.ts";
import type { Machine } from "./machine.ts";
import { type Cuts, noCuts } from "./network.ts";
import { FenceOracle, type SeenFence } from "./oracle.ts";
import { Pods } from "./pods.ts";
import { environmentWithout, type RemovedFenceRule } from "./removed-rules.ts";
import { apiServer, type CutScript, describe, nodeNames, type ScriptEvent } from "./scripts.ts";
import { scaledTimes } from "./times.ts";

const readyTimeoutMs = 60_000;
const taintTimeoutMs = 20_000;
const checkEveryMs = 500;
/** Of the log of a machine, where a script does not end. */
const lastLines = 20;
const sources = new URL("../../triggers/main.ts", import.meta.url).pathname;

/** What one script has shown. */
export interface ScriptOutcome {
  readonly violations: readonly string[];
  readonly history: readonly string[];
  readonly fences: readonly SeenFence[];
  readonly resets: number;
  readonly tookMs: number;
}

export class CutStage {
  readonly cluster: FencingCluster;
  readonly #pods: Pods;
  readonly #oracle: FenceOracle;
  readonly #startServer: () => Promise<Server>;
  #server: Server;
  /** A start of the server that is under way. */
  #starting: Promise<void> = Promise.resolve();
  /** Since when the function has run; undefined while it does not. */
  #runsSinceMs: number | undefined = performance.now();
  readonly #history: { readonly atMs: number; readonly line: string }[] = [];
  #startMs = 0;
  #scripts = 0;
  readonly #cuts = new Map<string, Cuts>();
  /** What goes on beside the events of a script: the pauses. */
  readonly #beside = new Set<Promise<void>>();
  #healing = new AbortController();

  private constructor(
    cluster: FencingCluster,
    oracle: FenceOracle,
    startServer: () => Promise<Server>,
    server: Server,
  ) {
    this.cluster = cluster;
    this.#pods = new Pods(cluster);
    this.#oracle = oracle;
    this.#startServer = startServer;
    this.#server = server;
  }

  /** Resolves when each agent is armed, with all others as its peers. */
  static async start(removed?: RemovedFenceRule): Promise<CutStage> {
    const without = removed === undefined ? {} : environmentWithout(removed);
    const cluster = await FencingCluster.start(
      nodeNames.length,
      removed?.from === "agent" ? without : {},
      removed?.watchdogMs === undefined ? scaledTimes : { ...scaledTimes, watchdogMs: removed.watchdogMs },
    );
    const notes: { to?: CutStage } = {};
    try {
      const { kubeconfig } = cluster.controlPlane;
      const settings = {
        FUNCTION: "fence-node",
        FENCE_NAMESPACE: namespace,
        FENCE_STORM: "100%",
        FENCE_MAX_CONCURRENT: "2",
        FENCE_MOST_PER_HOUR: "20",
        ...(removed?.from === "server" ? without : {}),
      };
      const program = removed?.from === "server" ? { program: sources } : {};
      const startServer = () => Server.start({ kubeconfig, namespace, settings, ...program });
      const oracle = await FenceOracle.follow(cluster, (line) => notes.to?.note(line));
      const stage = new CutStage(cluster, oracle, startServer, await startServer());
      notes.to = stage;
      await stage.#untilArmed();
      return stage;
    } catch (error) {
      await cluster.stop();
      throw error;
    }
  }

  async stop(): Promise<void> {
    this.#healing.abort();
    await this.#starting.catch(() => undefined);
    this.#server.setPaused(false);
    await this.#server.stop();
    this.#oracle.stop();
    await this.cluster.stop();
  }

  note(line: string): void {
    this.#history.push({ atMs: performance.now(), line });
  }

  #printed(): readonly string[] {
    const seconds = (atMs: number) => ((atMs - this.#startMs) / 1_000).toFixed(2).padStart(6);
    const lines = this.#history.toSorted((one, other) => one.atMs - other.atMs);
    return lines.map(({ atMs, line }) => `${seconds(atMs)} s  ${line}`);
  }

  /** Plays it, heals everything, and resolves when the cluster is clean and armed again. Rejects if it does not become so. */
  async play(script: CutScript): Promise<ScriptOutcome> {
    const number = ++this.#scripts;
    const names = script.marked.map((_, at) => `db-${number}-${at + 1}`);
    for (const [at, node] of script.marked.entries()) await this.#pods.startFirstOn(names[at] ?? "", node);
    this.#history.length = 0;
    this.#healing = new AbortController();
    this.#startMs = performance.now();
    this.#oracle.begin();
    const resetsBefore = this.cluster.machines.map(({ resets }) => resets.length);
    const checks = setInterval(() => this.#check(), checkEveryMs);
    try {
      for (const node of script.staysOff) this.cluster.machine(node).bootsAgain = false;
      for (const { atMs, event } of script.events) {
        await delay(Math.max(0, this.#startMs + atMs - performance.now()));
        this.note(describe(event));
        await this.#act(event);
      }
      while (performance.now() < this.#startMs + script.healsAtMs && !this.#oracle.hasOverlap)
        await delay(checkEveryMs / 5);
      await this.#heal();
      await this.#untilClean();
    } catch (error) {
      this.#oracle.violations.push(`L1: ${causesOf(error)}`);
      await this.#noteAgents();
    } finally {
      clearInterval(checks);
    }
    for (const [at, machine] of this.cluster.machines.entries())
      for (const { cause, atMs } of machine.resets.slice(resetsBefore[at]))
        this.#history.push({ atMs, line: `${machine.name} was reset by ${cause}` });
    await this.#oracle.conclude(blameless(script));
    const tookMs = performance.now() - this.#startMs;
    const { fences, resets, violations } = this.#oracle;
    for (const name of names) await this.#pods.remove(name);
    this.cluster.clearRuns();
    return { violations: [...violations], history: this.#printed(), fences, resets, tookMs };
  }

  #check(): void {
    this.#oracle.checkOverlaps();
    if (this.#runsSinceMs !== undefined) this.#oracle.checkCauses(this.#runsSinceMs);
  }

  async #act(event: ScriptEvent): Promise<void> {
    switch (event.kind) {
      case "mark":
        await this.cluster.mark(event.node);
        return;
      case "unmark":
        await this.cluster.patchNode(event.node, { metadata: { annotations: { "sluice.dev/unhealthy": null } } });
        return;
      case "far-end-down":
        return this.#cut(event.node, { isFarEndDown: true });
      case "own-end-down":
        return this.#cut(event.node, { isOwnEndDown: true });
      case "lose":
      case "refuse":
        for (const node of event.nodes) await this.#cutWays(node, event.kind, event.to);
        return;
      case "mend":
        return this.#mend();
      case "await-taint":
        await eventually("the taint", taintTimeoutMs, async () => (this.#isTainted(event.node) ? true : undefined), 2);
        return;
      case "pause-agent":
        this.#goBeside(this.#pauseAgent(this.cluster.machine(event.node), event.forMs));
        return;
      case "pause-function":
        this.#goBeside(this.#pauseFunction(event.forMs));
        return;
      case "kill-function":
        this.#starting = this.#restart();
        // It is awaited when everything is healed.
        this.#starting.catch(() => undefined);
    }
  }

  #goBeside(act: Promise<void>): void {
    const ended = act.catch((error: Error) => this.note(error.message)).finally(() => this.#beside.delete(ended));
    this.#beside.add(ended);
  }

  #isTainted(node: string): boolean {
    const last = this.cluster.history.findLast(({ metadata }) => metadata.name === node);
    return last?.spec.taints?.some((taint) => taint.key === "sluice.dev/fence") === true;
  }

  async #cut(node: string, more: Partial<Cuts>): Promise<void> {
    const cuts = { ...(this.#cuts.get(node) ?? noCuts), ...more };
    this.#cuts.set(node, cuts);
    await this.cluster.machine(node).setCuts(cuts);
  }

  #cutWays(node: string, how: "lose" | "refuse", to: readonly string[]): Promise<void> {
    const { lost, refused } = this.#cuts.get(node) ?? noCuts;
    const addresses = to.map((one) =>
      one === apiServer ? this.cluster.apiAddress : this.cluster.machine(one).address,
    );
    return this.#cut(
      node,
      how === "lose" ? { lost: [...lost, ...addresses] } : { refused: [...refused, ...addresses] },
    );
  }

  async #mend(): Promise<void> {
    this.#cuts.clear();
    await Promise.all(this.cluster.machines.map((machine) => machine.setCuts(noCuts)));
  }

  /** Ends early where everything is healed. */
  async #pause(forMs: number): Promise<void> {
    await delay(forMs, undefined, { signal: this.#healing.signal }).catch(() => undefined);
  }

  async #pauseAgent(machine: Machine, forMs: number): Promise<void> {
    if (!machine.isOn) return;
    const agent = await machine.signalAgent("SIGSTOP");
    await this.#pause(forMs);
    if (agent.end() === undefined) await machine.signalAgent("SIGCONT", agent);
  }

  async #pauseFunction(forMs: number): Promise<void> {
    await this.#starting;
    const server = this.#server;
    server.setPaused(true);
    this.#runsSinceMs = undefined;
    await this.#pause(forMs);
    server.setPaused(false);
    if (server === this.#server) this.#runsSinceMs ??= performance.now();
  }

  async #restart(): Promise<void> {
    await this.#starting;
    this.#runsSinceMs = undefined;
    await this.#server.kill();
    this.#server = await this.#startServer();
    this.#runsSinceMs = performance.now();
    this.note("the function runs again");
  }

  async #heal(): Promise<void> {
    this.note("everything is healed");
    this.#healing.abort();
    await this.#mend();
    await Promise.all([...this.#beside, this.#starting]);
    for (const machine of this.cluster.machines) {
      machine.bootsAgain = true;
      await machine.boot();
    }
  }

  /** A6, and everything is as a script may begin with. */
  async #untilClean(): Promise<void> {
    for (const machine of this.cluster.machines) await this.cluster.untilClean(machine);
    for (const machine of this.cluster.machines) await this.cluster.untilUp(machine);
    await this.#untilArmed();
    for (const machine of this.cluster.machines) machine.forgetBoots();
    await this.#forgetFences();
  }

  /** Scripts follow each other more quickly than fences of one node may: each begins as if an hour had passed. */
  async #forgetFences(): Promise<void> {
    const slots = leasePath(slotsName);
    if ((await this.cluster.find(slots)) !== undefined) await this.cluster.api.delete(slots);
  }

  /** What a script that does not end needs to be understood by: a replay may end. */
  async #noteAgents(): Promise<void> {
    for (const machine of this.cluster.machines) {
      const lease = await this.cluster.agentLease(machine.name).catch((error: Error) => error.message);
      this.note(`${machine.name} has the Lease ${JSON.stringify(lease)}`);
      for (const line of machine.log.trimEnd().split("\n").slice(-lastLines)) this.note(`${machine.name}: ${line}`);
    }
  }

  /** A survey of the function may have proposed keys that were right before a reset. */
  async #untilArmed(): Promise<void> {
    await eventually("all agents are armed, with all others as peers", readyTimeoutMs, async () => {
      await this.cluster.armAll();
      const prints = await Promise.all(
        nodeNames.map(async (node) => [node, `${node}=${fingerprintOf(await this.cluster.keyOf(node))}`] as const),
      );
      const lists = await Promise.all(
        nodeNames.map(async (node) => {
          const { annotations } = (await this.cluster.agentLease(node)).metadata;
          return [node, annotations?.["sluice.dev/agent-peers"]?.split(" ") ?? []] as const;
        }),
      );
      const isComplete = ([node, list]: (typeof lists)[number]) =>
        prints.every(([peer, print]) => peer === node || list.includes(print));
      return lists.every(isComplete) ? true : undefined;
    });
  }
}

/** The messages of an error and of each error behind it. */
function causesOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause === undefined ? error.message : `${error.message}, because ${causesOf(error.cause)}`;
}

/** The nodes that are neither marked nor paused, and that always reach the API server. */
function blameless({ marked, events }: CutScript): readonly string[] {
  const isHit = (node: string) => {
    const hits = ({ event }: CutScript["events"][number]) => {
      if ("nodes" in event) return event.nodes.includes(node);
      return "node" in event && event.node === node;
    };
    return marked.includes(node) || events.some(hits);
  };
  return nodeNames.filter((node) => !isHit(node));
}
