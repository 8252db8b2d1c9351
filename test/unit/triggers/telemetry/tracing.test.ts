import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { isStandard } from "../../../../functions/shared/contract/definition.ts";
import { groupFunctions } from "../../../../triggers/table.ts";
import { eventually } from "../../../controlplane/api.ts";
import { binaryHeaders, structured } from "../../../support/app.ts";
import { kubeconfigText } from "../../../support/kubeconfig.ts";
import { namespace, newImage, type ServedGroup, serveGroup } from "../../../support/served-group.ts";
import { launchServer, Server } from "../../../support/server.ts";
import { type Collector, type ReceivedSpan, spanKinds, startCollector } from "../../../support/tracing-collector.ts";

/** Longer than any test, so that a collector gets spans only when the process ends. */
const notBeforeTheEnd = { OTEL_BSP_SCHEDULE_DELAY: "600000" };
const hop = { traceId: "0af7651916cd43dd8448eb211c80319c", spanId: "b7ad6b7169203331" };
const origin = { traceId: "4bf92f3577b34da6a3ce929d0e0e4736", spanId: "00f067aa0ba902b7" };
const webhook = { traceId: "11111111111111111111111111111111", spanId: "2222222222222222" };
const parentOf = ({ traceId, spanId }: typeof hop) => `00-${traceId}-${spanId}-01`;
const idOf = ({ traceId, spanId }: typeof hop) => `${traceId}-${spanId}`;

