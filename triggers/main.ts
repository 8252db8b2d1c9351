/** `npm start`. Exit codes: 0 when it was asked to end, 1 when it could not go on, 2 for wrong settings. */

import type { Cluster } from "../functions/shared/cluster.ts";
import { connect, type KubernetesCluster } from "../functions/shared/kubernetes.ts";
import manifest from "../package.json" with { type: "json" };
import { createHealth, type Health } from "./health.ts";
import { createReporting, type Reporting } from "./reporting.ts";
import { createApp, type Listening, listen } from "./server.ts";
import { help, readArguments, readSettings, type Settings } from "./settings.ts";
import { type Standalone, startStandalone } from "./standalone.ts";
import { table } from "./table.ts";

interface Process {
  readonly settings: Settings;
  readonly cluster: KubernetesCluster;
  readonly reporting: Reporting;
  readonly health: Health;
}

async function main(): Promise<void> {
  const { help: wantsHelp, mistakes } = readArguments(process.argv.slice(2));
  if (wantsHelp && mistakes.length === 0) {
    console.log(help());
    return;
  }
  const { settings, mistakes: wrong } = readSettings(process.env);
  mistakes.push(...wrong);
  if (mistakes.length > 0) return exitWith(2, mistakes);

  let standalone: Standalone | undefined;
  const reporting = createReporting({
    version: manifest.version,
    serving: settings.function,
    level: settings.logLevel,
    keys: () => standalone?.wakeUps.keys ?? 0,
  });
  const clock: Pick<Cluster, "monotonicMs" | "sleep"> = {
    monotonicMs: () => performance.now(),
    sleep: (ms, signal) => cluster.sleep(ms, signal),
  };
  const health = createHealth({
    clock,
    onChange: (sentence, isTrouble) => reporting.log(isTrouble ? "error" : "info", sentence, { reason: "api-server" }),
  });
  let cluster: KubernetesCluster;
  try {
    cluster = await connect({
      userAgent: `sluice/${manifest.version} (${settings.function})`,
      requestTimeoutMs: settings.kubernetesTimeoutMs,
      onRequest(observation) {
        health.observe(observation);
        reporting.apiRequest(observation);
      },
    });
  } catch (error) {
    // A YAML parser's message shows the place on further lines.
    const [sentence] = String(error instanceof Error ? error.message : error).split("\n");
    return exitWith(2, [`the cluster cannot be found: ${sentence}`]);
  }
  await serve({ settings, cluster, reporting, health }, (started) => {
    standalone = started;
  });
}

async function serve(parts: Process, onStart: (standalone: Standalone) => void): Promise<void> {
  const { settings, cluster, reporting, health } = parts;
  const namespaces = namespacesOf(settings, cluster);
  const definitions = table.filter(({ name }) => settings.function === "all" || name === settings.function);
  const stopping = new AbortController();
  const standalone = startStandalone({ cluster, definitions, reporting, namespaces, settings });
  onStart(standalone);
  const app = createApp({
    reporting,
    wakeUps: standalone.wakeUps,
    wokenBy: new Set(definitions.flatMap(({ wokenBy }) => wokenBy)),
    namespaces,
    bodyLimitBytes: settings.bodyLimitBytes,
    monotonicMs: () => cluster.monotonicMs(),
    notReady: () => (stopping.signal.aborted ? "this process is ending" : (health.away() ?? standalone.notReady())),
  });
  let listening: Listening;
  try {
    listening = await listen(app, settings);
  } catch (error) {
    return exitWith(1, [`port ${settings.port} cannot be listened on: ${(error as Error).message}`]);
  }
  const where = namespaces === undefined ? "all namespaces" : `namespace ${namespaces.join(", ")}`;
  const fields = { port: listening.port, mode: settings.mode, views: settings.views, version: manifest.version };
  reporting.log("info", `listening on port ${listening.port}, serving ${where}`, fields);
  endOnSignal(parts, standalone, listening, stopping);
  await health.probe(() => cluster.ready(), stopping.signal);
}

/** The first signal ends what is queued, then the process; the second one ends it at once. */
function endOnSignal(parts: Process, standalone: Standalone, listening: Listening, stopping: AbortController): void {
  const { settings, cluster, reporting } = parts;
  const end = async (signal: string) => {
    if (stopping.signal.aborted) process.exit(1);
    stopping.abort();
    reporting.log("info", `${signal}: ending what is queued`, { keys: standalone.wakeUps.keys });
    const deadlineMs = cluster.monotonicMs() + settings.drainTimeoutMs;
    // Until then the doors answer 503, so that sources try again elsewhere.
    const drained = await standalone.stop(deadlineMs);
    await listening.close(AbortSignal.timeout(1_000));
    await cluster.close();
    if (!drained) reporting.log("warn", "not all that was queued ended in time; the next sweep finds it", {});
    else reporting.log("info", "ended", {});
    process.exit(0);
  };
  process.on("SIGTERM", (signal) => void end(signal));
  process.on("SIGINT", (signal) => void end(signal));
}

function namespacesOf(settings: Settings, cluster: KubernetesCluster): readonly string[] | undefined {
  if (settings.namespaces === "all") return undefined;
  return settings.namespaces === "own" ? [cluster.namespace] : settings.namespaces;
}

function exitWith(code: 1 | 2, sentences: readonly string[]): void {
  for (const sentence of sentences) console.error(`sluice: ${sentence}`);
  process.exit(code);
}

await main();
