/** Plays the kubelet of the pod that Helm starts before an uninstall: its command runs here, under its account. */
import assert from "node:assert/strict";
import { type Api, eventually } from "../controlplane/api.ts";
import type { ControlPlane } from "../controlplane/controlplane.ts";
import { kubeconfigOf } from "../support/installed.ts";
import { launchServer } from "../support/server.ts";

interface HookPod {
  readonly metadata: { readonly name: string; readonly uid: string };
  readonly spec: {
    readonly serviceAccountName: string;
    readonly containers: readonly {
      readonly name: string;
      readonly args: readonly string[];
      readonly env: readonly { readonly name: string; readonly value: string }[];
    }[];
  };
  readonly status: { readonly phase: string };
}

export interface HookRun {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

const mergePatch = "application/merge-patch+json";

/**
 * Runs what the pod of the hook says, and gives the pod the end that the process had. The fake kubelet has to call the pod
 * running first, because it would do so afterwards.
 *
 * @param besides pods of earlier runs, by uid; this run's is added
 * @param onStart is called when the process runs
 */
export async function playHook(
  controlPlane: ControlPlane,
  api: Api,
  namespace: string,
  besides: Set<string> = new Set(),
  onStart: () => Promise<void> = async () => {},
): Promise<HookRun> {
  const pod = await eventually("the pod of the hook running", 60_000, async () => {
    const path = `/api/v1/namespaces/${namespace}/pods?labelSelector=job-name=sluice-check-uninstall`;
    const { items } = await api.get<{ items: HookPod[] }>(path);
    return items.find(({ metadata, status }) => status.phase === "Running" && !besides.has(metadata.uid));
  });
  besides.add(pod.metadata.uid);
  const [container = assert.fail("it has no container")] = pod.spec.containers;
  const kubeconfig = await kubeconfigOf(controlPlane, api, namespace, pod.spec.serviceAccountName);
  const settings = Object.fromEntries(container.env.map(({ name, value }) => [name, value]));
  const launched = launchServer({ kubeconfig, namespace, settings, args: container.args });
  await onStart();
  const { code } = await launched.ended;
  const exitCode = code ?? 137;
  const finishedAt = new Date().toISOString().replace(/\.\d+Z$/, "Z");
  const state = { terminated: { exitCode, reason: exitCode === 0 ? "Completed" : "Error", finishedAt } };
  const own = { name: container.name, image: "a", imageID: "", restartCount: 0, ready: false, state };
  const status = { phase: exitCode === 0 ? "Succeeded" : "Failed", containerStatuses: [own] };
  const path = `/api/v1/namespaces/${namespace}/pods/${pod.metadata.name}/status`;
  await api.request("PATCH", path, { status }, mergePatch);
  return { code, ...launched.printed() };
}
