/**
 * `npm start`. Exit codes: 0 after a signal, after a replay, or if an uninstall would leave nothing behind; 1 if the process
 * could not go on, or if an uninstall would leave something behind; 2 for wrong settings, or a file without a request to
 * replay.
 */

import type { AdmissionDefinition } from "../functions/shared/admission/definition.ts";
import { messageOf } from "../functions/shared/base/error-message.ts";
import { escapeControls } from "../functions/shared/base/escape-control.ts";
import type { CertificateSettings } from "../functions/shared/certificates/settings.ts";
import { processClock, sleep } from "../functions/shared/clock/process-clock.ts";
import type { Definition } from "../functions/shared/contract/definition.ts";
import { type ConnectedPods, connectPods } from "../functions/shared/http/connections.ts";
import { connect, type KubernetesCluster } from "../functions/shared/kubernetes/client.ts";
import manifest from "../package.json" with { type: "json" };
import { endWork, type Running } from "./ending.ts";
import { refuseKubernetes } from "./refuse-kubernetes.ts";
import { readRecording, replay } from "./replay/replay.ts";
import {
  type CertificateSource,
  certificateInFiles,
  certificateInSecret,
  readClientAuthorities,
  withClientAuthorities,
} from "./server/certificate-source.ts";
import type { Cut } from "./server/connection-bounds.ts";
import { type ApiServerHealth, createHealth } from "./server/health.ts";
import { ReviewKeyCheck } from "./server/review-keys.ts";
import { createAdmissionApp, createApp, listen } from "./server/server.ts";
import { openTlsPort, type TlsPort } from "./server/tls-port.ts";
import { cronsOf, namespacesOf, servedBy, servingOf, statusOf } from "./serving.ts";
import { certificateOf } from "./settings/certificate.ts";
import { readFlags } from "./settings/flags.ts";
import { readSettings, type Settings } from "./settings/settings.ts";
import { help } from "./settings/settings-help.ts";
import { type Standalone, type StatusSource, startStandalone } from "./standalone.ts";
import { followCertificate } from "./status/presented-certificate.ts";
import { openStatusPort } from "./status/status-port.ts";
import { admissionFunctions, groupFunctions, table } from "./table.ts";
import { createReporting, type Reporting } from "./telemetry/logs-and-metrics.ts";
import { startTracing, type Tracing } from "./telemetry/tracing.ts";
import { checkUninstall } from "./uninstall/check.ts";
import { startCron } from "./workqueue/cron.ts";
import { answerOf, type Enqueuer, watchedTypes } from "./workqueue/enqueue.ts";
import { limitTicks } from "./workqueue/sweep.ts";
import { followWebhookConfigurations } from "./workqueue/webhook-configurations.ts";

interface Process {
  readonly settings: Settings;
  readonly cluster: KubernetesCluster;
  readonly pods: ConnectedPods;
  readonly reporting: Reporting;
  readonly health: ApiServerHealth;
  readonly tracing: Tracing;
}

async function main(): Promise<void> {
  const flags = readFlags(process.argv.slice(2), process.env);
  if (flags.help && flags.mistakes.length === 0) {
    console.log(help());
    return;
  }
  const { settings, mistakes } = readSettings(flags.environment);
  const wrong = [...flags.mistakes, ...mistakes];
  if (wrong.length > 0) return exitWith(2, wrong);
  if (flags.replay !== undefined) return replayFile(flags.replay, settings, flags.access);
  if (flags.checksUninstall) return endWithCheck(settings, flags.access);

  let standalone: Standalone | undefined;
  const reporting = createReporting({
    version: manifest.version,
    serving: servingOf(settings),
    level: settings.logLevel,
    keys: () => standalone?.enqueuer.keys ?? 0,
  });
  for (const warning of flags.warnings) reporting.log("warn", warning, { reason: "flag" });
  const tracing = await startTracing(flags.environment, manifest.version, reporting.log);
  const clock = { monotonicMs: () => processClock.nowMs(), sleep };
  const health = createHealth(clock, (message, isTrouble) =>
    reporting.log(isTrouble ? "error" : "info", message, { reason: "api-server" }),
  );
  const userAgent = `sluice/${manifest.version} (${servingOf(settings)})`;
  const cluster = await connectOrExit(2, {
    userAgent,
    requestTimeoutMs: settings.kubernetesTimeoutMs,
    ...flags.access,
    onRequest(observation) {
      health.observe(observation);
      reporting.apiRequest(observation);
    },
  });
  const pods = connectPods({
    clock: cluster,
    userAgent,
    clusterDomain: settings.clusterDomain,
    timeoutMs: settings.podTimeoutMs,
    onRequest: reporting.podRequest,
  });
  await serve({ settings, cluster, pods, reporting, health, tracing }, (started) => {
    standalone = started;
  });
}

