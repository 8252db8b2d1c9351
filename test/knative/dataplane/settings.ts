/** The environments of Knative's programs, made of the objects that users write, as Knative's controllers make them. */
import type { LabelSelector } from "../../../functions/shared/kubernetes/cluster.ts";

/** The namespace of Knative Eventing's own ConfigMaps. */
export const SYSTEM_NAMESPACE = "knative-eventing";

interface Named {
  readonly metadata: { readonly name: string; readonly namespace?: string };
}

/** The part of an ApiServerSource that its adapter is told. */
export interface ApiServerSource extends Named {
  readonly spec: {
    readonly mode?: string;
    readonly resources: readonly {
      readonly apiVersion: string;
      readonly kind: string;
      readonly selector?: LabelSelector;
    }[];
    readonly owner?: { readonly apiVersion: string; readonly kind: string };
    readonly namespaceSelector?: LabelSelector;
    readonly filters?: readonly unknown[];
    readonly ceOverrides?: unknown;
  };
}

/** The part of a Knative Service that queue-proxy is told. */
export interface KnativeService extends Named {
  readonly spec: {
    readonly template: {
      readonly spec: {
        readonly containerConcurrency?: number;
        readonly timeoutSeconds?: number;
        readonly responseStartTimeoutSeconds?: number;
        readonly idleTimeoutSeconds?: number;
        readonly containers: readonly { readonly readinessProbe?: Probe }[];
      };
    };
  };
}

interface Probe {
  readonly httpGet?: { readonly path?: string; readonly port?: number | string; readonly scheme?: string };
  readonly tcpSocket?: { readonly port?: number | string };
  readonly periodSeconds?: number;
  readonly timeoutSeconds?: number;
  readonly successThreshold?: number;
  readonly failureThreshold?: number;
}

export type Environment = Readonly<Record<string, string>>;

/** In which namespace an object is. Throws when it does not say: built overlays do. */
export function namespaceOf({ metadata: { name, namespace } }: Named): string {
  if (namespace === undefined) throw new Error(`${name} has no metadata.namespace`);
  return namespace;
}

/** A selector as Go writes it (`LabelSelectorAsSelector(...).String()`). Throws on an operator that does not exist. */
export function selectorText({ matchLabels = {}, matchExpressions = [] }: LabelSelector): string {
  const equal = Object.entries(matchLabels).map(([key, value]) => ({ key, text: `${key}=${value}` }));
  const expressions = matchExpressions.map(({ key, operator, values = [] }) => {
    const list = `(${[...values].sort().join(",")})`;
    const texts = new Map([
      ["In", `${key} in ${list}`],
      ["NotIn", `${key} notin ${list}`],
      ["Exists", key],
      ["DoesNotExist", `!${key}`],
    ]);
    const text = texts.get(operator);
    if (text === undefined) throw new Error(`there is no operator ${operator} of label selectors`);
    return { key, text };
  });
  const byKey = (one: { key: string }, other: { key: string }) => (one.key < other.key ? -1 : 1);
  return [...equal, ...expressions]
    .sort(byKey)
    .map(({ text }) => text)
    .join(",");
}

/** The resource of a kind, as eventing guesses it (`meta.UnsafeGuessKindToResource`). */
function resourceOf(apiVersion: string, kind: string) {
  const [version = "", group = ""] = apiVersion.split("/").reverse();
  const singular = kind.toLowerCase();
  const plural = singular.replace(/y$/, "ie").replace(/s$/, "se");
  return { Group: group, Version: version, Resource: singular.endsWith("endpoints") ? singular : `${plural}s` };
}

/**
 * How apiserver_receive_adapter is configured by a source (pkg/reconciler/apiserversource/resources/receive_adapter.go).
 * Throws when namespaces are selected by label: which these are changes, and no test follows that.
 */
