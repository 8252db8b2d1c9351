/** rollout-operator's flags, each described once, here: its value, and its effect. */

import { isNamespaceName } from "../../functions/shared/base/dns-names.ts";
import { parseGoBoolean, parseGoDuration, parsePrometheusDuration } from "../../functions/shared/clock/durations.ts";
import { logLevels } from "../telemetry/logs-and-metrics.ts";
import type { Settings } from "./settings.ts";

/** The value of a flag. */
interface Kind {
  /** What to write instead of a value that does not parse. */
  readonly grammar: string;
  /** The value as a setting is written; undefined for a text that does not parse. */
  parse(text: string): string | undefined;
}

export interface Flag extends Kind {
  /** Without the dash. */
  readonly name: string;
  /** It may be written without a value, and is true then. */
  readonly isBoolean: boolean;
  /** The setting that has its value. */
  readonly field?: keyof Settings;
  /** What becomes of it where it is no setting, or not quite. */
  readonly meaning?: string;
  /** Whether what was written is not what is done here: then `says` is a warning. `value` is what `parse` made of it. */
  differs(text: string, value: string): boolean;
}

const goInteger = /^[+-]?(0[xX](_?[0-9a-fA-F])+|0[bB](_?[01])+|0[oO]?(_?[0-7])+|0|[1-9](_?\d)*)$/;

/** Go's `strconv.ParseInt` without a given base, up to the largest exact number; undefined for what it refuses. */
export function parseGoInteger(text: string): number | undefined {
  if (!goInteger.test(text)) return undefined;
  // To Go a 0 before other digits means octal. JavaScript wants an "o" behind it.
  const value = Number(text.replaceAll(/[-+_]/g, "").replace(/^0(?=\d)/, "0o"));
  if (!Number.isSafeInteger(value)) return undefined;
  return text.startsWith("-") ? -value : value;
}

/** Go's `strconv.ParseFloat`, except for hexadecimal and infinite numbers and NaN; undefined for what it refuses. */
export function parseGoFloat(text: string): number | undefined {
  const value = /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/.test(text) ? Number(text) : Number.NaN;
  return Number.isFinite(value) ? value : undefined;
}

const boolean: Kind & { readonly isBoolean: true } = {
  grammar: "true or false",
  parse: (text) => parseGoBoolean(text)?.toString(),
  isBoolean: true,
};

const text: Kind = { grammar: "a text", parse: (value) => value };
const nonEmpty: Kind = { grammar: "a text that is not empty", parse: (value) => value || undefined };
const integer: Kind = { grammar: "an integer", parse: (value) => parseGoInteger(value)?.toString() };
const port: Kind = { grammar: "an integer from 0 to 65535", parse: integer.parse };
const number: Kind = { grammar: "a number", parse: (value) => parseGoFloat(value)?.toString() };
const duration: Kind = {
  grammar: "a Go duration, such as 90s",
  parse: (value) => (parseGoDuration(value) === undefined ? undefined : value),
};
const positiveDuration: Kind = {
  grammar: "a Go duration above 0",
  parse: (value) => ((parseGoDuration(value) ?? 0) > 0 ? value : undefined),
};

function oneOf(...values: readonly string[]): Kind {
  return { grammar: values.join(", "), parse: (value) => values.find((one) => one === value) };
}

type Given = Kind & Partial<Flag>;

/** A flag that has a counterpart. */
function counterpart(name: string, kind: Given): Flag {
  return { isBoolean: false, differs: () => false, ...kind, name };
}

/** A flag that changes nothing, and what happens instead; `agrees` is the value that requests exactly that. */
function idle(name: string, kind: Given, meaning: string, agrees?: string): Flag {
  return { isBoolean: false, differs: (_text, value) => value !== agrees, ...kind, name, meaning };
}

/** A duration that a setting keeps within these bounds, both in Go's grammar. */
function bounded(name: string, kind: Kind, field: keyof Settings, least: string, most: string): Flag {
  const [leastMs = 0, mostMs = 0] = [parseGoDuration(least), parseGoDuration(most)];
  const parse = (value: string) => {
    const ms = parseGoDuration(kind.parse(value) ?? "");
    // For Go's HTTP client, a value that is not above 0 is no limit.
    return ms === undefined ? undefined : `${Math.min(ms > 0 ? Math.max(ms, leastMs) : mostMs, mostMs)}ms`;
  };
  const differs = (value: string, current: string) => parseGoDuration(value) !== parseGoDuration(current);
  return counterpart(name, { ...kind, parse, differs, field, meaning: `at least ${least}, at most ${most}` });
}