/** One recorded request in place of those that would come. */
async function replayFile(
  file: string,
  settings: Settings,
  access: ReturnType<typeof readFlags>["access"],
): Promise<void> {
  const isServed = servedBy(settings);
  const [definitions, admissions] = [groupFunctions.filter(isServed), admissionFunctions.filter(isServed)];
  const recorded = await readRecording(file, admissions);
  if ("mistake" in recorded) return exitWith(2, [recorded.mistake]);
  const userAgent = `sluice/${manifest.version} (replay)`;
  const requestTimeoutMs = settings.kubernetesTimeoutMs;
  const cluster = await connectOrExit(1, { userAgent, requestTimeoutMs, ...access });
  const namespaces = namespacesOf(settings, cluster);
  const certificate = certificateOf(settings, namespaces, cluster);
  const shared = { cluster, version: manifest.version, settings, namespaces, certificate };
  const { text, troubles } = await replay(recorded, { ...shared, definitions, admissions, crons: cronsOf(settings) });
  await cluster.close();
  if (text !== "") console.log(text);
  if (troubles.length > 0) exitWith(1, troubles);
}

/** Ends with 0 if Sluice may be uninstalled. Without Sluice no user could delete an object that has its finalizer. */
async function endWithCheck(settings: Settings, access: ReturnType<typeof readFlags>["access"]): Promise<void> {
  const userAgent = `sluice/${manifest.version} (check-uninstall)`;
  const cluster = await connectOrExit(1, { userAgent, requestTimeoutMs: settings.kubernetesTimeoutMs, ...access });
  const namespaces = namespacesOf(settings, cluster);
  const { mayGo, lines } = await checkUninstall({ cluster, settings, namespaces, definitions: groupFunctions });
  await cluster.close();
  if (!mayGo) exitWith(1, lines);
  for (const line of lines) console.log(line);
}

async function connectOrExit(code: 1 | 2, options: Parameters<typeof connect>[0]): Promise<KubernetesCluster> {
  try {
    return await connect(options);
  } catch (error) {
    // The message of a YAML parser shows the place on further lines.
    const [message] = messageOf(error).split("\n");
    return exitWith(code, [`the cluster cannot be found: ${message}`]);
  }
}

