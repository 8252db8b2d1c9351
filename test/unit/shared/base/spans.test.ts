import assert from "node:assert/strict";
import { test } from "node:test";
import { inSpan } from "../../../../functions/shared/base/spans.ts";
import { startTracing } from "../../../../triggers/telemetry/tracing.ts";
import { get, rejection, withPods } from "../../../support/played-pods.ts";
import { spanKinds, startCollector } from "../../../support/tracing-collector.ts";

test("each try of a call has its own span, whose traceparent the pod receives", { timeout: 20_000 }, async () => {
  const collector = await startCollector();
  const environment = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_EXPORTER_OTLP_PROTOCOL: "http/json" };
  // The SDK reads the address of the collector from the environment of the process.
  Object.assign(process.env, environment);
  const tracing = await startTracing(environment, "0.0.0", (_, message) => assert.fail(message));
  let parent = "";
  const received: unknown[] = [];
  await withPods({}, async ({ address, pods, asked, answer }) => {
    answer(({ index, response }) => (index === 0 ? response.destroy() : response.writeHead(409).end()));
    await inSpan(
      "a reconcile",
      () => ({}),
      async (span) => {
        parent = span.spanContext().spanId;
        await pods.send(address, { ...get, path: "/ready?key=secret" });
        await rejection(pods.send({ ...address, port: 0 }, get));
      },
    );
    received.push(...asked.map(({ request }) => request.headers.traceparent));
  });
  await tracing.stop();
  const spans = collector.spans().filter(({ name }) => name === "GET pod");
  assert.equal(spans.length, 2);
  assert.deepEqual(
    received,
    spans.map(({ traceId, spanId }) => `00-${traceId}-${spanId}-01`),
  );
  assert.ok(spans.every((span) => span.parentSpanId === parent && span.kind === spanKinds.client));
  assert.deepEqual(
    spans.map(({ isError }) => isError),
    [true, false],
  );
  const { "server.port": port, ...reported } = spans[1]?.attributes ?? {};
  assert.ok(Number(port) > 0);
  const host = "web-0.web.ns.svc.cluster.local.";
  assert.deepEqual(reported, {
    "http.request.method": "GET",
    "http.request.resend_count": 1,
    "http.response.status_code": 409,
    "k8s.namespace.name": "ns",
    "k8s.pod.name": "web-0",
    "server.address": host,
    "url.full": `http://${host}:${port}/ready`,
    "url.path": "/ready",
  });
  await collector.close();
});
