/** `npm start`. Exit codes: 0 when it was asked to end, 1 when it could not go on, 2 for wrong settings. */

import type { Cluster } from "../functions/shared/cluster.ts";
import { connect, type KubernetesCluster } from "../functions/shared/kubernetes.ts";
import manifest from "../package.json" with { type: "json" };
import { type KeyPair, readKeyPair, watchCertificate } from "./certificate.ts";
import { createHealth, type Health } from "./health.ts";
import { createReporting, type Reporting } from "./reporting.ts";
import { createAdmissionApp, createApp, type Listening, type ListenOptions, listen } from "./server.ts";
import { help, readArguments, readSettings, type Settings } from "./settings.ts";
import { type Standalone, startStandalone } from "./standalone.ts";
import { admissionFunctions, groupFunctions } from "./table.ts";

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
  const isServed = ({ name }: { readonly name: string }) => settings.function === "all" || name === settings.function;
  const definitions = groupFunctions.filter(isServed);
  const pair = await readPair(settings);
  const stopping = new AbortController();
  const admissions = admissionFunctions.filter(isServed);
  const standalone = startStandalone({ cluster, definitions, admissions, reporting, namespaces, settings });
  onStart(standalone);
  const options = {
    reporting,
    wakeUps: standalone.wakeUps,
    wokenBy: new Set(definitions.flatMap(({ wokenBy }) => wokenBy)),
    admissions: standalone.admissions,
    namespaces,
    bodyLimitBytes: settings.bodyLimitBytes,
    monotonicMs: () => cluster.monotonicMs(),
    notReady: () => (stopping.signal.aborted ? "this process is ending" : (health.away() ?? standalone.notReady())),
  };
  const { requestTimeoutMs } = settings;
  const plain = await listenOrExit(createApp(options), { port: settings.port, requestTimeoutMs });
  const listening = [plain];
  if (pair !== undefined && settings.tlsPort !== "off") {
    const secure = await listenOrExit(createAdmissionApp(options), { port: settings.tlsPort, requestTimeoutMs, pair });
    listening.push(secure);
    keepCertificate(parts, pair, secure, stopping.signal);
  }
  const where = namespaces === undefined ? "all namespaces" : `namespace ${namespaces.join(", ")}`;
  const fields = { port: plain.port, mode: settings.mode, views: settings.views, version: manifest.version };
  reporting.log("info", `listening on port ${plain.port}, serving ${where}`, fields);
  endOnSignal(parts, standalone, listening, stopping);
  await health.probe(() => cluster.ready(), stopping.signal);
}

async function listenOrExit(app: Parameters<typeof listen>[0], options: ListenOptions): Promise<Listening> {
  try {
    return await listen(app, options);
  } catch (error) {
    return exitWith(1, [`port ${options.port} cannot be listened on: ${(error as Error).message}`]);
  }
}

async function readPair({ tlsPort, tlsCertFile, tlsKeyFile }: Settings): Promise<KeyPair | undefined> {
  if (tlsPort === "off") return undefined;
  try {
    return await readKeyPair({ certFile: tlsCertFile, keyFile: tlsKeyFile });
  } catch (error) {
    return exitWith(2, [(error as Error).message]);
  }
}

/** Presents whatever pair the files hold, from the next handshake on, until the process ends. */
function keepCertificate(parts: Process, first: KeyPair, secure: Listening, ending: AbortSignal): void {
  const { settings, cluster, reporting } = parts;
  const say = (what: string, { subject, notAfter }: KeyPair) =>
    reporting.log("info", `${what} the certificate of ${subject}`, { tlsPort: secure.port, subject, notAfter });
  say(`reviews are answered on TLS port ${secure.port} with`, first);
  const watch = {
    certFile: settings.tlsCertFile,
    keyFile: settings.tlsKeyFile,
    first,
    sleep: (ms: number, signal: AbortSignal) => cluster.sleep(ms, signal),
    onPair(pair: KeyPair) {
      secure.present(pair);
      say("the files have changed: new connections are shown", pair);
    },
    onTrouble: (sentence: string) => reporting.log("warn", sentence, { reason: "certificate" }),
  };
  void watchCertificate(watch, ending);
}

/** The first signal ends what is queued, then the process; the second one ends it at once. */
function endOnSignal(
  parts: Process,
  standalone: Standalone,
  listening: readonly Listening[],
  stopping: AbortController,
): void {
  const { settings, cluster, reporting } = parts;
  const end = async (signal: string) => {
    if (stopping.signal.aborted) process.exit(1);
    stopping.abort();
    reporting.log("info", `${signal}: ending what is queued`, { keys: standalone.wakeUps.keys });
    const deadlineMs = cluster.monotonicMs() + settings.drainTimeoutMs;
    // Until then the doors answer 503, so that sources try again elsewhere.
    const drained = await standalone.stop(deadlineMs);
    const cutOff = AbortSignal.timeout(1_000);
    await Promise.all(listening.map((one) => one.close(cutOff)));
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

function exitWith(code: 1 | 2, sentences: readonly string[]): never {
  for (const sentence of sentences) console.error(`sluice: ${sentence}`);
  process.exit(code);
}

await main();
