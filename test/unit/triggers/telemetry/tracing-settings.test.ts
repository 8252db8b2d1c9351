import assert from "node:assert/strict";
import { test } from "node:test";
import { readTracing, samplers } from "../../../../triggers/telemetry/tracing-settings.ts";

const collector = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4318" };

test("nothing is traced without an exporter or an endpoint, as with rollout-operator", () => {
  const silent = { tracing: undefined, warnings: [] };
  assert.deepEqual(readTracing({}), silent);
  assert.deepEqual(readTracing({ OTEL_SERVICE_NAME: "mine", OTEL_TRACES_SAMPLER: "nonsense" }), silent);
  assert.deepEqual(readTracing({ OTEL_EXPORTER_OTLP_ENDPOINT: " " }), silent);
  for (const name of ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"]) {
    assert.equal(readTracing({ [name]: "https://collector:4318" }).tracing?.exporter, "otlp");
  }
  assert.equal(readTracing({ OTEL_TRACES_EXPORTER: "otlp" }).tracing?.exporter, "otlp");
  assert.equal(readTracing({ OTEL_TRACES_EXPORTER: "Console" }).tracing?.exporter, "console");
});

test("OTEL_SDK_DISABLED and the exporter none turn tracing off, whatever else is set", () => {
  assert.equal(readTracing({ ...collector, OTEL_SDK_DISABLED: "TRUE" }).tracing, undefined);
  assert.equal(readTracing({ ...collector, OTEL_TRACES_EXPORTER: "none" }).tracing, undefined);
  assert.ok(readTracing({ ...collector, OTEL_SDK_DISABLED: "false" }).tracing);
});

test("the defaults are those of OpenTelemetry's specification", () => {
  assert.deepEqual(readTracing(collector), {
    tracing: {
      exporter: "otlp",
      protocol: "http/protobuf",
      sampler: "parentbased_always_on",
      ratio: 1,
      batch: { scheduledDelayMillis: 5_000, exportTimeoutMillis: 30_000, maxQueueSize: 2_048, maxExportBatchSize: 512 },
    },
    warnings: [],
  });
});

test("every sampler, ratio, protocol and batch limit is accepted, and a signal's own variable overrides the common one", () => {
  for (const sampler of samplers) {
    assert.equal(readTracing({ ...collector, OTEL_TRACES_SAMPLER: sampler }).tracing?.sampler, sampler);
  }
  const { tracing, warnings } = readTracing({
    ...collector,
    OTEL_TRACES_SAMPLER_ARG: "0.25",
    OTEL_EXPORTER_OTLP_PROTOCOL: "http/protobuf",
    OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: "http/json",
    OTEL_BSP_SCHEDULE_DELAY: "100",
    OTEL_BSP_EXPORT_TIMEOUT: "200",
    OTEL_BSP_MAX_QUEUE_SIZE: "300",
    OTEL_BSP_MAX_EXPORT_BATCH_SIZE: "40",
  });
  assert.deepEqual(warnings, []);
  assert.equal(tracing?.ratio, 0.25);
  assert.equal(tracing?.protocol, "http/json");
  assert.deepEqual(Object.values(tracing?.batch ?? {}), [100, 200, 300, 40]);
});

test("an invalid value causes one warning that says what to write, and counts as not set", () => {
  const wrong = {
    OTEL_SDK_DISABLED: "yes",
    OTEL_TRACES_EXPORTER: "zipkin",
    OTEL_EXPORTER_OTLP_PROTOCOL: "grpc",
    OTEL_TRACES_SAMPLER: "jaeger_remote",
    OTEL_TRACES_SAMPLER_ARG: "2",
    OTEL_BSP_SCHEDULE_DELAY: "5s",
    OTEL_BSP_EXPORT_TIMEOUT: "-1",
    OTEL_BSP_MAX_QUEUE_SIZE: "0",
    OTEL_BSP_MAX_EXPORT_BATCH_SIZE: "1.5",
  };
  const { tracing, warnings } = readTracing({ ...collector, ...wrong });
  assert.deepEqual(tracing, readTracing(collector).tracing);
  assert.equal(warnings.length, Object.keys(wrong).length);
  for (const [name, value] of Object.entries(wrong)) {
    assert.equal(warnings.filter((line) => line.startsWith(`${name} is "${value}"; write `)).length, 1, name);
  }
});

test("the warning about a malformed endpoint does not contain its text, and no span is sent elsewhere", () => {
  for (const text of ["collector:4318", "user:secret@collector", "grpc://collector:4317"]) {
    const { tracing, warnings } = readTracing({ OTEL_EXPORTER_OTLP_ENDPOINT: text });
    assert.equal(tracing, undefined);
    assert.equal(warnings.length, 1);
    assert.match(warnings[0] ?? "", /^OTEL_EXPORTER_OTLP_ENDPOINT is no URL/);
    assert.ok(!warnings[0]?.includes("secret"));
  }
});

test("rollout-operator's variables for Jaeger are reported as unknown", () => {
  for (const name of ["JAEGER_AGENT_HOST", "JAEGER_ENDPOINT", "JAEGER_SAMPLER_MANAGER_HOST_PORT"]) {
    const { tracing, warnings } = readTracing({ [name]: "jaeger" });
    assert.equal(tracing, undefined);
    assert.match(warnings.join(), new RegExp(`^${name} is not known here`));
  }
});