async function serve(parts: Process, onStart: (standalone: Standalone) => void): Promise<void> {
  const { settings, cluster, pods, reporting, health } = parts;
  const namespaces = namespacesOf(settings, cluster);
  const isServed = servedBy(settings);
  const definitions = groupFunctions.filter(isServed);
  await requireKubernetes(parts, table.filter(isServed));
  const certificate = certificateOf(settings, namespaces, cluster);
  const where = settings.tlsCertFile || certificate.secret;
  const { source, presented } = followCertificate(await sourceOf(parts, certificate), where);
  const stopping = new AbortController();
  const admissions = admissionFunctions.filter(isServed);
  const status = statusOf(settings, namespaces, presented);
  const standalone = startStandalone({
    cluster,
    pods,
    definitions,
    admissions,
    status,
    reporting,
    namespaces,
    settings,
  });
  onStart(standalone);
  const crons = cronsOf(settings);
  const { mode, sweepIntervalMs: atLeastEveryMs, requestTimeoutMs } = settings;
  const cron = startCron({ cluster, definitions: crons, certificate, mode, reporting, atLeastEveryMs });
  const tick = limitTicks(cluster, () => {
    cron.enqueue();
    if (crons.length === 0 || definitions.length > 0) standalone.enqueuer.sweep();
  });
  const due = limitTicks(cluster, () => void standalone.enqueuer.due());
  const changed: Enqueuer["changed"] = (resource, object) =>
    answerOf([cron.changed(resource), standalone.enqueuer.changed(resource, object)]);
  const away = () => (stopping.signal.aborted ? "this process is ending" : health.away());
  const options = {
    reporting,
    enqueuer: { changed, tick, due },
    watches: watchedTypes([...definitions, ...crons]),
    admissions: standalone.admissions,
    namespaces,
    bodyLimitBytes: settings.bodyLimitBytes,
    reviewsOnPort: settings.reviewsOnPort,
    asksForCertificates: settings.tlsClientCaFile !== "",
    reviewKeys: reviewKeysOf(parts, certificate, admissions),
    monotonicMs: () => cluster.monotonicMs(),
    notReady: () => away() ?? standalone.notReady() ?? tlsPort?.notReady(),
  };
  const tlsPort = openTlsPortIfSet(parts, options, source, stopping.signal);
  const onCut = (reason: Cut) => reporting.metrics.connectionsEnded.inc({ door: "plain", reason });
  const plain = await listen(createApp(options), { port: settings.port, requestTimeoutMs, onCut }).catch(
    (error: Error) => exitWith(1, [`port ${settings.port} cannot be listened on: ${error.message}`]),
  );
  if (tlsPort !== undefined) {
    const { namespace } = certificate.secret;
    const { reviewKeys } = options;
    const onSeen = reviewKeys?.see.bind(reviewKeys);
    const followed = { cluster, reporting, namespace, onSeen, onChange: () => void cron.enqueue() };
    void followWebhookConfigurations(followed, stopping.signal);
  }
  const statusPort = await openStatusPortIfSet(parts, status, standalone);
  logListening(parts, plain.port, namespaces, admissions.length > 0);
  endOnSignal(parts, { standalone, cron, plain, tlsPort, statusPort, admissions }, stopping);
  await health.probe(() => cluster.ready(), stopping.signal);
}

/** Resolves once the API server has reported a version that is new enough for all of them. Asks only if one says which is. */
async function requireKubernetes({ cluster, health }: Process, definitions: readonly Definition[]): Promise<void> {
  if (definitions.every(({ leastKubernetes }) => leastKubernetes === undefined)) return;
  const version = await health
    .firstAnswer(() => cluster.ready())
    .catch((error: unknown) => exitWith(1, [`the API server does not report its version: ${messageOf(error)}`]));
  const refusals = refuseKubernetes(definitions, version);
  if (refusals.length > 0) exitWith(1, refusals);
}

function logListening(
  { settings: { mode, views, reviewsOnPort }, reporting }: Process,
  port: number,
  namespaces: readonly string[] | undefined,
  answersReviews: boolean,
): void {
  const where = namespaces === undefined ? "all namespaces" : `namespace ${namespaces.join(", ")}`;
  const fields = { port, mode, views, version: manifest.version };
  reporting.log("info", `listening on port ${port}, serving ${where}`, fields);
  if (!reviewsOnPort || !answersReviews) return;
  const message = `REVIEWS_ON_PORT is true: any client of port ${port} can post reviews, and have pods reserved`;
  reporting.log("warn", message, { reason: "reviews-on-port" });
}

