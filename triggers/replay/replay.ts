/**
 * `--replay FILE`: one recorded request goes through the servers of a process, in shadow mode, and each function's decision is
 * printed. It is the first thing to do with a bug report.
 */

import { readFile } from "node:fs/promises";
import type { AdmissionDefinition } from "../../functions/shared/admission/definition.ts";
import { rolloutGroup } from "../../functions/shared/annotations/table.ts";
import { messageOf } from "../../functions/shared/base/error-message.ts";
import type { CertificateSettings } from "../../functions/shared/certificates/settings.ts";
import type { CronDefinition, FunctionDefinition } from "../../functions/shared/contract/definition.ts";
import type { KubernetesCluster } from "../../functions/shared/kubernetes/client.ts";
import type { ObjectKey, Resource } from "../../functions/shared/kubernetes/cluster.ts";
import { find } from "../../functions/shared/kubernetes/find.ts";
import { statefulSetOfPod } from "../../functions/shared/workloads/pods.ts";
import type { OpenAdmission } from "../server/admission.ts";
import { createApp } from "../server/server.ts";
import type { Settings } from "../settings/settings.ts";
import { startStandalone } from "../standalone.ts";
import { type Cron, startCron } from "../workqueue/cron.ts";
import { answerOf, watchedTypes } from "../workqueue/enqueue.ts";
import { causeOf } from "../workqueue/worker.ts";
import { readOnly } from "./read-only.ts";
import { type Mistake, type Recorded, readRecorded } from "./recorded.ts";
import { type Block, blockOf, ReplayReport } from "./replay-report.ts";

export interface ReplayOptions {
  readonly cluster: KubernetesCluster;
  readonly version: string;
  readonly settings: Settings;
  /** Undefined: all of them. */
  readonly namespaces: readonly string[] | undefined;
  readonly certificate: CertificateSettings;
  readonly definitions: readonly FunctionDefinition[];
  readonly admissions: readonly AdmissionDefinition[];
  readonly crons: readonly CronDefinition[];
}

/** The text to print, and the failures: with any, the text may not be complete. */
export interface Replayed {
  readonly text: string;
  readonly troubles: readonly string[];
}

/** The request of a file, or of standard input for `-`; a mistake if it cannot be read or has none. */
export async function readRecording(
  file: string,
  admissions: readonly AdmissionDefinition[],
): Promise<Recorded | Mistake> {
  const name = file === "-" ? "standard input" : file;
  try {
    const text = file === "-" ? Buffer.concat(await process.stdin.toArray()).toString() : await readFile(file, "utf8");
    const read = readRecorded(text, admissions);
    return "mistake" in read ? { mistake: `${name} cannot be replayed; ${read.mistake}` } : read;
  } catch (error) {
    return { mistake: `${name} cannot be read: ${messageOf(error)}` };
  }
}

/** Posts the request to the server, and waits for all that it enqueued. Nothing is written to the cluster (rule R16). */
export async function replay(recorded: Recorded, options: ReplayOptions): Promise<Replayed> {
  try {
    await options.cluster.ready();
  } catch (error) {
    return { text: "", troubles: [`the API server does not answer: ${causeOf(error)}`] };
  }
  const report = new ReplayReport();
  const servers = startServers(report, options);
  const { path, headers, body } = recorded;
  const response = await servers.app.request(path, { method: "POST", headers, body });
  const isReview = options.admissions.some(({ paths }) => paths.some((one) => path.split("?")[0] === one));
  const answer = response.status === 200 && isReview ? "an AdmissionReview" : await response.text();
  const isDone = await servers.end();
  const troubles = isDone ? [] : ["what it triggered did not end in time: see DRAIN_TIMEOUT"];
  try {
    await reportWhyNothing(report, options);
  } catch (error) {
    troubles.push(causeOf(error));
  }
  const outcome = [String(response.status), report.event ?? "", answer].filter(Boolean).join(", ");
  const begin: Block = [
    ["request", `POST ${path}`],
    ["answer", outcome],
  ];
  return {
    text: [blockOf(begin), ...report.blocks, "Nothing was written: a replay decides in shadow mode."].join("\n\n"),
    troubles: [...report.troubles, ...troubles],
  };
}

