/** Processes of two versions behind one door: one at a time is exchanged, and what each version has done is counted. */
import type { Presented } from "../../stage/drain-webhook.ts";
import type { Scene } from "../../stage/scene.ts";
import type { LogLine, Server } from "../../stage/server.ts";
import { seededRandom } from "../../world/random.ts";
import { ReviewDoor } from "../lag/review-door.ts";

export type Version = "older" | "newer";

/** What a version has done at least, in all of its processes: what each did in its last half second may be missing. */
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

export class Processes {
  readonly #scene: Scene;
  readonly #settings: Presented["settings"];
  readonly #checkouts: Readonly<Record<Version, string>>;
  readonly #door: ReviewDoor;
  readonly #ports: number[];
  readonly #running: Running[] = [];
  readonly done: Readonly<Record<Version, Done>> = {
    older: { deleted: 0, allowed: 0, refused: 0 },
    newer: { deleted: 0, allowed: 0, refused: 0 },
  };
  /** What each process that has ended said as an error. */
  readonly complaints: string[] = [];

  private constructor(
    scene: Scene,
    settings: Presented["settings"],
    checkouts: Readonly<Record<Version, string>>,
    door: ReviewDoor,
    ports: number[],
  ) {
    this.#scene = scene;
    this.#settings = settings;
    this.#checkouts = checkouts;
    this.#door = door;
    this.#ports = ports;
  }

  /** Resolves when two of the older version are ready. They end with the scene. @param checkouts the tree of each version */
  static async start(
    scene: Scene,
    certificate: Presented,
    checkouts: Readonly<Record<Version, string>>,
  ): Promise<Processes> {
    const ports: number[] = [];
    const door = await ReviewDoor.open(certificate, ports, seededRandom(1));
    scene.afterwards(() => door.close());
    const processes = new Processes(scene, certificate.settings, checkouts, door, ports);
    for (const version of ["older", "older"] as const) await processes.#begin(version);
    return processes;
  }

  /** Where reviews are sent: each goes to one of those that run. */
  get port(): number {
    return this.#door.port;
  }

  /** Such as `older, newer`. */
  get names(): string {
    return this.#running.map(({ version }) => version).join(", ");
  }

  /** As a Deployment does: one more is started, and asked once it is ready; then the oldest is asked no more, and ends. */
  async exchange(version: Version): Promise<void> {
    await this.#begin(version);
    const [leaving] = this.#running;
    if (leaving !== undefined) await this.#end(leaving);
  }

  /** Ends all of them, and counts what they did. */
  async end(): Promise<void> {
    for (const running of [...this.#running]) await this.#end(running);
  }

  async #begin(version: Version): Promise<void> {
    const server = await this.#scene.serve(this.#settings, { checkout: this.#checkouts[version] });
    await server.ready();
    this.#ports.push(server.tlsPort);
    this.#running.push({ version, server });
  }

  async #end(running: Running): Promise<void> {
    const { version, server } = running;
    this.#running.splice(this.#running.indexOf(running), 1);
    this.#ports.splice(this.#ports.indexOf(server.tlsPort), 1);
    await this.#count(running);
    const { code, summary } = await server.stop();
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
