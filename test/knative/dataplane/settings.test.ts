/**
 * What programs are configured with. What is expected is what the code of Knative's own controllers makes of the same objects:
 * `MakeReceiveAdapter` of eventing v0.49.2, and `MakeDeployment` of serving v0.50.0 after its defaults.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type ApiServerSource, adapterEnvironment, type KnativeService, queueEnvironment } from "./settings.ts";

const metadata = { name: "objects", namespace: "mimir" };
const sink = "http://127.0.0.1:9000/fn";

/** What the adapter of a source watches. */
function watchedBy(spec: ApiServerSource["spec"]): unknown {
  return JSON.parse(adapterEnvironment({ metadata, spec }, sink).K_SOURCE_CONFIG ?? "");
}

/** How queue-proxy is configured by a revision's spec; the function listens on 8080. */
function queueOf(spec: KnativeService["spec"]["template"]["spec"]) {
  const { SERVING_READINESS_PROBE: probe = "", ...env } = queueEnvironment(
    { metadata, spec: { template: { spec } } },
    8080,
    8012,
  );
  return { env, probe: JSON.parse(probe) as unknown };
}

test("an adapter watches the resources of its source in the source's namespace", () => {
  const rolled = {
    apiVersion: "apps/v1",
    kind: "StatefulSet",
    selector: { matchExpressions: [{ key: "rollout-group", operator: "Exists" }] },
  };
  assert.deepEqual(watchedBy({ mode: "Reference", resources: [rolled] }), {
    namespaces: ["mimir"],
    allNamespaces: false,
    resources: [{ gvr: { Group: "apps", Version: "v1", Resource: "statefulsets" }, selector: "rollout-group" }],
    mode: "Reference",
  });
});

test("an adapter is configured with selectors, owner, filters and all namespaces as by Knative's controller", () => {
  const matchExpressions = [
    { key: "c", operator: "In", values: ["y", "x"] },
    { key: "d", operator: "NotIn", values: ["z"] },
    { key: "aa", operator: "DoesNotExist" },
  ];
  const networking = "networking.k8s.io/v1";
  const of = (Group: string, Resource: string) => ({ Group, Version: "v1", Resource });
  const watched = watchedBy({
    namespaceSelector: {},
    mode: "Resource",
    owner: { apiVersion: "apps/v1", kind: "StatefulSet" },
    filters: [{ cesql: "kind = 'Pod'" }],
    resources: [
      { apiVersion: "v1", kind: "Pod", selector: { matchLabels: { b: "2", a: "1" }, matchExpressions } },
      { apiVersion: networking, kind: "NetworkPolicy" },
      { apiVersion: "v1", kind: "Endpoints" },
      { apiVersion: networking, kind: "Ingress", selector: {} },
    ],
  });
  assert.deepEqual(watched, {
    namespaces: [""],
    allNamespaces: true,
    resources: [
      { gvr: of("", "pods"), selector: "a=1,!aa,b=2,c in (x,y),d notin (z)" },
      { gvr: of("networking.k8s.io", "networkpolicies") },
      { gvr: of("", "endpoints") },
      { gvr: of("networking.k8s.io", "ingresses") },
    ],
    owner: { apiVersion: "apps/v1", kind: "StatefulSet" },
    mode: "Resource",
    filters: [{ cesql: "kind = 'Pod'" }],
  });
});

test("an adapter is configured with its sink and extensions, and with nothing that its source does not have", () => {
  const spec = { resources: [] };
  const plain = adapterEnvironment({ metadata, spec }, sink);
  assert.equal(plain.K_SINK, sink);
  assert.equal(plain.NAME, "objects");
  assert.equal(plain.K_CE_OVERRIDES, undefined);
  const overridden = { metadata, spec: { ...spec, ceOverrides: { extensions: { cluster: "test" } } } };
  assert.equal(adapterEnvironment(overridden, sink).K_CE_OVERRIDES, '{"extensions":{"cluster":"test"}}');
});

test("a source that selects namespaces by label, or does not say its own, is refused", () => {
  const namespaceSelector = { matchLabels: { team: "storage" } };
  assert.throws(() => watchedBy({ resources: [], namespaceSelector }), /objects selects namespaces by label/);
  assert.throws(
    () => adapterEnvironment({ metadata: { name: "o" }, spec: { resources: [] } }, sink),
    /no metadata.namespace/,
  );
});

test("queue-proxy is configured with concurrency, time-outs and the probe of a Service", () => {
  const { env, probe } = queueOf({
    containerConcurrency: 3,
    timeoutSeconds: 20,
    responseStartTimeoutSeconds: 5,
    idleTimeoutSeconds: 7,
    containers: [{ readinessProbe: { httpGet: { path: "/readyz" }, timeoutSeconds: 1 } }],
  });
  assert.equal(env.CONTAINER_CONCURRENCY, "3");
  assert.equal(env.REVISION_TIMEOUT_SECONDS, "20");
  assert.equal(env.REVISION_RESPONSE_START_TIMEOUT_SECONDS, "5");
  assert.equal(env.REVISION_IDLE_TIMEOUT_SECONDS, "7");
  assert.equal(env.USER_PORT, "8080");
  assert.equal(env.QUEUE_SERVING_PORT, "8012");
  assert.equal(env.SERVING_REVISION, "objects-00001");
  assert.deepEqual(probe, {
    httpGet: { path: "/readyz", port: 8080, host: "127.0.0.1", scheme: "HTTP" },
    timeoutSeconds: 1,
    successThreshold: 1,
  });
});

test("queue-proxy has Serving's defaults of a Service that says nothing", () => {
  const { env, probe } = queueOf({ containers: [{}] });
  assert.equal(env.CONTAINER_CONCURRENCY, "0");
  assert.equal(env.REVISION_TIMEOUT_SECONDS, "300");
  assert.equal(env.REVISION_RESPONSE_START_TIMEOUT_SECONDS, "0");
  assert.equal(env.REVISION_IDLE_TIMEOUT_SECONDS, "0");
  assert.deepEqual(probe, { tcpSocket: { port: 8080, host: "127.0.0.1" }, successThreshold: 1 });
  const periodic = queueOf({ containers: [{ readinessProbe: { tcpSocket: {}, periodSeconds: 2 } }] });
  assert.deepEqual(periodic.probe, {
    tcpSocket: { port: 8080, host: "127.0.0.1" },
    timeoutSeconds: 1,
    periodSeconds: 2,
    successThreshold: 1,
    failureThreshold: 3,
  });
});
