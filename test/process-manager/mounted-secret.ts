/** Brings the files of a Secret of a real API server into a played pod, as the kubelet does, and sooner. */
import { setTimeout as delay } from "node:timers/promises";
import type { Metadata } from "../../functions/shared/kubernetes/cluster.ts";
import type { Api } from "../controlplane/api.ts";
import type { PlayedPod } from "./pod.ts";

interface FilesSecret {
  readonly metadata: Metadata;
  readonly data?: Readonly<Record<string, string>>;
}

/** Mounts the files at once, and again after each change, until the signal. `path`: that of the Secret. */
export async function keepMounted(api: Api, path: string, pod: PlayedPod, signal: AbortSignal): Promise<void> {
  let version: string | undefined;
  while (!signal.aborted) {
    const { metadata, data = {} } = await api.get<FilesSecret>(path);
    if (metadata.resourceVersion !== version) {
      const files = Object.entries(data).map(([name, value]) => [name, Buffer.from(value, "base64")] as const);
      await pod.mount(Object.fromEntries(files));
      version = metadata.resourceVersion;
    }
    await delay(200, undefined, { signal }).catch(() => {});
  }
}