/** The source of the TLS port's certificate; undefined without such a port. Files must exist at the start. */
async function sourceOf(
  { settings, cluster, reporting }: Process,
  { secret, lifetimeMs }: CertificateSettings,
): Promise<CertificateSource | undefined> {
  const { tlsPort, tlsCertFile: certFile, tlsKeyFile: keyFile, tlsClientCaFile: file } = settings;
  if (tlsPort === "off") return undefined;
  const inFiles = certFile !== "";
  const source = inFiles ? certificateInFiles({ certFile, keyFile }) : certificateInSecret(cluster, secret, lifetimeMs);
  try {
    if (inFiles) await source.read();
    if (file === "") return source;
    const first = await readClientAuthorities(file);
    const onTrouble = (message: string) => reporting.log("warn", message, { reason: "client-authorities" });
    return withClientAuthorities(source, { file, first, onTrouble });
  } catch (error) {
    return exitWith(2, [(error as Error).message]);
  }
}

/** A certificate of the client is a better proof than a key, and with files in place of the Secret there is no key. */
function reviewKeysOf(
  { settings, reporting }: Process,
  { secret: { namespace } }: CertificateSettings,
  admissions: readonly AdmissionDefinition[],
): ReviewKeyCheck | undefined {
  const { tlsPort, tlsCertFile, tlsClientCaFile } = settings;
  if (tlsPort === "off" || tlsCertFile !== "" || tlsClientCaFile !== "") return undefined;
  const reviewKeys = new ReviewKeyCheck({ namespace, paths: admissions.flatMap(({ paths }) => paths) });
  reporting.metrics.showReviewKeyAsked(() => reviewKeys.asked());
  return reviewKeys;
}

function openTlsPortIfSet(
  { settings, cluster, reporting }: Process,
  options: Parameters<typeof createAdmissionApp>[0],
  source: CertificateSource | undefined,
  stopped: AbortSignal,
): TlsPort | undefined {
  const { tlsPort: port, requestTimeoutMs } = settings;
  if (source === undefined || port === "off") return undefined;
  const app = createAdmissionApp(options);
  const { reviewKeys } = options;
  const tlsPort = openTlsPort({ app, port, requestTimeoutMs, source, clock: cluster, reporting, reviewKeys }, stopped);
  tlsPort.opened.catch((error: Error) => exitWith(1, [error.message]));
  return tlsPort;
}

/** Where the function that shows the status is not served, there is nothing to listen for. */
async function openStatusPortIfSet(
  { settings, cluster, reporting }: Process,
  status: StatusSource | undefined,
  { readStatus: read }: Standalone,
): Promise<Running["statusPort"]> {
  const { statusListen: address, requestTimeoutMs } = settings;
  if (address === "off") return undefined;
  if (status === undefined) {
    reporting.log("warn", "STATUS_LISTEN is set, but FUNCTION names no function that shows the status", {});
    return undefined;
  }
  return openStatusPort({ address, read, requestTimeoutMs, clock: cluster, reporting }).catch((error: Error) =>
    exitWith(1, [error.message]),
  );
}

/** The first signal ends the queued work, then the process; the second one ends it at once. */
function endOnSignal(parts: Process, running: Running, stopping: AbortController): void {
  const { settings, cluster, pods, reporting, tracing } = parts;
  const end = async (signal: string) => {
    if (stopping.signal.aborted) process.exit(1);
    stopping.abort();
    const hasEnded = await endWork(running, { settings, clock: cluster, reporting, signal });
    await Promise.all([cluster.close(), pods.close()]);
    await tracing.stop();
    if (hasEnded) reporting.log("info", "ended", {});
    else reporting.log("warn", "some queued work did not end in time; the next sweep finds it", {});
    process.exit(0);
  };
  process.on("SIGTERM", (signal) => void end(signal));
  process.on("SIGINT", (signal) => void end(signal));
}

function exitWith(code: 1 | 2, messages: readonly string[]): never {
  for (const message of messages) console.error(`sluice: ${escapeControls(message)}`);
  process.exit(code);
}

void main();
