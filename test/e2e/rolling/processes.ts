/** Processes of two versions behind one Service: one at a time is replaced, and the acts of each version are counted. */
import { eventually } from "../../controlplane/api.ts";
import { TcpProxy } from "../../support/drain-proxy.ts";
import type { Scene } from "../../support/scene.ts";
import type { LogLine, Server } from "../../support/server.ts";

export type Version = "older" | "newer";

/** The least number of a version's acts, in all of its processes: those of each one's last half second may be missing. */
export interface Done {
  /** Pods that its rollouts deleted. */
  deleted: number;
  /** Reviews of evictions, dry runs too. */
  allowed: number;
  refused: number;
}

interface Running {
  readonly version: Version;
  readonly server: Server;
}

/** From SIGTERM until a process has ended, by `performance.now()`. */
export interface Ending {
  readonly version: Version;
  readonly fromMs: number;
  readonly toMs: number;
}

/** The certificate is that of the Secret which they share. As in a Deployment, a process answers for a while after SIGTERM. */
const settings = { TLS_PORT: "0", SHUTDOWN_DELAY: "3s" };

export class Processes {
  readonly #scene: Scene;
  readonly #checkouts: Readonly<Record<Version, string>>;
  readonly #proxy: TcpProxy;
  readonly #running: Running[] = [];
  readonly done: Readonly<Record<Version, Done>> = {
    older: { deleted: 0, allowed: 0, refused: 0 },
    newer: { deleted: 0, allowed: 0, refused: 0 },
  };
  /** The errors of each process that has ended. */
  readonly complaints: string[] = [];
  readonly endings: Ending[] = [];

  private constructor(scene: Scene, checkouts: Readonly<Record<Version, string>>, proxy: TcpProxy) {
    this.#scene = scene;
    this.#checkouts = checkouts;
    this.#proxy = proxy;
  }

  /** Resolves when two of the older version are ready. They end with the scene. @param checkouts the tree of each version */
  static async start(scene: Scene, checkouts: Readonly<Record<Version, string>>): Promise<Processes> {
    const proxy = await TcpProxy.start();
    scene.afterwards(() => proxy.close());
    const processes = new Processes(scene, checkouts, proxy);
    for (const version of ["older", "older"] as const) await processes.#begin(version);
    return processes;
  }

  /** The target of reviews: each connection goes to one of the running processes. */
  get port(): number {
    return this.#proxy.port;
  }

  /** Such as `older, newer`. */
  get names(): string {
    return this.#running.map(({ version }) => version).join(", ");
  }

  /** Resolves when each of them requires the key of API servers on `path`, or when none does. */
  async askForKey(path: string, isAsked: boolean): Promise<void> {
    await eventually(isAsked ? "the key asked for" : "the key not asked for", 60_000, async () => {
      const gauges = this.#running.map(({ server }) => server.metric("sluice_review_key_asked", { path }));
      return (await Promise.all(gauges)).every((gauge) => (gauge === 1) === isAsked) ? true : undefined;
    });
  }

  /** As a Deployment does: one more is started, and gets reviews once it is ready; then the oldest gets no more, and ends. */
  async exchange(version: Version): Promise<void> {
    await this.#begin(version);
    const [leaving] = this.#running;
    if (leaving !== undefined) await this.#end(leaving);
  }

  /** Ends all of them, and counts their acts. */
  async end(): Promise<void> {
    for (const running of [...this.#running]) await this.#end(running);
  }

  async #begin(version: Version): Promise<void> {
    const server = await this.#scene.serve(settings, { checkout: this.#checkouts[version] });
    await server.ready();
    this.#proxy.add(server.tlsPort);
    this.#running.push({ version, server });
  }

  async #end(running: Running): Promise<void> {
    const { version, server } = running;
    this.#running.splice(this.#running.indexOf(running), 1);
    this.#proxy.remove(server.tlsPort);
    await this.#count(running);
    const fromMs = performance.now();
    const { code, summary } = await server.stop();
    this.endings.push({ version, fromMs, toMs: performance.now() });
    if (code !== 0) this.complaints.push(`${version}: it ended with ${summary}`);
    const isError = ({ level }: LogLine) => level === "error" || level === "fatal";
    for (const { msg } of server.log.filter(isError)) this.complaints.push(`${version}: ${msg}`);
  }

  async #count({ version, server }: Running): Promise<void> {
    const acts = { function: "advance-zone-rollout", action: "delete", result: "done" };
    const reviews = { function: "evaluate-eviction" };
    const allowed = await server.metric("sluice_verdicts_total", { ...reviews, guard: "allowed" });
    const done = this.done[version];
    done.deleted += await server.metric("sluice_acts_total", acts);
    done.allowed += allowed;
    done.refused += (await server.metric("sluice_verdicts_total", reviews)) - allowed;
  }
}
