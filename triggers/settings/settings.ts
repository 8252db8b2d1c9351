/** The settings: environment variables, each described once: here, or in the definition of its function. */

import { isNamespaceName } from "../../functions/shared/base/dns-names.ts";
import { showValue } from "../../functions/shared/base/escape-control.ts";
import {
  type Environment,
  parseBoolean,
  parseDuration,
  type Setting,
  setting,
  type ValuesOf,
} from "../../functions/shared/base/settings.ts";
import { certificateSettings } from "../../functions/shared/certificates/settings.ts";
import { type Definition, isStandard } from "../../functions/shared/contract/definition.ts";
import { isClusterDomain } from "../../functions/shared/http/target.ts";
import { functionSettings, table } from "../table.ts";
import { type LogLevel, logLevels } from "../telemetry/logs-and-metrics.ts";
import { type ListenAddress, parseListenAddress } from "./listen-address.ts";

const longestSweepMs = 300_000;
/** Shorter than a view may be silent before it is replaced (rule R5). */
const longestWatchIdleMs = 25_000;

const path = { grammar: "a path", parse: (text: string) => text };

export const settingsTable = {
  kubeconfig: setting<string>({
    name: "KUBECONFIG",
    fallback: "",
    meaning: "kubeconfig file; not set: the pod's service account, or else ~/.kube/config",
    ...path,
  }),
  namespaces: setting<readonly string[] | "own" | "all">({
    name: "NAMESPACE",
    fallback: "",
    meaning: "namespaces to serve; not set: the pod's own, or that of the kubeconfig's context; *: all of them",
    grammar: "one or several names with commas between them, or *",
    parse: parseNamespaces,
  }),
  functions: setting<readonly string[]>({
    name: "FUNCTION",
    fallback: "all",
    meaning: "functions to serve",
    grammar: `all, or one or several of ${table.map(({ name }) => name).join(", ")} with commas between them`,
    parse: (text) => parseFunctions(text, table),
  }),
  mode: setting<"act" | "shadow">({
    name: "SLUICE_MODE",
    fallback: "act",
    meaning: "shadow decides and reports, and writes nothing to the cluster",
    grammar: "act or shadow",
    parse: (text) => oneOf(["act", "shadow"] as const, text),
  }),
  otherOperator: setting<"wait" | "ignore">({
    name: "OTHER_OPERATOR",
    fallback: "wait",
    meaning: "wait stands by in each namespace where rollout-operator runs; ignore acts beside it",
    grammar: "wait or ignore",
    parse: (text) => oneOf(["wait", "ignore"] as const, text),
  }),
  views: setting<"watch" | "awake" | "list">({
    name: "VIEWS",
    fallback: "watch",
    meaning:
      "watch keeps pods and StatefulSets in memory and is triggered by their changes; awake does so from a first decision in a namespace until none was made for WATCH_IDLE; list reads them for each decision. With awake and list, CloudEvents and sweeps trigger it",
    grammar: "watch, awake or list",
    parse: (text) => oneOf(["watch", "awake", "list"] as const, text),
  }),
  watchIdleMs: setting<number>({
    name: "WATCH_IDLE",
    fallback: "20s",
    meaning:
      "with VIEWS=awake, how long no decision has to be made in a namespace before its watches are let go; 0: list, as VIEWS=list",
    grammar: "a Go duration from 1s to 25s, or 0",
    parse: (text) => (/^0s?$/.test(text) ? 0 : parseDuration(text, 1_000, longestWatchIdleMs)),
  }),
  port: setting<number>({
    name: "PORT",
    fallback: "8080",
    meaning: "port for CloudEvents, health and metrics; 0: any free one, which is logged",
    grammar: "an integer from 0 to 65535",
    parse: (text) => parseInteger(text, 0, 65_535),
  }),
  tlsPort: setting<number | "off">({
    name: "TLS_PORT",
    fallback: "off",
    meaning: "port for admission reviews, over TLS; 0: any free one, which is logged",
    grammar: "an integer from 0 to 65535, or off",
    parse: (text) => (text === "off" ? text : parseInteger(text, 0, 65_535)),
  }),
  tlsCertFile: setting<string>({
    name: "TLS_CERT_FILE",
    fallback: "",
    meaning:
      "certificate of TLS_PORT and its chain, in PEM; read again when it changes; not set: the one that rotate-certificate keeps in a Secret",
    ...path,
  }),
  tlsKeyFile: setting<string>({
    name: "TLS_KEY_FILE",
    fallback: "",
    meaning: "its key, in PEM; read again when it changes",
    ...path,
  }),
  tlsClientCaFile: setting<string>({
    name: "TLS_CLIENT_CA_FILE",
    fallback: "",
    meaning:
      "authorities, in PEM; read again when it changes; who posts a review on TLS_PORT must show a certificate of one of them; not set: no client is asked for one",
    ...path,
  }),
  reviewsOnPort: setting<boolean>({
    name: "REVIEWS_ON_PORT",
    fallback: "false",
    meaning:
      "true answers admission reviews on PORT, too, without TLS; any client that reaches it can then have pods reserved",
    grammar: "true or false",
    parse: parseBoolean,
  }),
  statusListen: setting<ListenAddress | "off">({
    name: "STATUS_LISTEN",
    fallback: "off",
    meaning:
      "address that shows the status of all served groups, to any client that reaches it; 127.0.0.1:8002 leaves that to kubectl port-forward; port 0: any free one, which is logged",
    grammar: "an IP address or localhost with a port, such as 127.0.0.1:8002 or [::1]:8002, or off",
    parse: (text) => (text === "off" ? text : parseListenAddress(text)),
  }),
  // For the TLS port, whichever process renews the certificate.
  ...certificateSettings,
  logLevel: setting<LogLevel>({
    name: "LOG_LEVEL",
    fallback: "info",
    meaning: "lowest level that is logged",
    grammar: logLevels.join(", "),
    parse: (text) => oneOf(logLevels, text),
  }),
  sweepIntervalMs: setting<number>({
    name: "SWEEP_INTERVAL",
    fallback: "5m",
    meaning: "longest time between two sweeps over every group, with or without events",
    grammar: "a Go duration from 1s to 5m, such as 90s",
    parse: (text) => parseDuration(text, 1_000, longestSweepMs),
  }),
  gatherMs: setting<number>({
    name: "GATHER_MS",
    fallback: "20",
    meaning: "how long triggers of a group are gathered before a reconcile, in milliseconds",
    grammar: "an integer from 0 to 1000",
    parse: (text) => parseInteger(text, 0, 1_000),
  }),
  concurrency: setting<number>({
    name: "CONCURRENCY",
    fallback: "8",
    meaning: "most groups that are reconciled at the same time",
    grammar: "an integer from 1 to 100",
    parse: (text) => parseInteger(text, 1, 100),
  }),
  queueKeys: setting<number>({
    name: "QUEUE_KEYS",
    fallback: "10000",
    meaning: "most groups that may be queued; further events are answered 503",
    grammar: "an integer from 1 to 1000000",
    parse: (text) => parseInteger(text, 1, 1_000_000),
  }),
  bodyLimitBytes: setting<number>({
    name: "BODY_LIMIT_BYTES",
    fallback: "1048576",
    meaning: "largest body of a request that is read",
    grammar: "an integer from 1024 to 16777216",
    parse: (text) => parseInteger(text, 1_024, 16_777_216),
  }),
  requestTimeoutMs: setting<number>({
    name: "REQUEST_TIMEOUT",
    fallback: "10s",
    meaning: "how long a client may take to send a request, once a request of its connection has been answered",
    grammar: "a Go duration from 1s to 5m",
    parse: (text) => parseDuration(text, 1_000, 300_000),
  }),
  kubernetesTimeoutMs: setting<number>({
    name: "KUBERNETES_TIMEOUT",
    fallback: "10s",
    meaning: "how long a call to the API server may take, all its tries together",
    grammar: "a Go duration from 1s to 1m",
    parse: (text) => parseDuration(text, 1_000, 60_000),
  }),
  clusterDomain: setting<string>({
    name: "CLUSTER_DOMAIN",
    fallback: "cluster.local.",
    meaning:
      "DNS domain of the cluster: pods are called by their names in it; with a dot at its end no search list is tried",
    grammar: "a DNS name",
    parse: (text) => (isClusterDomain(text) ? text : undefined),
  }),
  podTimeoutMs: setting<number>({
    name: "POD_TIMEOUT",
    fallback: "5s",
    meaning: "how long a call to a pod may take, both its tries together",
    grammar: "a Go duration from 100ms to 1m",
    parse: (text) => parseDuration(text, 100, 60_000),
  }),
  drainTimeoutMs: setting<number>({
    name: "DRAIN_TIMEOUT",
    fallback: "25s",
    meaning: "how long queued work may take after SIGTERM; keep it below the pod's grace period",
    grammar: "a Go duration from 1s to 10m",
    parse: (text) => parseDuration(text, 1_000, 600_000),
  }),
  shutdownDelayMs: setting<number>({
    name: "SHUTDOWN_DELAY",
    fallback: "10s",
    meaning:
      "how long reviews are answered after SIGTERM, each on a connection that is closed with its answer, until no Service leads here any more; 0: not at all. A process that answers no reviews does not wait. Keep it below the pod's grace period, less the time-out of the webhooks",
    grammar: "0, or a Go duration of at most 1m",
    parse: (text) => parseDuration(text, 0, 60_000),
  }),
  ...functionSettings,
} as const;

