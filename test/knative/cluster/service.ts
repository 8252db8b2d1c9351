/** A Knative Service at work: its function as a process behind queue-proxy, and the activator before both. */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { type Api, eventually } from "../../controlplane/api.ts";
import type { ControlPlane } from "../../controlplane/controlplane.ts";
import { freePort, releasePorts } from "../../controlplane/ports.ts";
import { type Launched, launch } from "../../controlplane/processes.ts";
import { kubeconfigOf } from "../../support/installed.ts";
import { type DataPlane, startQueueProxy } from "../dataplane/programs.ts";
import { Activator, type Instance, type Scaling } from "./activator.ts";
import type { KnativeService } from "./objects.ts";

export interface ServiceOptions {
  readonly controlPlane: ControlPlane;
  readonly api: Api;
  readonly dataPlane: DataPlane;
  /** The built server: its `start.cjs`. */
  readonly program: string;
  readonly stableWindowMs: number;
  /** Has the functions find pods that are servers of this machine: `NODE_OPTIONS`. Default: they find none. */
  readonly nodeOptions?: string;
  /** Is told each change of scale. */
  log(message: string): void;
}

/** Resolves when it takes requests; nothing of it need run yet. */
export function startService(service: KnativeService, options: ServiceOptions): Promise<Activator> {
  const { name, namespace } = service.metadata;
  return Activator.start({
    scaling: scalingOf(service, options.stableWindowMs),
    start: () => startInstance(service, options),
    log: (message) => options.log(`${namespace}/${name} ${message}`),
  });
}

/** With Serving's defaults. Throws on a bound that is no number. */
function scalingOf({ spec: { template } }: KnativeService, stableWindowMs: number): Scaling {
  const bound = (name: string, usual = "0"): number => {
    const text = template.metadata?.annotations?.[`autoscaling.knative.dev/${name}`] ?? usual;
    if (/^\d+$/.test(text)) return Number(text);
    throw new Error(`autoscaling.knative.dev/${name} is ${JSON.stringify(text)}`);
  };
  const { containerConcurrency = 0, timeoutSeconds = 300 } = template.spec;
  const bounds = {
    initialScale: bound("initial-scale", "1"),
    minScale: bound("min-scale"),
    maxScale: bound("max-scale"),
  };
  return { ...bounds, containerConcurrency, timeoutMs: timeoutSeconds * 1_000, stableWindowMs };
}

/** Resolves when queue-proxy says that the function is ready. Rejects when one of them ends before. */
async function startInstance(service: KnativeService, options: ServiceOptions): Promise<Instance> {
  const { controlPlane, dataPlane } = options;
  const { timeoutSeconds = 300 } = service.spec.template.spec;
  const logs = join(controlPlane.directory, "logs", service.metadata.namespace);
  await mkdir(logs, { recursive: true });
  const userPort = await freePort();
  const launched = await launchFunction(service, options, userPort, join(logs, `${service.metadata.name}.log`));
  void launched.ended.then(() => releasePorts(userPort));
  // A pod's containers start side by side.
  const queueProxy = await startQueueProxy({ dataPlane, logs }, { service, userPort }).catch(async (error: Error) => {
    await launched.stop(0);
    throw error;
  });
  const lost = Promise.race([
    launched.ended.then(({ summary }) => `the function ended: ${summary}`),
    queueProxy.ended.then(({ summary }) => `queue-proxy ended: ${summary}`),
  ]);
  // No request comes after the function's end: the activator sends nothing to an instance that it ends.
  let isLost = false;
  void lost.then(() => {
    isLost = true;
    return Promise.all([launched.stop(0), queueProxy.kill()]);
  });
  // An instance that is lost while it starts is not asked again: minutes of asking would keep the whole process.
  const ready = eventually("the function ready", timeoutSeconds * 1_000, async () =>
    isLost || (await queueProxy.isReady()) ? true : undefined,
  );
  await Promise.race([ready, lost.then((summary) => Promise.reject(new Error(summary)))]).catch(
    async (error: Error) => {
      await Promise.all([launched.stop(0), queueProxy.kill()]);
      throw error;
    },
  );
  return {
    url: queueProxy.url,
    lost,
    stop: async () => void (await launched.stop(timeoutSeconds * 1_000)),
    signal: (name) => launched.signal(name),
  };
}

/** As its pod would have it: its settings, its account's token, and the variables of Knative's contract. */
async function launchFunction(
  service: KnativeService,
  { controlPlane, api, program, nodeOptions }: ServiceOptions,
  port: number,
  file: string,
): Promise<Launched> {
  const { name, namespace } = service.metadata;
  const { serviceAccountName = "default", containers } = service.spec.template.spec;
  const kubeconfig = await kubeconfigOf(controlPlane, api, namespace, serviceAccountName);
  const settings = containers.flatMap(({ env = [] }) => env).map((variable) => [variable.name, variable.value ?? ""]);
  const env = {
    ...Object.fromEntries(settings),
    ...(nodeOptions === undefined ? {} : { NODE_OPTIONS: nodeOptions }),
    KUBECONFIG: kubeconfig,
    // A pod knows its own namespace from a file; a kubeconfig does not say it.
    NAMESPACE: namespace,
    PORT: String(port),
    K_SERVICE: name,
    K_CONFIGURATION: name,
    K_REVISION: `${name}-00001`,
  };
  return launch(process.execPath, [program], { env, output: { file } });
}