const rate = "requests to the API server have no rate limit; at most 16 are under way at once";
const noClusterValidation = "the header X-Cluster is neither sent nor compared";
const zoneTracker = "the ConfigMap is read, whatever this says, and never written";
/** Prometheus' grammar has no decimals, so that its values are whole. */
const lifetime: Kind = {
  grammar: "a Prometheus duration from 1m to 10y",
  parse(value) {
    const ms = parsePrometheusDuration(value);
    return ms === undefined ? undefined : `${ms}ms`;
  },
};
const namespace: Kind = {
  grammar: "the name of a namespace",
  parse: (value) => (isNamespaceName(value) ? value : undefined),
};

export const flags: readonly Flag[] = [
  idle("log.format", oneOf("logfmt", "json"), "log lines are JSON", "json"),
  counterpart("log.level", { ...oneOf(...logLevels), field: "logLevel" }),
  counterpart("server.port", { ...port, field: "port", meaning: "8001 where neither is given" }),
  counterpart("kubernetes.config-file", { ...text, field: "kubeconfig", meaning: "with -kubernetes.api-url" }),
  counterpart("kubernetes.api-url", {
    grammar: "an address that begins with https:// or http://",
    parse: (value) => (value === "" || (/^https?:/.test(value) && URL.canParse(value)) ? value : undefined),
    meaning: "address of the API server, instead of the one in -kubernetes.config-file",
  }),
  counterpart("kubernetes.namespace", { ...namespace, field: "namespaces", meaning: "one namespace" }),
  counterpart("kubernetes.cluster-domain", { ...nonEmpty, grammar: "a DNS name", field: "clusterDomain" }),
  bounded("kubernetes.client-timeout", duration, "kubernetesTimeoutMs", "1s", "1m"),
  idle("kubernetes.client-qps", number, rate),
  idle("kubernetes.client-burst", integer, rate),
  bounded("pods.client-timeout", duration, "podTimeoutMs", "100ms", "1m"),
  idle("reconcile.interval", duration, "Sluice acts on a change at once"),
  idle("server.cluster-validation.http.enabled", boolean, noClusterValidation, "false"),
  idle("server.cluster-validation.http.soft-validation", boolean, noClusterValidation, "false"),
  idle("server.cluster-validation.http.excluded-paths", text, noClusterValidation),
  idle("server.cluster-validation.http.excluded-user-agents", text, noClusterValidation),
  counterpart("server-tls.enabled", { ...boolean, meaning: "true opens TLS_PORT, false closes it" }),
  counterpart("server-tls.port", {
    ...port,
    field: "tlsPort",
    meaning: "8443 where neither is given and TLS is enabled",
  }),
  counterpart("server-tls.cert-file", { ...text, field: "tlsCertFile", meaning: "without a self-signed certificate" }),
  counterpart("server-tls.key-file", { ...text, field: "tlsKeyFile", meaning: "without a self-signed certificate" }),
  bounded("server-tls.request-timeout", positiveDuration, "requestTimeoutMs", "1s", "5m"),
  counterpart("server-tls.self-signed-cert.enabled", {
    ...boolean,
    meaning: "false: the certificate is in the two files",
  }),
  counterpart("server-tls.self-signed-cert.secret-name", {
    ...nonEmpty,
    grammar: "the name of a Secret",
    field: "tlsSecretName",
  }),
  counterpart("server-tls.self-signed-cert.dns-name", { ...text, grammar: "a DNS name", field: "tlsDnsName" }),
  counterpart("server-tls.self-signed-cert.org", { ...text, grammar: "1 to 64 characters", field: "tlsOrganisation" }),
  counterpart("server-tls.self-signed-cert.expiration", { ...lifetime, field: "tlsCertLifetimeMs" }),
  counterpart("webhooks.update-ca-bundle", {
    ...boolean,
    field: "updateCaBundle",
    meaning: "false: no caBundle is written",
  }),
  idle("use-zone-tracker", boolean, zoneTracker, "false"),
  counterpart("zone-tracker.config-map-name", {
    ...text,
    grammar: "the name of a ConfigMap",
    field: "zoneTrackerName",
  }),
  idle("zpdb.pod-ready-annotation-patch-timeout", positiveDuration, "nothing is written on pods"),
];
