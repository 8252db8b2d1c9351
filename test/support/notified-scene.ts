/** A group whose pods are told before they leave, on a real control plane, with ingesters that answer and two servers. */
import { eventually } from "../controlplane/api.ts";
import { TcpProxy } from "./drain-proxy.ts";
import type { EvictionStage } from "./eviction-stage.ts";
import { Ingesters } from "./ingester.ts";
import { Scene, type SceneOptions } from "./scene.ts";
import type { Server } from "./server.ts";
import { registerSizes } from "./size-webhooks.ts";

export const shutdownPath = "/ingester/prepare-shutdown";

export interface NotifiedScene {
  readonly scene: Scene;
  readonly ingesters: Ingesters;
  readonly servers: readonly [Server, Server];
  /** The address that the API server asks. The proxy leads to the servers that are added to it. */
  readonly proxy: TcpProxy;
  /** Aborted when the scene closes. */
  readonly signal: AbortSignal;
}

export interface NotifiedOptions extends SceneOptions {
  /** More settings for the servers. */
  readonly settings?: Readonly<Record<string, string>>;
  /** Number of servers that the API server asks. */
  readonly asked: 1 | 2;
}

/** Two replicas, with both webhooks for sizes registered. The ledger is old enough for both. Everything ends with the scene. */
export async function setNotifiedScene(
  { controlPlane, certificate }: EvictionStage,
  name: string,
  { settings, asked, ...options }: NotifiedOptions,
): Promise<NotifiedScene> {
  const ingesters = await Ingesters.open({ shutdownPath });
  const labels = { "grafana.com/prepare-downscale": "true", ...options.labels };
  const annotations = {
    "grafana.com/prepare-downscale-http-path": shutdownPath,
    "grafana.com/prepare-downscale-http-port": String(ingesters.port),
    ...options.annotations,
  };
  const scene = await Scene.set(controlPlane, name, { ...options, labels, annotations });
  const ending = new AbortController();
  scene.afterwards(async () => {
    ending.abort();
    await ingesters.close();
  });
  try {
    await ingesters.followPods(scene.api, name, ending.signal);
    const given = { ...certificate.settings, NODE_OPTIONS: ingesters.nodeOptions, ...settings };
    const servers = await Promise.all([scene.serve(given), scene.serve(given)]);
    await Promise.all(servers.map((server) => server.ready()));
    const proxy = await TcpProxy.start();
    scene.afterwards(() => proxy.close());
    for (const { tlsPort } of servers.slice(0, asked)) proxy.add(tlsPort);
    await registerSizes(scene.api, name, { port: proxy.port, ca: certificate.ca });
    await Promise.all(servers.map((server) => scene.waitForOldLedger(server)));
    return { scene, ingesters, servers, proxy, signal: ending.signal };
  } catch (error) {
    console.error(await scene.describe());
    await scene.close();
    throw error;
  }
}

/** The text of the claims in the group's ledger; empty if there are none. */
export async function claimsOf({ api, ledgerPath }: Scene): Promise<string> {
  const { metadata } = await api.get<{ metadata: { annotations?: Record<string, string> } }>(ledgerPath);
  return metadata.annotations?.["sluice.dev/claims"] ?? "";
}

/** Resolves when the ledger holds no claim. */
export async function waitForNoClaim(scene: Scene, timeoutMs = 30_000): Promise<void> {
  await eventually("no claim in the ledger", timeoutMs, async () =>
    (await claimsOf(scene)) === "" ? true : undefined,
  );
}