export type Settings = ValuesOf<typeof settingsTable>;

/** The settings of an environment, and a line for each mistake: the settings are valid only without one. */
export function readSettings(environment: Environment): { settings: Settings; mistakes: string[] } {
  const mistakes: string[] = [];
  const values: Record<string, unknown> = {};
  for (const [field, { name, fallback, grammar, parse }] of Object.entries<Setting<unknown>>(settingsTable)) {
    const text = environment[name]?.trim() || fallback;
    values[field] = parse(text);
    if (values[field] === undefined) mistakes.push(`${name} is ${showValue(text)}; write ${grammar}`);
  }
  const settings = values as Settings;
  return { settings, mistakes: [...mistakes, ...tlsMistakes(settings), ...clientMistakes(settings)] };
}

/** A certificate and its key must be set together, and only with a port. */
function tlsMistakes(settings: Settings): string[] {
  const files = ["tlsCertFile", "tlsKeyFile"] as const;
  const given = files.filter((field) => settings[field] !== "");
  const names = (fields: readonly (typeof files)[number][]) => fields.map((field) => settingsTable[field].name);
  if (settings.tlsPort === "off")
    return names(given).map((name) => `${name} is set without TLS_PORT; set TLS_PORT too, or neither`);
  if (given.length === 0) return [];
  const missing = files.filter((field) => !given.includes(field));
  return names(missing).map(
    (name) => `${name} is not set; write a path, or set neither file for a self-signed certificate`,
  );
}

