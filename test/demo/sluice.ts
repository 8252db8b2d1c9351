/** The shipped server in a process of its own, as `npm start` runs it. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type End, type Launched, launch } from "../controlplane/processes.ts";
import { kubeconfigText } from "../support/kubeconfig.ts";

const script = fileURLToPath(new URL("../../triggers/main.ts", import.meta.url));
/** Time within which it must end on request. */
const graceMs = 5_000;

/** A line of Sluice's log. */
export interface LogLine {
  readonly level: string;
  readonly msg: string;
  /** The function that logged it. */
  readonly function?: string;
  readonly guard?: string;
  readonly zone?: string;
  /** Code of a refused review. */
  readonly code?: number;
  readonly port?: number;
  readonly tlsPort?: number;
  readonly statusPort?: number;
}

export interface SluiceOptions {
  /** Address of the API server. */
  readonly url: string;
  readonly namespace: string;
  /** `NODE_OPTIONS` with which it resolves the names of pods. */
  readonly nodeOptions: string;
  readonly hasPage: boolean;
}

export class Sluice {
  readonly #process: Launched;
  readonly #folder: string;
  #read = 0;
  #port: number | undefined;
  #tlsPort: number | undefined;
  #statusPort: number | undefined;

  private constructor(launched: Launched, folder: string) {
    this.#process = launched;
    this.#folder = folder;
  }

  /** Starts Sluice with a kubeconfig in a temporary folder, and with nothing of this process's environment but PATH. */
  static async start({ url, namespace, nodeOptions, hasPage }: SluiceOptions): Promise<Sluice> {
    const folder = await mkdtemp(join(tmpdir(), "sluice-demo-"));
    const kubeconfig = join(folder, "kubeconfig");
    await writeFile(kubeconfig, kubeconfigText(url, {}, namespace));
    const env = {
      PATH: process.env.PATH,
      HOME: folder,
      KUBECONFIG: kubeconfig,
      NODE_OPTIONS: nodeOptions,
      PORT: "0",
      TLS_PORT: "0",
      TLS_DNS_NAME: "localhost",
      // At the usual level, a guard's refusals are logged only once a minute.
      LOG_LEVEL: "debug",
      // While a third of the events is lost, sweeps drive the rollout: with the default of minutes it would take hours.
      SWEEP_INTERVAL: "2s",
      DRAIN_TIMEOUT: "3s",
      SHUTDOWN_DELAY: "0",
      STATUS_LISTEN: hasPage ? "127.0.0.1:0" : "off",
    };
    const launched = launch(process.execPath, [script], { env, output: "pipe" });
    return new Sluice(launched, folder);
  }

  /** How it ended; undefined while it runs. */
  end(): End | undefined {
    return this.#process.end();
  }

  /** Port for reviews; undefined until it has made a certificate for itself. */
  get tlsPort(): number | undefined {
    return this.#tlsPort;
  }

  /** URL of its page; undefined until it shows one. */
  get pageUrl(): string | undefined {
    return this.#statusPort === undefined ? undefined : `http://127.0.0.1:${this.#statusPort}/`;
  }

  /** The lines that it has logged since the last call. */
  newLines(): LogLine[] {
    const { stdout } = this.#process.printed();
    const end = stdout.lastIndexOf("\n") + 1;
    const text = stdout.slice(this.#read, end);
    this.#read = Math.max(this.#read, end);
    const lines = text.split("\n").flatMap(parseLine);
    this.#port ??= lines.find(({ port }) => port !== undefined)?.port;
    this.#statusPort ??= lines.find(({ statusPort }) => statusPort !== undefined)?.statusPort;
    this.#tlsPort ??= lines.find(({ tlsPort }) => tlsPort !== undefined)?.tlsPort;
    return lines;
  }

  /** The last lines of its output. */
  lastLines(count: number): string[] {
    const { stdout, stderr } = this.#process.printed();
    return `${stdout}${stderr}`.trimEnd().split("\n").slice(-count);
  }

  /** True once it reports that it is ready: its first lists have come, and it has a certificate. */
  async isReady(): Promise<boolean> {
    if (this.#port === undefined) return false;
    try {
      return (await fetch(`http://127.0.0.1:${this.#port}/readyz`)).ok;
    } catch {
      return false;
    }
  }

  /** Ends it, by force if necessary. */
  async stop(): Promise<End> {
    const end = await this.#process.stop(graceMs);
    await rm(this.#folder, { recursive: true, force: true });
    return end;
  }
}

function parseLine(line: string): LogLine[] {
  try {
    return [JSON.parse(line) as LogLine];
  } catch {
    return [];
  }
}