/** The servers of a process, with a reporter that collects the decisions. */
function startServers(report: ReplayReport, options: ReplayOptions) {
  const { settings, namespaces, definitions, certificate } = options;
  const cluster = readOnly(options.cluster);
  const reporting = report.reporting(options.version);
  const standalone = startStandalone({
    cluster,
    definitions,
    admissions: options.admissions,
    reporting,
    namespaces,
    // A watch would trigger functions for other changes meanwhile.
    settings: { ...settings, mode: "shadow", views: "list", gatherMs: 0 },
    sweeps: false,
  });
  let cron: Cron | undefined;
  const run = (definitions: readonly CronDefinition[]): void => {
    const crons = definitions.map((definition) => reportingRuns(definition, report));
    const atLeastEveryMs = settings.sweepIntervalMs;
    cron = startCron({ cluster, definitions: crons, certificate, mode: "shadow", reporting, atLeastEveryMs });
  };
  const tick = (): boolean => {
    run(options.crons);
    return standalone.enqueuer.sweep();
  };
  const changed = (resource: Resource, object: ObjectKey) => {
    report.statefulSet = statefulSetOf(resource, object);
    const triggered = options.crons.filter(({ watches = [] }) => watches.some((one) => one.resource === resource));
    run(triggered);
    return answerOf([triggered.length > 0 ? "queued" : "ignored", standalone.enqueuer.changed(resource, object)]);
  };
  const app = createApp({
    reporting,
    enqueuer: { changed, tick, due: () => standalone.enqueuer.due() },
    watches: watchedTypes([...definitions, ...options.crons]),
    admissions: standalone.admissions.map((admission) => reportingReviews(admission, report)),
    namespaces,
    bodyLimitBytes: settings.bodyLimitBytes,
    reviewsOnPort: true,
    asksForCertificates: false,
    monotonicMs: () => cluster.monotonicMs(),
    notReady: () => standalone.notReady(),
  });
  const end = async (): Promise<boolean> => {
    const deadlineMs = cluster.monotonicMs() + settings.drainTimeoutMs;
    const ended = await Promise.all([standalone.stop(deadlineMs), cron?.stop(deadlineMs)]);
    return !ended.includes(false);
  };
  return { app, end };
}

/** The StatefulSet by whose group an event would trigger a function; undefined for an event about no StatefulSet. */
function statefulSetOf(resource: Resource, { namespace, name }: ObjectKey): ObjectKey | undefined {
  if (resource === "statefulsets") return { namespace, name };
  const owner = resource === "pods" ? statefulSetOfPod(name) : undefined;
  return owner === undefined ? undefined : { namespace, name: owner };
}

/** The same function, whose answers are recorded. */
function reportingReviews({ definition, handler }: OpenAdmission, report: ReplayReport): OpenAdmission {
  const review: typeof handler.review = async (request) => {
    const answer = await handler.review(request);
    report.review(definition.name, request, answer);
    return answer;
  };
  return { definition, handler: { review } };
}

function reportingRuns(definition: CronDefinition, report: ReplayReport): CronDefinition {
  const open: typeof definition.open = (context, certificate) => {
    const run = definition.open(context, certificate);
    return async () => {
      const outcome = await run();
      report.cron(definition.name, outcome);
      return outcome;
    };
  };
  return { ...definition, open };
}

/** Says why an accepted event had no effect, which the server itself does not look up. Throws ClusterError. */
async function reportWhyNothing(report: ReplayReport, { cluster, namespaces }: ReplayOptions): Promise<void> {
  if (report.isDecided || report.troubles.length > 0 || !(report.event === "queued" || report.event === "ignored"))
    return;
  const { statefulSet } = report;
  if (statefulSet !== undefined) {
    const isThere = (await find(cluster, "statefulsets", statefulSet)) !== undefined;
    const why = isThere ? `it has no label ${rolloutGroup.key}` : "it is gone";
    const message = `${why}, so that it is in no group, and no function is triggered`;
    return report.print(["object", `StatefulSet ${statefulSet.namespace}/${statefulSet.name}`], ["sentence", message]);
  }
  const served = namespaces === undefined ? "all namespaces are" : `NAMESPACE=${namespaces.join(",")} is`;
  const ignored = "its type, its kind or its name triggers no function, or its namespace is not served";
  const why = report.event === "queued" ? "there is no group that could be swept" : ignored;
  report.print(["sentence", `no function is triggered: ${why}; ${served} served`]);
}
