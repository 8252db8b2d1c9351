/** Releases that are about to go: as a subchart, with a namespace of theirs that is deleted, and without an API server. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { presets } from "../../triggers/table.ts";
import type { Api } from "../controlplane/api.ts";
import { writeKubeconfig } from "../controlplane/configuration.ts";
import type { ControlPlane } from "../controlplane/controlplane.ts";
import { askForFinalizers, serveInstalled, typeInPod } from "../support/away.ts";
import { TcpProxy } from "../support/drain-proxy.ts";
import { type Helm, parentChart, someImage } from "../support/helm.ts";
import { kubeconfigOf, workloadOf } from "../support/installed.ts";
import type { Built, Kubectl } from "../support/kubectl.ts";
import { play, type Scene } from "../support/scene.ts";
import { launchServer, Server } from "../support/server.ts";

interface Cluster {
  readonly controlPlane: ControlPlane;
  readonly kubectl: Kubectl;
}

/** A release of a parent chart in which Sluice serves a group, and which is changed as the manual says. */
interface Subchart {
  readonly scene: Scene;
  /** A replica from before any step. */
  readonly old: Server;
  /** Types a step of the manual, and waits for the Deployment where it is still there. */
  type(step: "prepare" | "disable" | "enable"): Promise<void>;
  check(): ReturnType<typeof typeInPod>;
  manifest(): Promise<string>;
}

/** Installs a parent chart with the shipped one in it, and has objects hold finalizers of Sluice. */
export async function playSubchart(
  { controlPlane, kubectl }: Cluster,
  helm: Helm,
  alias: string | undefined,
  work: (played: Subchart) => Promise<void>,
): Promise<void> {
  const namespace = `leave-sub-${helm.major}`;
  const place = ["prod", "--namespace", namespace];
  const key = alias ?? "sluice";
  const { folder, remove } = await parentChart(0, alias);
  const commands = await kubectl.commandsOf("chart/README.md", "In a parent chart");
  const [prepare = "", wait = "", check = "", disable = "", enable = ""] = commands.map((line) =>
    line.replaceAll("mimir", namespace).replace("PARENT", folder).replaceAll(" sluice.", ` ${key}.`),
  );
  const lines = { prepare, disable, enable };
  try {
    await play(controlPlane, namespace, { zones: 2, pods: 2 }, async (scene) => {
      // No stop hook reads labels here, so that an owner which is being deleted need not wait for its pods to see them.
      const settings = { SKIP_LABEL_WAIT: "0" };
      const own = { enabled: true, ...someImage, functions: Object.keys(presets), settings };
      await helm.run("install", ...place, folder, ...(await helm.values({ [key]: own })));
      const old = await serveInstalled(scene);
      await askForFinalizers(scene);
      await work({
        scene,
        old,
        async type(step) {
          await helm.run(...lines[step].split(" ").slice(1));
          if (step !== "disable") await kubectl.shell(wait);
        },
        check: () => typeInPod(scene, check),
        manifest: () => helm.run("get", "manifest", ...place),
      });
    });
  } finally {
    await remove();
  }
}

/** Installs the overlay `outside` by the last commands of a chapter, and runs here what its pod would. */
export async function serveOutside(
  { controlPlane, kubectl }: Cluster,
  api: Api,
  commands: readonly string[],
): Promise<Server> {
  const [, kustomization = assert.fail()] = /<<'EOF'\n([\s\S]*)\nEOF\n/.exec(commands.join("\n")) ?? [];
  const [create = "", apply] = commands.slice(-2);
  assert.equal(apply, "kubectl apply -k .");
  await kubectl.shell(create);
  await kubectl.applyKustomization(kustomization);
  const path = "/apis/apps/v1/namespaces/sluice-system/deployments/sluice-outside";
  const deployment = { ...(await api.get<Built>(path)), apiVersion: "apps/v1", kind: "Deployment" };
  const { account, settings } = workloadOf([deployment], "sluice-outside");
  const kubeconfig = await kubeconfigOf(controlPlane, api, "sluice-system", account);
  return Server.start({ kubeconfig, namespace: "*", settings: { ...settings, PORT: "0" } });
}

/** Checks a namespace by a port that counts the attempts to reach the API server. */
export async function checkThroughProxy({ url, token, caFile, directory }: ControlPlane, namespace: string) {
  const proxy = await TcpProxy.start();
  proxy.add(Number(new URL(url).port));
  const kubeconfig = join(directory, `${namespace}.kubeconfig`);
  await writeKubeconfig(kubeconfig, `https://127.0.0.1:${proxy.port}`, token, caFile);
  return { proxy, launched: launchServer({ kubeconfig, namespace, args: ["--check-uninstall"] }) };
}

/** Makes a volume claim that only Sluice would let go. */
export function createFinalizedClaim(api: Api, namespace: string): Promise<unknown> {
  return api.post(`/api/v1/namespaces/${namespace}/persistentvolumeclaims`, {
    metadata: { name: "data-gone-0", finalizers: ["sluice.dev/volume-hold"] },
    spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } },
  });
}
