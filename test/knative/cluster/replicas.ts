/** The Deployment that answers reviews, as it is rendered: its replicas as processes, and its Service before them. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { Api, eventually } from "../../controlplane/api.ts";
import type { ControlPlane } from "../../controlplane/controlplane.ts";
import { freePort, releasePorts } from "../../controlplane/ports.ts";
import { type Launched, launch } from "../../controlplane/processes.ts";
import { TcpProxy } from "../../support/drain-proxy.ts";
import { kubeconfigOf, workloadOf } from "../../support/installed.ts";
import type { Built } from "../../support/kubectl.ts";
import { sumOf } from "../../support/server.ts";

const name = "sluice-admission";
const graceMs = 30_000;

interface Replica {
  readonly process: Launched;
  readonly port: number;
  readonly tlsPort: number;
}

export interface ReplicasOptions {
  readonly controlPlane: ControlPlane;
  readonly namespace: string;
  /** The overlay that the Deployment stands in. */
  readonly objects: readonly Built[];
  /** The built server: its `start.cjs`. */
  readonly program: string;
  /** Has the replicas find pods that are servers of this machine: `NODE_OPTIONS`. Default: they find none. */
  readonly nodeOptions?: string | undefined;
}

export class Replicas {
  readonly #options: ReplicasOptions;
  /** Ports of the Service: reviews, and events with metrics. */
  readonly #secure: TcpProxy;
  readonly #plain: TcpProxy;
  readonly #replicas: Replica[] = [];
  #started = 0;

  private constructor(options: ReplicasOptions, secure: TcpProxy, plain: TcpProxy) {
    this.#options = options;
    this.#secure = secure;
    this.#plain = plain;
  }

  /**
   * Resolves when as many replicas as the Deployment wants listen; they are ready once there is a certificate. Throws if one
   * cannot be started, after ending the others, with the last lines of its log.
   */
  static async start(options: ReplicasOptions): Promise<Replicas> {
    const replicas = new Replicas(options, await TcpProxy.start(), await TcpProxy.start());
    const deployment = options.objects.find((one) => one.kind === "Deployment" && one.metadata.name === name);
    const count = (deployment as { spec?: { replicas?: number } } | undefined)?.spec?.replicas ?? 1;
    const begun = await Promise.allSettled(Array.from({ length: count }, () => replicas.#startOne()));
    const failed = begun.find((one) => one.status === "rejected");
    if (failed === undefined) return replicas;
    await replicas.close();
    throw failed.reason;
  }

  /** Where reviews go. */
  get port(): number {
    return this.#secure.port;
  }

  /** Where events and requests for metrics go. */
  get plainPort(): number {
    return this.#plain.port;
  }

  /** How many run. */
  get count(): number {
    return this.#replicas.length;
  }

  /** What each of them says of a metric. */
  metrics(name: string, labels: Readonly<Record<string, string>>): Promise<number[]> {
    const texts = this.#replicas.map(async ({ port }) => (await fetch(`http://127.0.0.1:${port}/metrics`)).text());
    return Promise.all(texts.map(async (text) => sumOf(await text, name, labels)));
  }

  /** SIGKILL to the oldest; resolves when another one listens in its place. */
  async killOne(): Promise<void> {
    const [victim] = this.#replicas;
    if (victim === undefined) return;
    this.#drop(victim);
    victim.process.signal("SIGKILL");
    await this.#startOne();
  }

  async close(): Promise<void> {
    const all = [...this.#replicas];
    for (const replica of all) this.#drop(replica);
    await Promise.all(all.map((replica) => replica.process.stop(graceMs)));
    await Promise.all([this.#secure.close(), this.#plain.close()]);
  }

  #drop(replica: Replica): void {
    this.#replicas.splice(this.#replicas.indexOf(replica), 1);
    this.#secure.remove(replica.tlsPort);
    this.#plain.remove(replica.port);
  }

  async #startOne(): Promise<void> {
    const { controlPlane, namespace, objects, program, nodeOptions } = this.#options;
    const { account, settings } = workloadOf(objects, name);
    const api = await Api.open(controlPlane, { userAgent: "sluice-test-replicas", connections: 1 });
    const kubeconfig = await kubeconfigOf(controlPlane, api, namespace, account);
    await api.close();
    const [port, tlsPort] = [await freePort(), await freePort()];
    const names = nodeOptions === undefined ? {} : { NODE_OPTIONS: nodeOptions };
    const ports = { PORT: `${port}`, TLS_PORT: `${tlsPort}`, SHUTDOWN_DELAY: "0" };
    const env = { KUBECONFIG: kubeconfig, NAMESPACE: namespace, ...settings, ...names, ...ports };
    const file = join(controlPlane.directory, "logs", `${namespace}-${name}-${++this.#started}.log`);
    const launched = launch(process.execPath, [program], { env, output: { file } });
    void launched.ended.then(() => releasePorts(port, tlsPort));
    await eventually(`${name} listening`, 30_000, async () => {
      const end = launched.end();
      if (end !== undefined)
        throw new Error(`it ended with ${end.summary}: ${(await readFile(file, "utf8")).slice(-2_000)}`);
      return (await fetch(`http://127.0.0.1:${port}/healthz`)).ok ? true : undefined;
    });
    this.#replicas.push({ process: launched, port, tlsPort });
    this.#secure.add(tlsPort);
    this.#plain.add(port);
  }
}