describe("traces of a rollout, a review and their requests", () => {
  let stage: ServedGroup;
  let folder: string;
  let collector: Collector;
  let kubeconfig: string;
  const asked: { what: string; traceparent: string }[] = [];

  before(async () => {
    stage = await serveGroup({ seed: 1, pods: 2, drop: 0 });
    stage.served.server.prependListener("request", ({ method, url, headers }) => {
      asked.push({ what: `${method} ${url}`, traceparent: String(headers.traceparent ?? "") });
    });
    folder = await mkdtemp(join(tmpdir(), "sluice-tracing-"));
    kubeconfig = join(folder, "kubeconfig");
    await writeFile(kubeconfig, kubeconfigText(stage.served.url, {}));
    collector = await startCollector();
  });

  after(async () => {
    await collector?.close();
    await stage?.close();
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  });

  function start(settings: Readonly<Record<string, string>>): Promise<Server> {
    return Server.start({ kubeconfig, namespace, settings: { VIEWS: "list", REVIEWS_ON_PORT: "true", ...settings } });
  }

  async function post(url: string, headers: Record<string, string>, body: object): Promise<number> {
    return (await fetch(url, { method: "POST", headers, body: JSON.stringify(body) })).status;
  }

  /** Sends two events about one group at the same time, and a review. Resolves when the rollout has begun. */
  async function play(server: Server): Promise<void> {
    await server.ready();
    const [first, second] = stage.group.statefulSets.map(({ name }) => name);
    for (const statefulSet of stage.group.statefulSets) stage.world.changeTemplate(statefulSet, newImage);
    const [name = "", other] = [first, second];
    const traced = { traceparent: parentOf(hop), tracestate: "vendor=hop", "ce-traceparent": parentOf(origin) };
    const binary = { ...binaryHeaders, "ce-namespace": namespace, "ce-name": name, ...traced };
    const data = { kind: "StatefulSet", apiVersion: "apps/v1", namespace, name: other };
    const event = { ...structured, data, traceparent: parentOf(origin), tracestate: "vendor=origin" };
    assert.equal(await post(server.url, binary, {}), 204);
    assert.equal(await post(server.url, { "content-type": "application/cloudevents+json" }, event), 204);
    await eventually("the first deletion", 30_000, async () =>
      stage.served.requests().some(({ verb }) => verb === "delete") ? true : undefined,
    );
    const request = { uid: "u-1", operation: "CREATE", subResource: "eviction", namespace, name: "gone-0" };
    const review = { apiVersion: "admission.k8s.io/v1", kind: "AdmissionReview", request };
    const headers = { "content-type": "application/json", traceparent: parentOf(webhook) };
    assert.equal(await post(`${server.url}/admission/pod-eviction`, headers, review), 200);
  }

  test("spans join their callers, link to their triggers, reach the API server, and are sent at SIGTERM", async () => {
    const server = await start({
      // Only these two events trigger the second reconcile.
      GATHER_MS: "1000",
      ...notBeforeTheEnd,
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
      OTEL_EXPORTER_OTLP_HEADERS: "authorization=Bearer%20token",
      OTEL_SERVICE_NAME: "my-sluice",
      OTEL_RESOURCE_ATTRIBUTES: "deployment.environment.name=test",
    });
    await play(server);
    assert.equal(collector.requests.length, 0);
    assert.equal((await server.stop()).code, 0);
    const [sent] = collector.requests;
    assert.equal(sent?.path, "/v1/traces");
    assert.equal(sent?.headers.authorization, "Bearer token");
    const resource = collector.resource();
    assert.deepEqual([resource["service.name"], resource["deployment.environment.name"]], ["my-sluice", "test"]);
    const spans = collector.spans();
    const [binary, inBody] = assertEvents(spans);
    const reconcile = assertReconciles(spans, [idOf(binary), idOf(inBody)]);
    assertRequests(spans, reconcile);
    assertReview(spans);
  });

  function assertEvents(spans: readonly ReceivedSpan[]): [ReceivedSpan, ReceivedSpan] {
    const events = spans.filter(({ name }) => name === "receive event");
    const [binary, inBody] = [hop, origin].map(({ spanId }) =>
      events.find(({ parentSpanId }) => parentSpanId === spanId),
    );
    assert.ok(binary !== undefined && inBody !== undefined && events.length === 2);
    assert.deepEqual([binary.traceId, binary.traceState, binary.links], [hop.traceId, "vendor=hop", [idOf(origin)]]);
    assert.deepEqual([inBody.traceId, inBody.traceState, inBody.links], [origin.traceId, "vendor=origin", []]);
    for (const { kind, attributes } of events) {
      assert.equal(kind, spanKinds.consumer);
      assert.equal(attributes["cloudevents.event_type"], "dev.knative.apiserver.ref.update");
      assert.equal(attributes["sluice.event.result"], "queued");
    }
    return [binary, inBody];
  }

  /** The reconcile that both events triggered. */
  function assertReconciles(spans: readonly ReceivedSpan[], triggers: readonly string[]): ReceivedSpan {
    const reconciles = spans.filter(({ name }) => name === "pass advance-zone-rollout");
    const [sweep, ...more] = spans.filter(({ name }) => name === "sweep");
    assert.ok(sweep !== undefined && reconciles.some(({ links }) => links.includes(idOf(sweep))));
    assert.deepEqual(more, [], "a function's schedule has spans of its own name");
    const due = spans.map(({ name }) => name).filter((name) => name.startsWith("due "));
    const standard = groupFunctions.filter(isStandard);
    const scheduled = standard.filter(({ schedule }) => schedule !== undefined).map(({ name }) => `due ${name}`);
    assert.deepEqual([...new Set(due)].sort(), scheduled.sort());
    const triggered = reconciles.find(({ links }) => triggers.every((one) => links.includes(one)));
    assert.ok(triggered !== undefined, JSON.stringify(reconciles));
    assert.deepEqual([triggered.parentSpanId, triggered.kind], ["", spanKinds.internal]);
    assert.equal(triggered.attributes["k8s.namespace.name"], namespace);
    assert.equal(triggered.attributes["sluice.group"], stage.group.group);
    assert.equal(triggered.attributes["sluice.guard"], "rolling");
    return triggered;
  }

  /** Each request of the reconcile is a span of its trace, and carried the id of that span. */
  function assertRequests(spans: readonly ReceivedSpan[], reconcile: ReceivedSpan): void {
    const inReconcile = spans.filter(({ parentSpanId }) => parentSpanId === reconcile.spanId);
    const names = new Set(inReconcile.map(({ name }) => name));
    for (const name of ["PATCH coordination.k8s.io/v1/leases object", "DELETE core/v1/pods object"]) {
      assert.ok(names.has(name), [...names].join());
    }
    for (const span of spans.filter(({ kind }) => kind === spanKinds.client)) {
      const { "http.request.method": method, "url.path": path, "server.port": port } = span.attributes;
      assert.equal(port, stage.served.port);
      const requests = asked.filter(({ traceparent }) => traceparent === `00-${idOf(span)}-01`);
      assert.equal(requests.length, 1, span.name);
      assert.equal(requests[0]?.what.split("?")[0], `${method} ${path}`);
    }
    assert.ok(asked.every(({ traceparent }) => traceparent !== ""));
  }

  function assertReview(spans: readonly ReceivedSpan[]): void {
    const review = spans.find(({ name }) => name === "review evaluate-eviction");
    assert.deepEqual([review?.traceId, review?.parentSpanId], [webhook.traceId, webhook.spanId]);
    assert.equal(review?.kind, spanKinds.server);
    assert.equal(review?.attributes["url.path"], "/admission/pod-eviction");
    assert.equal(review?.attributes["sluice.allowed"], false);
    const request = spans.find(({ parentSpanId }) => parentSpanId === review?.spanId);
    assert.equal(request?.name, "GET core/v1/pods object");
    assert.deepEqual([request?.isError, request?.attributes["http.response.status_code"]], [true, 404]);
  }

  test("the default protocol is protobuf, and with the sampler none only spans that a caller requests are kept", async (t) => {
    const ours = await startCollector();
    t.after(() => ours.close());
    const settings = { ...notBeforeTheEnd, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${ours.url}/own/path` };
    const server = await start({ ...settings, OTEL_TRACES_SAMPLER: "parentbased_always_off" });
    await server.ready();
    const event = { ...structured, traceparent: parentOf(origin) };
    assert.equal(await post(server.url, { "content-type": "application/cloudevents+json" }, event), 204);
    assert.equal((await server.stop()).code, 0);
    const [sent, ...more] = ours.requests;
    assert.equal(more.length, 0);
    assert.deepEqual([sent?.path, sent?.headers["content-type"]], ["/own/path", "application/x-protobuf"]);
    const text = String(sent?.body.toString("latin1"));
    assert.ok(text.includes("receive event") && text.includes(Buffer.from(origin.traceId, "hex").toString("latin1")));
    assert.ok(text.includes("sluice") && !text.includes("sweep") && !text.includes("due "));
  });

  test("an unreachable collector causes one warning, and delays neither the server's work nor its end", async () => {
    const closed = createServer().listen(0, "127.0.0.1");
    await new Promise((resolve) => closed.once("listening", resolve));
    const { port } = closed.address() as { port: number };
    await new Promise((resolve) => closed.close(resolve));
    const server = await start({
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`,
      OTEL_EXPORTER_OTLP_TIMEOUT: "100",
      OTEL_BSP_SCHEDULE_DELAY: "50",
      OTEL_TRACES_SAMPLER_ARG: "half",
    });
    await server.ready();
    const warnings = () =>
      server.log.filter(({ reason }) => reason === "tracing").map(({ level, msg }) => `${level} ${msg}`);
    await eventually("the warning", 30_000, async () => (warnings().length > 1 ? true : undefined));
    assert.equal(await post(server.url, { "content-type": "application/cloudevents+json" }, structured), 204);
    assert.equal((await server.stop()).code, 0);
    const [wrong, away, ...more] = warnings();
    assert.equal(wrong, 'warn OTEL_TRACES_SAMPLER_ARG is "half"; write a number from 0 to 1. Until then: 1');
    assert.match(away ?? "", /^warn spans could not be sent: .*ECONNREFUSED/);
    assert.deepEqual(more, []);
  });

  test("without tracing, no part of OpenTelemetry but its API is loaded", async () => {
    const hook = `import{registerHooks}from"node:module";registerHooks({load(u,c,n){if(u.includes("@opentelemetry/"))console.error(u);return(n(u,c))}})`;
    const settings = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(hook)}`, VIEWS: "list" };
    const launched = launchServer({ kubeconfig, namespace, settings });
    await eventually("the server listening", 30_000, async () =>
      launched.printed().stdout.includes("listening on port") ? true : undefined,
    );
    await launched.stop(10_000);
    const loaded = launched
      .printed()
      .stderr.split("\n")
      .filter((line) => line !== "");
    assert.ok(loaded.length > 0);
    assert.deepEqual(
      loaded.filter((url) => !url.includes("/@opentelemetry/api/")),
      [],
    );
  });
});
