/** What a rollout on Knative needs, started for a suite of tests, and what tests wait for there. */
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { Api, eventually } from "../../controlplane/api.ts";
import { type ControlPlane, startControlPlane } from "../../controlplane/controlplane.ts";
import { tail } from "../../controlplane/processes.ts";
import { buildServer } from "../../support/built-server.ts";
import type { Verdict } from "../../support/history.ts";
import { playIn, Scene, type SceneOptions, skipWithoutControlPlane } from "../../support/scene.ts";
import { findDataPlane, skipWithoutDataPlane } from "../dataplane/programs.ts";
import type { Activator } from "./activator.ts";
import { KnativeCluster } from "./cluster.ts";
import { type Installation, type InstallationOptions, install, installKnative } from "./installation.ts";
import { listIn, lists } from "./objects.ts";

export interface Stage {
  readonly controlPlane: ControlPlane;
  readonly cluster: KnativeCluster;
  /** Resolves when an overlay is installed in a namespace, and a group there is ready: in this order, so that its events come. */
  set(overlay: InstallationOptions["overlay"], namespace: string, options: SetOptions): Promise<Act>;
  close(): Promise<void>;
}

export interface SetOptions extends SceneOptions, Pick<InstallationOptions, "patches" | "admission"> {}

/** A group in a namespace with an overlay, and the function that rolls it. */
export interface Act extends Installation {
  readonly scene: Scene;
  /** Of advance-zone-rollout. */
  readonly activator: Activator;
  /** As `play` of scenes does; a failure also says what the cluster said last, and how the logs of the namespace end. */
  play(work: (scene: Scene) => Promise<void>): Promise<Verdict>;
  /** Takes its functions and sources away: their ticks would start functions as long as the stage is there. */
  uninstall(): Promise<void>;
  /** Ends the scene, unless its play has. */
  close(): Promise<void>;
}

/** Whether the suites on Knative's data plane are skipped. In CI they fail instead. */
export async function skipWithoutKnative(): Promise<boolean> {
  return (await skipWithoutControlPlane()) || skipWithoutDataPlane();
}

/**
 * @param stableWindowMs without a request for so long, a function ends
 * @param nodeOptions of all functions: how they find pods by their names
 */
export async function startStage(stableWindowMs: number, nodeOptions?: string): Promise<Stage> {
  const log: string[] = [];
  const report = (line: string): void => void log.push(`${new Date().toISOString().slice(11, 23)} ${line}`);
  const ends: (() => Promise<void>)[] = [];
  const close = async (): Promise<void> => {
    for (const end of ends.splice(0).reverse()) await end();
  };
  try {
    const dataPlane = await findDataPlane(report);
    const server = await buildServer();
    ends.push(server.remove);
    const controlPlane = await startControlPlane();
    ends.push(controlPlane.stop);
    await installKnative(controlPlane);
    const { program } = server;
    const names = nodeOptions === undefined ? {} : { nodeOptions };
    const cluster = await KnativeCluster.start({
      controlPlane,
      dataPlane,
      program,
      stableWindowMs,
      log: report,
      ...names,
    });
    ends.push(() => cluster.close());
    const set: Stage["set"] = async (overlay, namespace, options) => {
      const installation = await install(cluster, { ...options, namespace, overlay });
      const scene = await Scene.set(controlPlane, namespace, options);
      const act = actOf(cluster, installation, scene, options, log);
      // A play that never began, because a test failed before it.
      ends.push(() => act.close());
      return act;
    };
    return { controlPlane, cluster, set, close };
  } catch (error) {
    await close();
    throw error;
  }
}

function actOf(
  cluster: KnativeCluster,
  installation: Installation,
  scene: Scene,
  options: SetOptions,
  log: readonly string[],
): Act {
  const { namespace } = installation;
  const activator = cluster.service(namespace, "advance-zone-rollout");
  if (activator === undefined) throw new Error(`nothing of ${namespace} would roll anything`);
  let over = false;
  const play: Act["play"] = async (work) => {
    over = true;
    try {
      return await playIn(scene, options, work);
    } catch (error) {
      console.error(["what the cluster said last:", ...log.slice(-40)].join("\n"));
      const folder = join(cluster.controlPlane.directory, "logs", namespace);
      for (const file of await readdir(folder)) console.error(`${file}:\n${await tail(join(folder, file), 10)}`);
      throw error;
    }
  };
  const uninstall = async () => {
    const api = await Api.open(cluster.controlPlane, { userAgent: "sluice-test-user", connections: 1 });
    // Those who send first.
    for (const list of [lists.pingSources, lists.apiServerSources, lists.triggers, lists.brokers, lists.services])
      await api.delete(listIn(list, namespace));
    await api.close();
  };
  const close = async () => {
    if (!over) await scene.close();
  };
  return { ...installation, scene, activator, play, uninstall, close };
}

/** Resolves when nothing of the function runs. */
export async function waitForZero(activator: Activator, timeoutMs = 60_000): Promise<void> {
  await eventually("the function at zero", timeoutMs, async () => (activator.scale === 0 ? true : undefined));
}

/**
 * Resolves when the ledger permits a function that has just started. Before, a function must have known the ledger for ten
 * seconds (rule R4), and one that comes and goes within less never has.
 */
export async function waitForOldLedger({ api, ledgerPath }: Scene): Promise<void> {
  await eventually("the ledger older than any doubt", 90_000, async () => {
    const { metadata } = await api.get<{ metadata: { creationTimestamp: string } }>(ledgerPath);
    return Date.now() - Date.parse(metadata.creationTimestamp) > 42_000 ? true : undefined;
  });
}
