/** Sluice as it ships: the server in a process of its own, seen only through its ports and its log. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Status } from "../../functions/shared/contract/status.ts";
import { eventually } from "../controlplane/api.ts";
import { type End, type Launched, launch } from "../controlplane/processes.ts";

const here = join(import.meta.dirname, "../..");

export interface ServerOptions {
  readonly kubeconfig: string;
  /** The setting NAMESPACE: one or several. */
  readonly namespace: string;
  /** More settings. */
  readonly settings?: Readonly<Record<string, string>>;
  /** Flags for its Node. */
  readonly flags?: readonly string[];
  /** Arguments of its command line. */
  readonly args?: readonly string[];
  /** The checkout that is started. Default: this one. */
  readonly checkout?: string;
  /** The program that is started: `start.cjs` of a built server. Default: the build of `npm test`, or else the sources. */
  readonly program?: string;
}

/** The build that `npm test` has made of this tree, as in the image: it starts in a third of the time. */
const built = process.env.SLUICE_TEST_SERVER;

function programOf({ program, checkout }: ServerOptions): string {
  if (program !== undefined) return program;
  if (checkout === undefined && built !== undefined) return built;
  return join(checkout ?? here, "triggers/main.ts");
}

/** A line of the server's log. */
export interface LogLine {
  readonly level: string;
  readonly msg: string;
  readonly [field: string]: unknown;
}

/** Starts the server and does not wait for anything. */
export function launchServer(options: ServerOptions): Launched {
  const { kubeconfig, namespace, settings, flags = [], args = [], checkout = here } = options;
  const env = {
    PATH: process.env.PATH,
    KUBECONFIG: kubeconfig,
    NAMESPACE: namespace,
    PORT: "0",
    // No Service leads to this server.
    SHUTDOWN_DELAY: "0",
    // As in `npm start`: stripping the types of every module again takes longer than the rest of a start.
    NODE_COMPILE_CACHE: join(checkout, "node_modules/.cache/node"),
    ...settings,
  };
  return launch(process.execPath, [...flags, programOf(options), ...args], { env, output: "pipe" });
}

export class Server {
  readonly #launched: Launched;
  readonly #port: number;
  readonly #hasTls: boolean;

  private constructor(launched: Launched, port: number, hasTls: boolean) {
    this.#launched = launched;
    this.#port = port;
    this.#hasTls = hasTls;
  }

  /** Resolves when it listens. Otherwise throws with its output. */
  static async start(options: ServerOptions): Promise<Server> {
    const launched = launchServer(options);
    const port = await eventually("the server listening", 30_000, async () => {
      const line = linesOf(launched).find(({ msg }) => msg.startsWith("listening on port"));
      if (launched.end() !== undefined) return 0;
      return line === undefined ? undefined : Number(line.port);
    }).catch(() => 0);
    const { TLS_PORT: tls = "off" } = options.settings ?? {};
    if (port > 0) return new Server(launched, port, tls !== "off");
    const { summary } = await launched.stop(0);
    throw new Error(`the server did not start (${summary}): ${launched.printed().stdout}${launched.printed().stderr}`);
  }

  get log(): readonly LogLine[] {
    return linesOf(this.#launched);
  }

  /** Resolves when it reports that it can decide, and its log has named the TLS port. */
  async ready(): Promise<void> {
    let reported = "";
    await eventually("the server ready", 30_000, async () => {
      const answer = await fetch(`${this.url}/readyz`);
      reported = await answer.text();
      return answer.status === 200 ? true : undefined;
    }).catch((error: Error) => {
      throw new Error(`${error.message}: ${reported}`, { cause: error });
    });
    // The HTTP answer may be faster than the log, which comes through a pipe.
    if (this.#hasTls) await eventually("the TLS port said", 10_000, async () => this.#loggedTlsPort());
  }

  /** The most memory that the server has had, in MiB. Only Linux reports this. */
  async peakMebibytes(): Promise<number> {
    const status = await readFile(`/proc/${this.#launched.pid}/status`, "utf8");
    return Number(/^VmHWM:\s*(\d+) kB$/m.exec(status)?.[1]) / 1024;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** The port for reviews over TLS, which the server logs as soon as it listens. Throws if it has none. */
  get tlsPort(): number {
    const port = this.#loggedTlsPort();
    if (port === undefined) throw new Error("the server has no port for reviews");
    return port;
  }

  #loggedTlsPort(): number | undefined {
    const port = this.log.find(({ tlsPort }) => tlsPort !== undefined)?.tlsPort;
    return typeof port === "number" ? port : undefined;
  }

  /** The sum of a metric's series that have all these labels. */
  async metric(name: string, labels: Readonly<Record<string, string>> = {}): Promise<number> {
    const text = await (await fetch(`${this.url}/metrics`)).text();
    return sumOf(text, name, labels);
  }

  /** The status by its own port, which the server logs. */
  async status(): Promise<Status> {
    const port = await eventually("the port of the status", 10_000, async () => {
      const line = this.log.find(({ statusPort }) => statusPort !== undefined);
      return typeof line?.statusPort === "number" ? line.statusPort : undefined;
    });
    return (await (await fetch(`http://127.0.0.1:${port}/?format=json`)).json()) as Status;
  }

  /** SIGKILL: the server cannot finish anything. */
  async kill(): Promise<End> {
    this.#launched.signal("SIGKILL");
    return this.#launched.ended;
  }

  /** SIGSTOP, or SIGCONT. */
  setPaused(isPaused: boolean): void {
    this.#launched.signal(isPaused ? "SIGSTOP" : "SIGCONT");
  }

  /** SIGTERM. */
  stop(graceMs = 10_000): Promise<End> {
    return this.#launched.stop(graceMs);
  }
}

/** The sum of a metric's series that have all these labels, in a text of Prometheus. */
export function sumOf(text: string, name: string, labels: Readonly<Record<string, string>>): number {
  const wanted = Object.entries(labels).map(([label, value]) => `${label}="${value}"`);
  return text
    .split("\n")
    .filter((line) => line.startsWith(`${name}{`) && wanted.every((pair) => line.includes(pair)))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" ") + 1)), 0);
}

function linesOf(launched: Launched): LogLine[] {
  return launched
    .printed()
    .stdout.split("\n")
    .flatMap((line) => {
      try {
        return [JSON.parse(line) as LogLine];
      } catch {
        // The last line may be incomplete.
        return [];
      }
    });
}