export function adapterEnvironment(source: ApiServerSource, sink: string): Environment {
  const { mode = "Reference", resources, owner, namespaceSelector, filters, ceOverrides } = source.spec;
  const allNamespaces = namespaceSelector !== undefined && selectorText(namespaceSelector) === "";
  if (namespaceSelector !== undefined && !allNamespaces) {
    throw new Error(`${source.metadata.name} selects namespaces by label, which is not played here`);
  }
  const configuration = {
    namespaces: [allNamespaces ? "" : namespaceOf(source)],
    allNamespaces,
    resources: resources.map(({ apiVersion, kind, selector }) => ({
      gvr: resourceOf(apiVersion, kind),
      selector: selectorText(selector ?? {}) || undefined,
    })),
    owner,
    mode,
    filters,
  };
  return {
    SYSTEM_NAMESPACE,
    NAMESPACE: namespaceOf(source),
    NAME: source.metadata.name,
    METRICS_DOMAIN: "knative.dev/eventing",
    K_SINK: sink,
    K_SOURCE_CONFIG: JSON.stringify(configuration),
    ...(ceOverrides === undefined ? {} : { K_CE_OVERRIDES: JSON.stringify(ceOverrides) }),
  };
}

/** The readiness probe that queue-proxy runs, with Serving's defaults (pkg/apis/serving/v1/revision_defaults.go). */
function probeOf(service: KnativeService, userPort: number) {
  const { httpGet, tcpSocket, ...probe } = service.spec.template.spec.containers[0]?.readinessProbe ?? {};
  const host = "127.0.0.1";
  const asked = httpGet ?? tcpSocket;
  if (typeof asked?.port === "string") throw new Error(`${service.metadata.name} names the port of its probe`);
  const defaults = probe.periodSeconds === undefined ? {} : { failureThreshold: 3, timeoutSeconds: 1 };
  const action =
    httpGet === undefined
      ? { tcpSocket: { host, port: userPort } }
      : { httpGet: { scheme: "HTTP", ...httpGet, host, port: userPort } };
  return { successThreshold: 1, ...defaults, ...probe, ...action };
}

/**
 * How queue-proxy is configured by a Knative Service (serving's pkg/reconciler/revision/resources/queue.go).
 *
 * @param userPort where the function listens
 * @param servingPort where queue-proxy is to listen
 */
export function queueEnvironment(service: KnativeService, userPort: number, servingPort: number): Environment {
  const { name } = service.metadata;
  const { containerConcurrency, timeoutSeconds, responseStartTimeoutSeconds, idleTimeoutSeconds } =
    service.spec.template.spec;
  const revision = `${name}-00001`;
  const logging = { level: "info", encoding: "json", outputPaths: ["stdout"], errorOutputPaths: ["stderr"] };
  return {
    CONTAINER_CONCURRENCY: String(containerConcurrency ?? 0),
    REVISION_TIMEOUT_SECONDS: String(timeoutSeconds ?? 300),
    REVISION_RESPONSE_START_TIMEOUT_SECONDS: String(responseStartTimeoutSeconds ?? 0),
    REVISION_IDLE_TIMEOUT_SECONDS: String(idleTimeoutSeconds ?? 0),
    SERVING_READINESS_PROBE: JSON.stringify(probeOf(service, userPort)),
    QUEUE_SERVING_PORT: String(servingPort),
    QUEUE_SERVING_TLS_PORT: "8112",
    USER_PORT: String(userPort),
    SERVING_NAMESPACE: namespaceOf(service),
    SERVING_SERVICE: name,
    SERVING_CONFIGURATION: name,
    SERVING_REVISION: revision,
    SERVING_POD: `${revision}-deployment-0`,
    SERVING_POD_IP: "127.0.0.1",
    SERVING_LOGGING_CONFIG: JSON.stringify({ ...logging, encoderConfig: { messageKey: "message", levelKey: "level" } }),
    SERVING_LOGGING_LEVEL: "info",
    SYSTEM_NAMESPACE: "knative-serving",
  };
}