/** While TLS_PORT requires certificates of clients, no other port may accept reviews without one. */
function clientMistakes({ tlsPort, tlsClientCaFile, reviewsOnPort }: Settings): string[] {
  const { tlsClientCaFile: file, reviewsOnPort: plain } = settingsTable;
  if (tlsClientCaFile === "") return [];
  return [
    ...(tlsPort === "off" ? [`${file.name} is set without TLS_PORT; set TLS_PORT too, or neither`] : []),
    ...(reviewsOnPort ? [`${plain.name} is true beside ${file.name}; PORT asks no client for a certificate`] : []),
  ];
}

/** The names of functions: `all` stands for those that are not opt-in. Undefined for a text with a name that no function has. */
export function parseFunctions(
  text: string,
  definitions: readonly Pick<Definition, "name" | "isOptIn">[],
): readonly string[] | undefined {
  if (text === "all") return definitions.filter(isStandard).map(({ name }) => name);
  const all = definitions.map(({ name }) => name);
  const names = text.split(",").map((name) => name.trim());
  return names.every((name) => all.includes(name)) ? [...new Set(names)] : undefined;
}

function parseNamespaces(text: string): readonly string[] | "own" | "all" | undefined {
  if (text === "") return "own";
  if (text === "*") return "all";
  const names = text.split(",").map((name) => name.trim());
  return names.every(isNamespaceName) ? [...new Set(names)] : undefined;
}

function oneOf<T extends string>(values: readonly T[], text: string): T | undefined {
  return values.find((value) => value === text);
}

function parseInteger(text: string, least: number, most: number): number | undefined {
  const value = /^\d{1,10}$/.test(text) ? Number(text) : Number.NaN;
  return value >= least && value <= most ? value : undefined;
}
